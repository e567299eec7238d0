# cmake/HologramShared.cmake: the shared libraries libhologram, libhologram_compiler and libhologram_rt, and what installs them
include(GNUInstallDirs)

# hologram_shared_library(<target> <version script>): what is common to the three
function(hologram_shared_library target script)
  target_compile_options(${target} PRIVATE ${HOLOGRAM_WARNINGS})
  hologram_precompile_like(${target} hologram_base)
  hologram_portable(${target})
  target_include_directories(${target} INTERFACE
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_BINARY_DIR}/generated")
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION 0)
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    # The library calls itself directly, whatever else a process has loaded. Symbols are bound at load time, so that a
    # missing one fails there; and the library stays loaded, since its threads may sleep in it.
    target_link_options(${target} PRIVATE "-Wl,--version-script=${script}" -Wl,-Bsymbolic -Wl,-z,now -Wl,-z,nodelete)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${script}")
  endif()
endfunction()

# hologram_c_interface(<target> <part>...): the C interface and what it needs, these parts whole whether or not anything in
# them is needed. Without what includes LLVM: the target's own sources have something in its place.
function(hologram_c_interface target)
  list(JOIN ARGN "," whole)
  set_target_properties(${target} PROPERTIES HOLOGRAM_WITHOUT_COMPILER ON LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,${whole}")
  target_link_libraries(${target} PRIVATE hologram_capi ${CMAKE_DL_LIBS})  # not all by name: GNU ld would take them twice
endfunction()

# Both are of the same sources.
hologram_sources_hash(compiler/sources.h compiler base ir atlas schedule strips codegen gpu host builtin backend compiler)
set(sources_hash "${PROJECT_BINARY_DIR}/generated/compiler/sources.h")

# Symbols of these parts leave the library for the Python module, whether or not the C interface needs them.
get_property(parts GLOBAL PROPERTY HOLOGRAM_PARTS)
set(script "${PROJECT_BINARY_DIR}/generated/exports.map")
configure_file(src/capi/exports.map.in "${script}" @ONLY)
add_library(hologram SHARED "${script}" "${PROJECT_SOURCE_DIR}/src/compiler/open.cpp" "${sources_hash}")
add_library(hologram::hologram ALIAS hologram)
target_compile_definitions(hologram PRIVATE "HOLOGRAM_COMPILER_LIBRARY=\"libhologram_compiler.so.0\"")
set_target_properties(hologram PROPERTIES CXX_VISIBILITY_PRESET default)  # as the script says
hologram_c_interface(hologram ${parts})
hologram_shared_library(hologram "${script}")

# What libhologram opens to compile. All but the compilers themselves it takes from there, by name of the files alone: their
# targets would bring what they need along, a second time.
add_library(hologram_compiler SHARED "${PROJECT_SOURCE_DIR}/src/compiler/contents.cpp" "${sources_hash}")
get_property(compilers GLOBAL PROPERTY HOLOGRAM_COMPILERS)
list(APPEND compilers hologram_codegen)
add_dependencies(hologram_compiler ${compilers})
list(TRANSFORM compilers REPLACE "(.+)" "$<TARGET_FILE:\\1>")
target_link_libraries(hologram_compiler PRIVATE ${compilers} $<LINK_ONLY:hologram_llvm> hologram hologram_fmt)
hologram_shared_library(hologram_compiler "${PROJECT_SOURCE_DIR}/src/compiler/exports.map")
if(HOLOGRAM_MOLD_WORKS AND NOT HOLOGRAM_SANITIZE)
  # Functions of the same code are one: a 25th of LLVM, none of which is told by its address, as LLVM's own builds for Windows
  # are linked.
  target_link_options(hologram_compiler PRIVATE -Wl,--icf=all)
endif()
set_target_properties(hologram_compiler PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")

# What runs machine code of archives, without the compiler: src/rt stands for the backends and for runtime/compile.cpp,
# so that nothing asks for what lies behind them. What the script does not name of the C interface goes.
file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/rt/*.cpp")
add_library(hologram_rt SHARED ${sources})
add_library(hologram::rt ALIAS hologram_rt)
hologram_c_interface(hologram_rt hologram_capi)
hologram_shared_library(hologram_rt "${PROJECT_SOURCE_DIR}/src/rt/exports.map")
set_target_properties(hologram_rt PROPERTIES EXPORT_NAME rt)

# hologram_pkg_config(<out> <name> <description> <link option>): a file for pkg-config
function(hologram_pkg_config out name description link_option)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/hologram.pc.in" "${out}" @ONLY)
endfunction()

if(NOT SKBUILD)
  include(CMakePackageConfigHelpers)
  install(TARGETS hologram hologram_rt EXPORT hologram-targets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS hologram_compiler LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" NAMELINK_SKIP)
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
  hologram_pkg_config("${PROJECT_BINARY_DIR}/hologram.pc" hologram "A tensor compiler and runtime" -lhologram)
  hologram_pkg_config("${PROJECT_BINARY_DIR}/hologram_rt.pc" hologram_rt "Runs Hologram's archives" -lhologram_rt)
  install(FILES "${PROJECT_BINARY_DIR}/hologram.pc" "${PROJECT_BINARY_DIR}/hologram_rt.pc"
          DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endif()
