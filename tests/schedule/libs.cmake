# tests/schedule/libs.cmake: plans are run on the interpreter
set(LIBS schedule interp)
set(TOGETHER ON)
