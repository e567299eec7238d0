# tests/fuzz/kernel_object.cmake: the linker alone, without the backend around it
set(SOURCES "${PROJECT_SOURCE_DIR}/src/backend/cpu/link.cpp" "${PROJECT_SOURCE_DIR}/src/backend/cpu/object_file.cpp")
