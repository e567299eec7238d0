# cmake/HologramSettings.cmake: language standard, warnings, optimisation, linker and sanitizers

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g")
if(HOLOGRAM_FUZZ)  # whose reports name functions and lines, not variables: less to compile
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -gline-tables-only")
endif()

find_program(HOLOGRAM_CCACHE ccache)
mark_as_advanced(HOLOGRAM_CCACHE)
if(HOLOGRAM_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without these it takes no file that is compiled with a precompiled header.
  set(launcher "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros "${HOLOGRAM_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()

find_program(HOLOGRAM_MOLD mold)
mark_as_advanced(HOLOGRAM_MOLD)
if(HOLOGRAM_MOLD)
  include(CheckCXXSourceCompiles)
  # Words that the loader relocates are 0 in the file: a wheel holds them in next to nothing.
  set(mold_options -fuse-ld=mold -Wl,--no-apply-dynamic-relocs)
  set(CMAKE_REQUIRED_LINK_OPTIONS ${mold_options})
  check_cxx_source_compiles("int main() { return 0; }" HOLOGRAM_MOLD_WORKS)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  if(HOLOGRAM_MOLD_WORKS)
    add_link_options(${mold_options})
  endif()
endif()

# Results must not depend on the compiler's taste in FMAs: contraction is always spelled out.
add_compile_options(-ffp-contract=off -ffunction-sections -fdata-sections)
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  add_link_options(-Wl,--gc-sections)
endif()

set(HOLOGRAM_WARNINGS
    -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wvla -Wcast-qual -Wundef)
if(HOLOGRAM_WERROR)
  list(APPEND HOLOGRAM_WARNINGS -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12's flow-based warnings have known false positives on inlined std::string and std::vector
  # code: -Wrestrict is off, the others warn without failing the build.
  list(APPEND HOLOGRAM_WARNINGS -Wno-restrict -Wno-error=maybe-uninitialized -Wno-error=array-bounds
       -Wno-error=stringop-overflow -Wno-error=stringop-overread -Wno-error=free-nonheap-object
       -Wno-error=dangling-pointer)
elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # libstdc++ 12's own std::stable_sort uses what C++17 deprecates.
  list(APPEND HOLOGRAM_WARNINGS -Wno-deprecated-declarations)
endif()

if(HOLOGRAM_SANITIZE)
  if(NOT HOLOGRAM_SANITIZE MATCHES "^(address|thread|undefined)(,undefined)?$")
    message(FATAL_ERROR "HOLOGRAM_SANITIZE is '${HOLOGRAM_SANITIZE}'; expected address, thread, undefined, "
                        "one of the first two with ',undefined', or nothing")
  endif()
  add_compile_options(-fsanitize=${HOLOGRAM_SANITIZE} -fno-omit-frame-pointer -g1)  # lines suffice for reports
  add_link_options(-fsanitize=${HOLOGRAM_SANITIZE})
  if(HOLOGRAM_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND HOLOGRAM_WARNINGS -Wno-mismatched-new-delete)  # GCC 12 of LLVM's own
  endif()
  if(HOLOGRAM_SANITIZE MATCHES "undefined$")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()

if(HOLOGRAM_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "HOLOGRAM_FUZZ needs clang, which has libFuzzer; "
                        "this is ${CMAKE_CXX_COMPILER_ID} (try cmake --preset fuzz)")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
