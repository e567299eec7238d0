# tests/fuzz/stored_plan.cmake: the reader alone, without the planner
set(SOURCES "${PROJECT_SOURCE_DIR}/src/schedule/binary.cpp")
