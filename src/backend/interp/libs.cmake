# src/backend/interp/libs.cmake: the interpreter
set(DEPENDS interp)
set(TOGETHER TOGETHER)
