# bench/cpp/contention.cmake: OpenMP is the peer that is measured; the program has its own main
find_package(OpenMP REQUIRED COMPONENTS CXX)
set(LIBS runtime)
set(LINK OpenMP::OpenMP_CXX)
