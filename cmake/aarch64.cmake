# cmake/aarch64.cmake: toolchain of builds for Linux on AArch64: the cross compiler, and libraries from tools/sysroot.sh
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

get_filename_component(sysroot "${CMAKE_CURRENT_LIST_DIR}/../build/sysroot-aarch64" ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH "${sysroot}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# Of the version that the interpreter has: FindPython compares them.
file(GLOB Python_INCLUDE_DIR "${sysroot}/usr/include/python3.[0-9]*")

find_program(HOLOGRAM_QEMU qemu-aarch64)
if(HOLOGRAM_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${HOLOGRAM_QEMU};-L;${sysroot}")
endif()
