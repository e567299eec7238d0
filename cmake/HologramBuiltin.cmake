# cmake/HologramBuiltin.cmake: hologram_kernels and hologram_gpu_kernels, the code that comes with the library
#
# A small host program, hologram_kernelgen, plans every operation of src/builtin and compiles its kernels
# for each instruction set; they and a table of them are linked like any other code.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(isas sse42 avx2 avx512)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(isas neon)
else()
  message(FATAL_ERROR "no code generator for ${CMAKE_SYSTEM_PROCESSOR}; x86-64 and AArch64 have one")
endif()

set(HOLOGRAM_KERNELGEN "" CACHE FILEPATH
    "hologram_kernelgen of another build of the same sources, for builds whose own is slow or foreign; empty: our own")
if(HOLOGRAM_KERNELGEN)
  set(kernelgen "${HOLOGRAM_KERNELGEN}")
else()
  set(kernelgen hologram_kernelgen)
  add_executable(hologram_kernelgen "${PROJECT_SOURCE_DIR}/tools/kernelgen.cpp")
  target_compile_options(hologram_kernelgen PRIVATE ${HOLOGRAM_WARNINGS})
  # The compiler alone: whoever links the whole backend gets the kernels that this program is to make.
  add_dependencies(hologram_kernelgen hologram_backend_cpu_compiler)
  target_link_libraries(hologram_kernelgen PRIVATE $<TARGET_FILE:hologram_backend_cpu_compiler>
                                                   $<TARGET_FILE:hologram_backend_cpu> hologram_codegen hologram_builtin hologram_schedule hologram_host)
endif()

set(folder "${PROJECT_BINARY_DIR}/generated/builtin")
file(MAKE_DIRECTORY "${folder}")
add_custom_command(
  OUTPUT "${folder}/table.cpp" "${folder}/libhologram_builtin_code.a"
  COMMAND "${kernelgen}" "${folder}/objects" "${folder}/table.cpp" "${folder}/objects.txt" ${isas}
  COMMAND "${CMAKE_COMMAND}" -E rm -f "${folder}/libhologram_builtin_code.a"
  COMMAND "${CMAKE_AR}" qcs "${folder}/libhologram_builtin_code.a" "@${folder}/objects.txt"
  DEPENDS "${kernelgen}"
  COMMENT "Compiling the kernels that come with the library: ${isas}"
  VERBATIM)

add_library(hologram_kernels STATIC "${folder}/table.cpp")
target_link_libraries(hologram_backend_cpu INTERFACE hologram_kernels)
target_link_libraries(hologram_kernels PUBLIC hologram_builtin "${folder}/libhologram_builtin_code.a")

# The same operations for GPUs: PTX and, where it is asked for and ptxas is at hand, machine code (tools/gpukernelgen.cpp).
if(TARGET hologram_backend_cuda)
  set(cubins_default OFF)
  if(SKBUILD OR EXISTS /proc/driver/nvidia/version)
    set(cubins_default ON)
  endif()
  option(HOLOGRAM_CUBINS "The GPU kernels that come with the library as machine code too; `make wheel` has them" ${cubins_default})
  set(ptxas "")
  if(HOLOGRAM_CUBINS)
    find_program(HOLOGRAM_PTXAS ptxas HINTS ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES bin
                 DOC "ptxas for the GPU kernels that come with the library; none: they are PTX alone")
    if(HOLOGRAM_PTXAS)
      set(ptxas "${HOLOGRAM_PTXAS}")
    else()
      message(STATUS "GPU kernels come as PTX alone: no ptxas was found (HOLOGRAM_PTXAS)")
    endif()
  endif()
  get_filename_component(generators "${HOLOGRAM_KERNELGEN}" DIRECTORY)
  if(HOLOGRAM_KERNELGEN AND EXISTS "${generators}/hologram_gpukernelgen")
    set(gpukernelgen "${generators}/hologram_gpukernelgen")
  else()
    set(gpukernelgen hologram_gpukernelgen)
    add_executable(hologram_gpukernelgen "${PROJECT_SOURCE_DIR}/tools/gpukernelgen.cpp")
    target_compile_options(hologram_gpukernelgen PRIVATE ${HOLOGRAM_WARNINGS})
    add_dependencies(hologram_gpukernelgen hologram_backend_cuda_compiler)
    target_link_libraries(hologram_gpukernelgen PRIVATE $<TARGET_FILE:hologram_backend_cuda_compiler>
                                                        $<TARGET_FILE:hologram_backend_cuda> hologram_codegen hologram_gpu
                                                        hologram_builtin hologram_schedule hologram_llvm ${CMAKE_DL_LIBS})
  endif()
  add_custom_command(
    OUTPUT "${folder}/gpu_table.cpp"
    COMMAND "${gpukernelgen}" "${folder}/gpu_table.cpp" "${ptxas}"
    DEPENDS "${gpukernelgen}"
    COMMENT "Compiling the kernels that come with the library: GPUs"
    VERBATIM)
  add_library(hologram_gpu_kernels STATIC "${folder}/gpu_table.cpp")
  target_include_directories(hologram_gpu_kernels PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(hologram_backend_cuda INTERFACE hologram_gpu_kernels)
endif()
