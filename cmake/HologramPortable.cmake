# cmake/HologramPortable.cmake: what is shipped runs on systems with glibc 2.28 (manylinux_2_28), built on newer ones
#
# Three things are needed: shims for functions that came later (portable/shims.cpp); libstdc++'s own objects for
# its newer functions; and, as the linker takes the newest version of a symbol that it sees, libraries to link
# with that show none newer than 2.28 (tools/old_glibc.py). tools/check_module.py checks what came out.
set(portable_default OFF)
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64|aarch64|arm64)$"
   AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT HOLOGRAM_SANITIZE)
  set(portable_default ON)
endif()
option(HOLOGRAM_PORTABLE "Make libhologram and the Python module run with glibc 2.28" ${portable_default})

# hologram_portable(<target>): the shared library <target> asks for nothing that came after glibc 2.28
function(hologram_portable target)
  if(HOLOGRAM_PORTABLE)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:hologram_portable>)
    target_link_options(${target} PRIVATE "-L${HOLOGRAM_PORTABLE_DIR}")  # no link directory: those are searched at run time
    # pthread and dl were libraries of their own. Before our archives, the C++ library is what gives these objects what it
    # shares with inline functions: an archive's member that holds such a one would come in with all that it needs.
    target_link_libraries(${target} PRIVATE ${HOLOGRAM_PORTABLE_OBJECTS} stdc++ pthread dl)
  endif()
endfunction()

if(NOT HOLOGRAM_PORTABLE)
  return()
endif()
find_package(Python 3.10 COMPONENTS Interpreter QUIET)
execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libstdc++.a
                OUTPUT_VARIABLE archive OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
if(NOT Python_Interpreter_FOUND OR NOT IS_ABSOLUTE "${archive}")
  message(STATUS "no Python or no static libstdc++: libhologram will need the glibc of this system or a newer one")
  set(HOLOGRAM_PORTABLE OFF)
  return()
endif()

set(HOLOGRAM_PORTABLE_DIR "${PROJECT_BINARY_DIR}/portable")
file(MAKE_DIRECTORY "${HOLOGRAM_PORTABLE_DIR}")
execute_process(
  COMMAND "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tools/old_glibc.py" 2.28 "${HOLOGRAM_PORTABLE_DIR}"
          "${CMAKE_C_COMPILER}"
  COMMAND_ERROR_IS_FATAL ANY)

# GLIBCXX 3.4.26 to 3.4.29: std::filesystem, from_chars and to_chars of floating numbers, and what those need.
set(members fs_dir.o fs_ops.o fs_path.o floating_from_chars.o floating_to_chars.o memory_resource.o)
execute_process(COMMAND "${CMAKE_AR}" x "${archive}" ${members}
                WORKING_DIRECTORY "${HOLOGRAM_PORTABLE_DIR}" COMMAND_ERROR_IS_FATAL ANY)
list(TRANSFORM members PREPEND "${HOLOGRAM_PORTABLE_DIR}/" OUTPUT_VARIABLE HOLOGRAM_PORTABLE_OBJECTS)

add_library(hologram_portable OBJECT "${CMAKE_CURRENT_LIST_DIR}/portable/shims.cpp")
target_compile_options(hologram_portable PRIVATE ${HOLOGRAM_WARNINGS})
