# tests/fuzz/handles.cmake: the table alone, without the library around it
set(SOURCES "${PROJECT_SOURCE_DIR}/src/capi/handles.cpp")
