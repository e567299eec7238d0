# tests/fuzz/archive_index.cmake: the reader alone, without the runtime
set(SOURCES "${PROJECT_SOURCE_DIR}/src/archive/index.cpp" "${PROJECT_SOURCE_DIR}/src/archive/file.cpp"
            "${PROJECT_SOURCE_DIR}/src/archive/archive.cpp")
