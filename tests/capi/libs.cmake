# tests/capi/libs.cmake: the C interface, from C++ and, in header_c99.c, from strict C99
set(LIBS capi)
if(NOT TARGET capi_c99)
  add_library(capi_c99 OBJECT "${CMAKE_CURRENT_SOURCE_DIR}/capi/header_c99.c")
  target_include_directories(capi_c99 PRIVATE "${PROJECT_SOURCE_DIR}/include")
  set_target_properties(capi_c99 PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  target_compile_options(capi_c99 PRIVATE -Wall -Wextra -Werror -pedantic -Wstrict-prototypes)
endif()
set(LINK capi_c99)
