// backend/webgpu/backend.h: the backend of WebGPU, over wgpu-native.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace hologram::webgpu {

/// Adapters of Vulkan, Metal and Direct3D 12; 0 where there is no library.
int device_count();
/// Throws Error(unavailable), saying why, where the library or the adapter is missing. For
/// `without_device` (backend/registry.h) one that only writes kernels.
std::unique_ptr<Backend> make_backend(int device = 0);

/// The same with an adapter of that interface; `device`: its number among them.
namespace metal {
int device_count();
std::unique_ptr<Backend> make_backend(int device);
}  // namespace metal
namespace vulkan {
int device_count();
std::unique_ptr<Backend> make_backend(int device);
}  // namespace vulkan

}  // namespace hologram::webgpu
