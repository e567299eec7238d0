# bench/cpp/kernels.cmake: kernels alone, without graphs
set(LIBS codegen atlas)
set(LINK "")
