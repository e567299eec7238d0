# tests/host/libs.cmake: files compiled several at a time
set(TOGETHER ON)
