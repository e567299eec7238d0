# tests/backend_cuda_90/libs.cmake: the backend over the fake driver with devices of compute capability 9.0
set(LIBS runtime)
set(LINK hologram_ptx hologram_fake_cuda)
set(SOURCES "${CMAKE_CURRENT_SOURCE_DIR}/backend_cuda/cuda_test.cpp")
if(NOT TARGET hologram_backend_cuda)
  set(SKIP "this LLVM generates no PTX")
endif()
set(TOGETHER ON)
