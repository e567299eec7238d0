# tests/runtime/libs.cmake: files compiled several at a time
set(LINK hologram_amx)
set(TOGETHER ON)
