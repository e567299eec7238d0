// backend/webgpu/library.h: opening wgpu-native.
#pragma once

#include <string>

#include "backend/webgpu/api.h"

namespace hologram::webgpu {

/// An opened library. Lives as long as the process.
struct Library {
  std::string path;
  Api api;
  Instance instance = nullptr;
};

/// The library that HOLOGRAM_WEBGPU_LIBRARY names, else the one of PyPI's package `wgpu` where
/// Python has found it, else the system's `libwgpu_native.so`. Throws Error(unavailable) where
/// there is none, or one of another version.
const Library& library();

}  // namespace hologram::webgpu
