# bench/cpp/codegen.cmake: loop kernels alone, without graphs
set(LIBS backend/cpu atlas)
