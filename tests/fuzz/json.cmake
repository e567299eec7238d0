# tests/fuzz/json.cmake: the reader alone, without the library around it
set(SOURCES "${PROJECT_SOURCE_DIR}/src/capi/json.cpp")
