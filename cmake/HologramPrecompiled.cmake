# cmake/HologramPrecompiled.cmake: precompiled headers of what nearly every file includes
#
# They hold nothing of this project, so no change of ours rebuilds them. Files still include what they use: the
# dev preset builds without.
option(HOLOGRAM_PCH "Precompile the headers of libraries that many files include" ON)

set(HOLOGRAM_PCH_COMMON
    <algorithm> <array> <atomic> <bit> <chrono> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory>
    <mutex> <optional> <set> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector>
    <fmt/format.h>)
set(HOLOGRAM_PCH_LLVM
    <llvm/IR/IRBuilder.h> <llvm/IR/Intrinsics.h> <llvm/IR/IntrinsicsX86.h> <llvm/IR/Module.h>)

# hologram_precompile(<target> [<header>...]): the common headers, then these, for a target of its own.
function(hologram_precompile target)
  if(NOT HOLOGRAM_PCH)
    return()
  endif()
  target_precompile_headers(${target} PRIVATE ${HOLOGRAM_PCH_COMMON} ${ARGN})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # ccache asks for it
  endif()
endfunction()

# hologram_precompile_like(<target> <other>): the same headers, compiled once for both; they must agree in flags
# and definitions.
function(hologram_precompile_like target other)
  if(NOT HOLOGRAM_PCH)
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${other})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()
