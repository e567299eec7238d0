# cmake/HologramWasm.cmake: hologram_rt.wasm, what runs archives in browsers and in Node (js/hologram.js)
#
# The runtime's sources but for threads, files and pages, whose place src/rt/wasm takes, and without the C interface:
# src/rt/wasm/exports.cpp is what JavaScript calls. The linker says what is missing in this list.
enable_language(CXX)
find_program(HOLOGRAM_CCACHE ccache)
if(HOLOGRAM_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${HOLOGRAM_CCACHE}")
endif()
include(HologramBackends)

set(sources
    base/bytes base/dtype base/expr base/expr_bounds base/expr_division base/expr_text base/fingerprint
    base/json_string base/notices base/settings
    ir/fold ir/graph ir/infer ir/op ir/scalar ir/sizes ir/text ir/verify
    atlas/binary atlas/container atlas/lane_binary atlas/lane_table atlas/lane_verify
    schedule/binary schedule/footprint schedule/memory
    gpu/workspaces
    host/boundary_pool host/context
    backend/registry backend/webgpu/addresses backend/webgpu/batch backend/webgpu/wgsl/read
    backend/cpu/choices backend/cpu/keys backend/cpu/processor backend/cpu/target
    runtime/executable runtime/kept runtime/kernel_cache runtime/loop runtime/packed_files runtime/places runtime/runtime runtime/staging
    runtime/stored_plan runtime/transpose
    archive/archive archive/describe archive/faults archive/function archive/index archive/loops archive/method_graph
    archive/session archive/weights)
list(TRANSFORM sources REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/\\1.cpp")
file(GLOB own CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/rt/*.cpp" "${PROJECT_SOURCE_DIR}/src/rt/wasm/*.cpp")

# Of the system's headers these alone, which are the same for every processor.
set(headers "${PROJECT_BINARY_DIR}/headers")
find_path(HOLOGRAM_FMT_HEADERS fmt/format.h PATHS /usr/include REQUIRED NO_CMAKE_FIND_ROOT_PATH)
file(MAKE_DIRECTORY "${headers}")
file(CREATE_LINK "${HOLOGRAM_FMT_HEADERS}/fmt" "${headers}/fmt" SYMBOLIC)

add_executable(hologram_rt ${sources} ${own} "${CMAKE_CURRENT_LIST_DIR}/fmt_static.cpp")
# Files of a folder are compiled together, which takes a third of the time.
foreach(source IN LISTS sources)
  get_filename_component(folder "${source}" DIRECTORY)
  string(MAKE_C_IDENTIFIER "${folder}" group)
  if(NOT folder MATCHES "atlas$") # whose fingerprint() hides the other one
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}")
  endif()
endforeach()
set_target_properties(hologram_rt PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
hologram_sources_hash(backend/cpu/sources.h cpu atlas codegen backend/cpu)
target_sources(hologram_rt PRIVATE "${PROJECT_BINARY_DIR}/generated/backend/cpu/sources.h")
set_target_properties(hologram_rt PROPERTIES SUFFIX .wasm CXX_STANDARD 20 CXX_EXTENSIONS OFF)
target_include_directories(hologram_rt PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_BINARY_DIR}/generated")
# libc++'s settings (libcxx) come before its headers.
target_include_directories(hologram_rt SYSTEM PRIVATE
  "${PROJECT_SOURCE_DIR}/src/rt/wasm/libcxx" "${PROJECT_SOURCE_DIR}/src/rt/wasm/include"
  "${headers}")
target_compile_definitions(hologram_rt PRIVATE _WASI_EMULATED_GETPID "FMT_STATIC_THOUSANDS_SEPARATOR=','")
target_link_libraries(hologram_rt PRIVATE wasi-emulated-getpid)
target_compile_options(hologram_rt PRIVATE
  -fvisibility=hidden -ffunction-sections -fwasm-exceptions
  -msimd128 -mbulk-memory -mnontrapping-fptoint -msign-ext -mmutable-globals
  -Wall -Wextra -Wno-missing-field-initializers)
target_link_options(hologram_rt PRIVATE
  -mexec-model=reactor -fwasm-exceptions
  # A stack that overflows leaves the memory and stops; kernels take up to 64 KiB of it.
  -Wl,-z,stack-size=1048576 -Wl,--stack-first -Wl,--gc-sections -Wl,--strip-all
  # What modules of kernels import (src/backend/cpu/wasm_image.cpp).
  -Wl,--export-table -Wl,--growable-table -Wl,--export=__stack_pointer -Wl,--export=__multi3
  -Wl,--export=__ashlti3 -Wl,--export=__lshrti3 -Wl,--export=__ashrti3)
