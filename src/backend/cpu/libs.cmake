# src/backend/cpu/libs.cmake: the LLVM kit, and the kernels that come with the library
set(DEPENDS codegen builtin host)
set(LINK hologram_kernels)
set(LLVM X86 AArch64)
