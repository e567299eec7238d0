# tests/unit/libs.cmake: what needs no LLVM
set(LIBS backend/interp schedule atlas canon rewrite ir base)
set(TOGETHER ON)
