# src/backend/cuda/libs.cmake: the LLVM kit with its PTX generator; the driver is opened at run time, nothing of CUDA is linked
set(DEPENDS gpu host)
set(LINK hologram_compression ${CMAKE_DL_LIBS})
set(LLVM NVPTX)
set(HERE assembler.cpp backend.cpp builtin.cpp driver.cpp facts.cpp faults.cpp graph.cpp grids.cpp kernel.cpp launch.cpp
    launches.cpp machine.cpp mapped.cpp maps.cpp memory.cpp order.cpp settings.cpp target.cpp witness.cpp)
set(TOGETHER TOGETHER)
set(ALONE backend.cpp builtin.cpp)
