# tests/schedule/libs.cmake: plans are run on the interpreter
set(LIBS schedule backend/interp)
set(TOGETHER ON)
