# cmake/HologramWheel.cmake: what a wheel has beside the Python files: the install component `wheel`
#
# python/CMakeLists.txt adds the module. Wheels have no symbolic links: the library has the name alone that programs
# ask for at run time.
set(wheel_component COMPONENT wheel EXCLUDE_FROM_ALL)
set(library "$<TARGET_SONAME_FILE_NAME:hologram>")
install(FILES "$<TARGET_FILE:hologram>" DESTINATION hologram/lib RENAME "${library}" ${wheel_component})
install(CODE "
  if(CMAKE_INSTALL_DO_STRIP)
    execute_process(COMMAND \"${CMAKE_STRIP}\" \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/hologram/lib/${library}\"
                    COMMAND_ERROR_IS_FATAL ANY)
  endif()" ${wheel_component})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/hologram" DESTINATION hologram/include ${wheel_component})

set(folder "${PROJECT_BINARY_DIR}/generated/wheel")
configure_file("${CMAKE_CURRENT_LIST_DIR}/wheel-config.cmake.in" "${folder}/hologram-config.cmake.in" @ONLY)
file(GENERATE OUTPUT "${folder}/hologram-config.cmake" INPUT "${folder}/hologram-config.cmake.in")
include(CMakePackageConfigHelpers)
write_basic_package_version_file("${folder}/hologram-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${folder}/hologram-config.cmake" "${folder}/hologram-config-version.cmake"
        DESTINATION hologram/lib/cmake/hologram ${wheel_component})
set(CMAKE_INSTALL_LIBDIR lib)
set(link_option "-l:${library}")
configure_file(cmake/hologram.pc.in "${folder}/hologram.pc.in" @ONLY)
file(GENERATE OUTPUT "${folder}/hologram.pc" INPUT "${folder}/hologram.pc.in")
install(FILES "${folder}/hologram.pc" DESTINATION hologram/lib/pkgconfig ${wheel_component})
