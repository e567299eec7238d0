# tests/runtime/libs.cmake: files compiled several at a time
set(TOGETHER ON)
