# cmake/HologramWheel.cmake: what a wheel has beside the Python files: the install component `wheel`
#
# python/CMakeLists.txt adds the module. Wheels have no symbolic links: a library has the name alone that programs
# ask for at run time.
set(wheel_component COMPONENT wheel EXCLUDE_FROM_ALL)
set(folder "${PROJECT_BINARY_DIR}/generated/wheel")
set(CMAKE_INSTALL_LIBDIR lib)

# hologram_wheel_library(<target> [<description>]): a library below hologram/lib, with its file for pkg-config
function(hologram_wheel_library target)
  set(library "$<TARGET_SONAME_FILE_NAME:${target}>")
  install(FILES "$<TARGET_FILE:${target}>" DESTINATION hologram/lib RENAME "${library}" ${wheel_component})
  install(CODE "
    if(CMAKE_INSTALL_DO_STRIP)
      execute_process(COMMAND \"${CMAKE_STRIP}\" \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/hologram/lib/${library}\"
                      COMMAND_ERROR_IS_FATAL ANY)
    endif()" ${wheel_component})
  if(ARGC EQUAL 1)
    return()
  endif()
  hologram_pkg_config("${folder}/${target}.pc.in" ${target} "${ARGV1}" "-l:${library}")
  file(GENERATE OUTPUT "${folder}/${target}.pc" INPUT "${folder}/${target}.pc.in")
  install(FILES "${folder}/${target}.pc" DESTINATION hologram/lib/pkgconfig ${wheel_component})
endfunction()
hologram_wheel_library(hologram "A tensor compiler and runtime")
hologram_wheel_library(hologram_compiler)
hologram_wheel_library(hologram_rt "Runs Hologram's archives")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/hologram" DESTINATION hologram/include ${wheel_component})

# What `hologram export-web` writes beside an archive; the runtime for WebAssembly where `tools/build.sh wasm` made it.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/js/" DESTINATION hologram/js ${wheel_component}
        FILES_MATCHING PATTERN "*.js" PATTERN "*.d.ts" PATTERN "*.html" PATTERN "*.css" PATTERN "package.json" PATTERN "tests" EXCLUDE)
install(FILES "${PROJECT_SOURCE_DIR}/build/wasm/hologram_rt.wasm" DESTINATION hologram/js OPTIONAL ${wheel_component})

# The site, where `make docs` built it; `hologram docs` opens it.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/build/docs" DESTINATION hologram OPTIONAL ${wheel_component})

configure_file("${CMAKE_CURRENT_LIST_DIR}/wheel-config.cmake.in" "${folder}/hologram-config.cmake.in" @ONLY)
file(GENERATE OUTPUT "${folder}/hologram-config.cmake" INPUT "${folder}/hologram-config.cmake.in")
include(CMakePackageConfigHelpers)
write_basic_package_version_file("${folder}/hologram-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${folder}/hologram-config.cmake" "${folder}/hologram-config-version.cmake"
        DESTINATION hologram/lib/cmake/hologram ${wheel_component})
