# bench/cpp/products.cmake: compiled products alone, without graphs
set(LIBS runtime backend/cpu atlas)
