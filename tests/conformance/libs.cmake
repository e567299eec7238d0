# tests/conformance/libs.cmake: every backend of the build runs the corpus and the programs of these tests
set(LIBS runtime)
set(LINK hologram_fake_cuda)
set(SHARDS 4)
foreach(name IN ITEMS attention_grad exp loop machines ops ranges reduce rows scan sort transpose window)
  list(APPEND SOURCES "${CMAKE_CURRENT_SOURCE_DIR}/codegen/${name}_test.cpp")
endforeach()
