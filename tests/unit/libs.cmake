# tests/unit/libs.cmake: what needs no LLVM
set(LIBS interp schedule atlas canon rewrite ir base)
set(TOGETHER ON)
