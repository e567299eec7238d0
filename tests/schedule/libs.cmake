# tests/schedule/libs.cmake: plans are run on the interpreter
set(LIBS schedule interp)
foreach(name IN ITEMS plan_run reference)
  list(APPEND SOURCES "${CMAKE_CURRENT_SOURCE_DIR}/unit/${name}.cpp")
endforeach()
set(TOGETHER ON)
