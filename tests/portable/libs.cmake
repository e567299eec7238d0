# tests/portable/libs.cmake: the shims for older systems, in place of this system's functions
if(HOLOGRAM_PORTABLE)
  set(LIBS base)
  set(SOURCES $<TARGET_OBJECTS:hologram_portable>)
else()
  set(SKIP "only builds with HOLOGRAM_PORTABLE have shims")
endif()
