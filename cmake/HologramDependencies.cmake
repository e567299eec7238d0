# cmake/HologramDependencies.cmake: outside libraries, all of them linked statically
#
# hologram_fmt, hologram_blake2, hologram_xxhash, hologram_compression and hologram_llvm are the only names the rest of
# the build uses; what they stand for is found here.

find_package(Threads REQUIRED)

# hologram_static_library(<target> <header> <archive>): an imported static library, or an error that
# names the Debian package to install.
function(hologram_static_library target header archive package)
  string(MAKE_C_IDENTIFIER "${archive}" id)
  find_path(HOLOGRAM_${id}_INCLUDE ${header} REQUIRED)
  find_library(HOLOGRAM_${id} NAMES ${archive})
  mark_as_advanced(HOLOGRAM_${id}_INCLUDE HOLOGRAM_${id})
  if(NOT HOLOGRAM_${id})
    message(FATAL_ERROR "${archive} was not found; on Debian: apt-get install ${package}")
  endif()
  add_library(${target} STATIC IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES
    IMPORTED_LOCATION "${HOLOGRAM_${id}}"
    INTERFACE_INCLUDE_DIRECTORIES "${HOLOGRAM_${id}_INCLUDE}")
endfunction()

# BLAKE2b for content fingerprints. The archive's multi-threaded variants (which want libgomp) are
# separate members and never pulled in.
hologram_static_library(hologram_blake2 blake2.h libb2.a libb2-dev)

# XXH3 for checksums of what this user's processes wrote.
hologram_static_library(hologram_xxhash xxhash.h libxxhash.a libxxhash-dev)

hologram_static_library(hologram_zlib zlib.h libz.a zlib1g-dev)
hologram_static_library(hologram_zstd zstd.h libzstd.a libzstd-dev)
add_library(hologram_compression INTERFACE)
target_link_libraries(hologram_compression INTERFACE hologram_zstd)

# fmt: Debian ships no static archive, so its out-of-line part is compiled here (header-only mode costs
# two seconds in every file).
find_package(fmt 9.1 REQUIRED)
if(fmt_VERSION VERSION_LESS 11)
  add_library(hologram_fmt STATIC "${CMAKE_CURRENT_LIST_DIR}/fmt_static.cpp")
else()
  add_library(hologram_fmt INTERFACE)
  target_compile_definitions(hologram_fmt INTERFACE FMT_HEADER_ONLY=1)
endif()
get_target_property(HOLOGRAM_FMT_INCLUDE fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
target_include_directories(hologram_fmt SYSTEM INTERFACE "${HOLOGRAM_FMT_INCLUDE}")

# LLVM: src/codegen and the backends that generate code through it link it. 19.1 is the tested version; asking for plain 19 is refused by LLVM's
# own version file.
find_package(LLVM 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/llvm)
set(HOLOGRAM_LLVM_COMPONENTS
    Core Support Analysis ScalarOpts InstCombine Vectorize TransformUtils IPO Target MC Object)
foreach(backend IN LISTS HOLOGRAM_BACKENDS)
  hologram_backend_settings(${backend})
  set(missing ${LLVM})
  list(REMOVE_ITEM missing ${LLVM_TARGETS_TO_BUILD})
  if(missing)
    message(STATUS "src/backend/${backend}: not built: this LLVM generates no code for ${missing}")
    list(REMOVE_ITEM HOLOGRAM_BACKENDS ${backend})
    continue()
  endif()
  list(APPEND HOLOGRAM_LLVM_COMPONENTS ${LLVM})
endforeach()

# hologram_collect_llvm(<out> <library>...): the archives of the libraries and of all they need.
# LLVM's exported targets also name shared system libraries (z3, libxml2, ...) that nothing here uses;
# those are left out, and zlib and zstd come from their static archives.
function(hologram_collect_llvm out)
  set(pending ${ARGN})
  set(seen "")
  set(archives "")
  while(pending)
    list(POP_FRONT pending library)
    if(library IN_LIST seen OR NOT library MATCHES "^LLVM")
      continue()
    endif()
    list(APPEND seen ${library})
    foreach(config RELWITHDEBINFO RELEASE NONE NOCONFIG)
      get_target_property(location ${library} IMPORTED_LOCATION_${config})
      if(location)
        break()
      endif()
    endforeach()
    if(NOT location MATCHES "[.]a$")
      message(FATAL_ERROR "LLVM was found, but ${library} is not a static archive (${location})")
    endif()
    list(APPEND archives "${location}")
    get_target_property(needs ${library} INTERFACE_LINK_LIBRARIES)
    if(needs)
      list(APPEND pending ${needs})
    endif()
  endwhile()
  set(${out} "${archives}" PARENT_SCOPE)
endfunction()

llvm_map_components_to_libnames(hologram_llvm_libraries ${HOLOGRAM_LLVM_COMPONENTS})
hologram_collect_llvm(hologram_llvm_archives ${hologram_llvm_libraries})
add_library(hologram_llvm INTERFACE)
target_include_directories(hologram_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
separate_arguments(hologram_llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
list(TRANSFORM hologram_llvm_definitions REPLACE "^-D" "")
target_compile_definitions(hologram_llvm INTERFACE ${hologram_llvm_definitions})
if(NOT LLVM_ENABLE_RTTI)
  message(FATAL_ERROR "this LLVM was built without RTTI; Hologram derives from its classes and needs it")
endif()
target_link_libraries(hologram_llvm INTERFACE
  -Wl,--start-group ${hologram_llvm_archives} -Wl,--end-group
  hologram_zlib hologram_zstd Threads::Threads ${CMAKE_DL_LIBS} rt m)
