# tests/capi/install.cmake: installs the build, then builds and runs the examples against the installation
cmake_minimum_required(VERSION 3.25)
set(prefix "${BUILD}/tests/install")
set(work "${BUILD}/tests/install_examples")
file(REMOVE_RECURSE "${prefix}" "${work}")

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT status EQUAL 0)
    string(REPLACE ";" " " command "${ARGN}")
    message(FATAL_ERROR "${command}\n${text}")
  endif()
endfunction()

run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${prefix}")
run("${CMAKE_COMMAND}" -S "${SOURCE}/examples" -B "${work}" "-DCMAKE_PREFIX_PATH=${prefix}"
    "-DCMAKE_C_COMPILER=${CC}" "-DCMAKE_CXX_COMPILER=${CXX}" -DCMAKE_BUILD_TYPE=Debug)
run("${CMAKE_COMMAND}" --build "${work}")
run("${CMAKE_CTEST_COMMAND}" --test-dir "${work}" --output-on-failure)

find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG)
  file(GLOB_RECURSE pc "${prefix}/*/hologram.pc")
  cmake_path(GET pc PARENT_PATH folder)
  set(ENV{PKG_CONFIG_PATH} "${folder}")
  execute_process(COMMAND "${PKG_CONFIG}" --cflags --libs hologram OUTPUT_VARIABLE flags
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags NATIVE_COMMAND "${flags}")
  run("${CC}" -std=c99 -pedantic -Wall -Werror "${SOURCE}/examples/vector_add.c" -o "${work}/by_pkg_config"
      ${flags} "-Wl,-rpath,${folder}/..")
  run("${work}/by_pkg_config")
  execute_process(COMMAND "${PKG_CONFIG}" --cflags --libs hologram_rt OUTPUT_VARIABLE flags
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags NATIVE_COMMAND "${flags}")
  run("${CC}" -std=c99 "${SOURCE}/examples/run_archive.c" -o "${work}/rt_by_pkg_config" ${flags})
else()
  message(STATUS "pkg-config was not found; hologram.pc is not tested")
endif()
