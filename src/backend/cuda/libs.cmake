# src/backend/cuda/libs.cmake: the LLVM kit with its PTX generator; the driver is opened at run time, nothing of CUDA is linked
set(DEPENDS codegen gpu host)
set(LINK hologram_llvm hologram_compression ${CMAKE_DL_LIBS})
set(LLVM NVPTX)
set(TOGETHER TOGETHER)
set(ALONE builtin.cpp)
