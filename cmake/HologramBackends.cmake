# cmake/HologramBackends.cmake: a library per folder that HOLOGRAM_BACKENDS names, and the table of them
#
# src/backend/<name>/libs.cmake may set
#   DEPENDS  folders of src/ to link beside atlas, ir and base
#   LINK     further targets
#   LLVM     components of LLVM (cmake/HologramDependencies.cmake adds them to the kit's)
#   HERE     with LLVM: its files that are without it; the others are part of libhologram_compiler, and the folder offers a
#            struct Compiler of theirs and compiler(), which gives it (src/compiler)
#   TOGETHER TOGETHER, if its files may be compiled several at a time (hologram_library)
#   ALONE    those of them that may not
#   INTERFACES names of their own for its devices of one interface
# The folder offers, in the namespace of its name, make_backend() and device_count() of backend/registry.h; in it, in one of
# each interface's name, these for its devices.

# hologram_backend_settings(<name>): DEPENDS, LINK, LLVM, HERE, TOGETHER, ALONE and INTERFACES of one backend, in the caller's scope
macro(hologram_backend_settings name)
  set(DEPENDS "")
  set(LINK "")
  set(LLVM "")
  set(HERE "")
  set(TOGETHER "")
  set(ALONE "")
  set(INTERFACES "")
  include("${PROJECT_SOURCE_DIR}/src/backend/${name}/libs.cmake" OPTIONAL)
endmacro()

# hologram_sources_hash(<header> <namespace> <folder>...): writes generated/<header>, a hash of the folders' files and
# of LLVM's version
function(hologram_sources_hash header namespace)
  set(patterns ${ARGN})
  list(TRANSFORM patterns REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/\\1/*")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${patterns})
  set(out "${PROJECT_BINARY_DIR}/generated/${header}")
  string(MAKE_C_IDENTIFIER "${header}" id)
  set(list "${PROJECT_BINARY_DIR}/sources_of_${id}.txt")
  string(REPLACE ";" "\n" text "${sources}")
  file(CONFIGURE OUTPUT "${list}" CONTENT "${text}\n")
  add_custom_command(
    OUTPUT "${out}"
    COMMAND "${CMAKE_COMMAND}" "-DLIST=${list}" "-DOUT=${out}" "-DNAMESPACE=${namespace}"
            "-DVERSION=LLVM ${LLVM_PACKAGE_VERSION}" -P "${PROJECT_SOURCE_DIR}/cmake/fingerprint.cmake"
    DEPENDS ${sources} "${list}" VERBATIM)
endfunction()

# hologram_backends(<name>...): the libraries, and backend/backends.inc
function(hologram_backends)
  set(rows "")
  set(compilers "")
  set(folders "")
  foreach(name IN LISTS ARGN)
    hologram_backend_settings(${name})
    if(LLVM)
      hologram_library(backend/${name} ONCE ${TOGETHER} FILES ${HERE} ALONE ${ALONE} DEPENDS ${DEPENDS} atlas ir base LINK ${LINK})
      set(compiler hologram_backend_${name}_compiler)
      hologram_library(backend/${name} NAME ${compiler} TOGETHER EXCEPT ${HERE} DEPENDS codegen ${DEPENDS} atlas ir base LINK hologram_llvm)
      target_link_libraries(${compiler} INTERFACE hologram_backend_${name})
      # Whoever links all of it needs nothing that opens a library.
      target_link_libraries(hologram_backend_${name} INTERFACE
                            $<$<NOT:$<BOOL:$<TARGET_PROPERTY:HOLOGRAM_WITHOUT_COMPILER>>>:${compiler}>)
      set_property(GLOBAL APPEND PROPERTY HOLOGRAM_COMPILERS ${compiler})
      string(APPEND compilers "HOLOGRAM_COMPILER(${name})\n")
    else()
      hologram_library(backend/${name} ${TOGETHER} ALONE ${ALONE} DEPENDS ${DEPENDS} atlas ir base LINK ${LINK})
    endif()
    # Cached kernels are keyed by the sources that made them: no build runs another one's machine code.
    set(makers atlas codegen backend/${name})
    if("gpu" IN_LIST DEPENDS)
      list(APPEND makers gpu)
    endif()
    hologram_sources_hash(backend/${name}/sources.h ${name} ${makers})
    target_sources(hologram_backend_${name} PRIVATE "${PROJECT_BINARY_DIR}/generated/backend/${name}/sources.h")
    string(APPEND rows "HOLOGRAM_BACKEND(${name})\n")
    foreach(interface IN LISTS INTERFACES)
      string(APPEND rows "HOLOGRAM_INTERFACE(${name}, ${interface})\n")
    endforeach()
    list(APPEND folders backend/${name})
  endforeach()
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/backend/backends.inc"
       CONTENT "// made by cmake/HologramBackends.cmake: in the order in which \"auto\" tries them\n${rows}")
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/compiler/backends.inc"
       CONTENT "// made by cmake/HologramBackends.cmake: those that libhologram_compiler has a part of\n${compilers}")
  hologram_library(backend FLAT DEPENDS ${folders})
endfunction()
