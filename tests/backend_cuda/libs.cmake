# tests/backend_cuda/libs.cmake: the backend over the fake driver, and the machine behind that
set(LIBS runtime)
set(TOGETHER ON)
set(LINK hologram_ptx hologram_fake_cuda)
if(NOT TARGET hologram_backend_cuda)
  set(SKIP "this LLVM generates no PTX")
endif()
