# src/backend/cpu/libs.cmake: the LLVM kit; who links this gets the kernels that come with the library too
set(DEPENDS codegen builtin host strips)
set(LINK hologram_llvm)
set(LLVM X86 AArch64 WebAssembly)
set(TOGETHER TOGETHER)
set(ALONE choices.cpp keys.cpp processor.cpp target.cpp variants.cpp)
