# tests/unit/libs.cmake: what needs no LLVM
set(LIBS canon rewrite ir base)
