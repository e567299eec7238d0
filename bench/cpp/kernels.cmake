# bench/cpp/kernels.cmake: kernels alone, without graphs
set(LIBS backend/cpu atlas)
set(LINK "")
