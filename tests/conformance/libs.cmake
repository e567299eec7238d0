# tests/conformance/libs.cmake: every backend of the build runs the corpus and the programs of these tests
set(LIBS runtime)
set(LINK hologram_fake_cuda hologram_test_wgpu hologram_test_programs hologram_amx)
set(SHARDS 4)
foreach(name IN ITEMS random_graph reference)
  list(APPEND SOURCES "${CMAKE_CURRENT_SOURCE_DIR}/unit/${name}.cpp")
endforeach()
set(TOGETHER ON)
