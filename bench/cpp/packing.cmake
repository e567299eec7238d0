# bench/cpp/packing.cmake: kernels alone and whole graphs; the program has its own main
set(LIBS runtime backend/cpu atlas)
set(LINK "")
