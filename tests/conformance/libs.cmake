# tests/conformance/libs.cmake: every backend of the build runs the corpus
set(LIBS runtime)
set(SHARDS 2)
