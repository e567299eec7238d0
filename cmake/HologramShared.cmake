# cmake/HologramShared.cmake: libhologram, the C interface as a shared library, and what installs it
include(GNUInstallDirs)

# Symbols of these parts leave the library for the Python module, whether or not the C interface needs them.
get_property(parts GLOBAL PROPERTY HOLOGRAM_PARTS)
list(JOIN parts "," whole)

set(script "${PROJECT_BINARY_DIR}/generated/exports.map")
configure_file(src/capi/exports.map.in "${script}" @ONLY)
add_library(hologram SHARED "${script}")
add_library(hologram::hologram ALIAS hologram)
set_property(TARGET hologram PROPERTY LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,${whole}")
target_link_libraries(hologram PRIVATE ${parts})
hologram_portable(hologram)
target_include_directories(hologram INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_compile_features(hologram INTERFACE cxx_std_20)
set_target_properties(hologram PROPERTIES
  LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION 0 EXPORT_NAME hologram)
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  # The library calls itself directly, whatever else a process has loaded. Symbols are bound at load time, so that a
  # missing one fails there; and the library stays loaded, since its threads may sleep in it.
  target_link_options(hologram PRIVATE "-Wl,--version-script=${script}" -Wl,-Bsymbolic -Wl,-z,now -Wl,-z,nodelete)
  set_property(TARGET hologram APPEND PROPERTY LINK_DEPENDS "${script}")
endif()

if(NOT SKBUILD)
  include(CMakePackageConfigHelpers)
  install(TARGETS hologram EXPORT hologram-targets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/hologram" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  install(EXPORT hologram-targets NAMESPACE hologram::
          DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/hologram")
  configure_package_config_file(
    cmake/hologram-config.cmake.in "${PROJECT_BINARY_DIR}/hologram-config.cmake"
    INSTALL_DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/hologram")
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/hologram-config-version.cmake"
                                   COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/hologram-config.cmake"
                "${PROJECT_BINARY_DIR}/hologram-config-version.cmake"
          DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/hologram")
  set(link_option -lhologram)
  configure_file(cmake/hologram.pc.in "${PROJECT_BINARY_DIR}/hologram.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/hologram.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endif()
