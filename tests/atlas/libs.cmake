# tests/atlas/libs.cmake: block and lane programs need no code generator
set(LIBS backend/interp)
set(TOGETHER ON)
