# tests/codegen/libs.cmake: compiled programs are compared with the interpreter
set(LIBS backend/cpu backend/interp schedule atlas ir base)
set(SHARDS 4)
set(TIMEOUT 1200)
