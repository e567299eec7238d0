# src/backend/cpu/libs.cmake: the LLVM kit; who links this gets the kernels that come with the library too
set(DEPENDS builtin host strips)
set(LLVM X86 AArch64 WebAssembly)
set(HERE backend.cpp choices.cpp image.cpp keys.cpp launch.cpp link.cpp load.cpp object_file.cpp processor.cpp target.cpp
    units.cpp variants.cpp lanes/run.cpp products/panels.cpp products/register_tile.cpp products/strided_load.cpp tiles/plan.cpp)
