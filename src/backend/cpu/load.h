// backend/cpu/load.h: objects into executable memory. No LLVM in here.
#pragma once

#include <memory>
#include <string_view>

#include "atlas/abi.h"
#include "host/loaded_image.h"

namespace hologram::cpu {

/// Linked code in executable memory, which goes with it.
struct LoadedKernel {
  LoadedKernel(std::string_view code, uint64_t offset);

  const host::LoadedImage image;
  const atlas::KernelFn function;  ///< at the offset
  const size_t bytes;              ///< of the pages that it takes
};

/// Links an object into this process. Throws as link() does, and as host::LoadedImage.
std::shared_ptr<LoadedKernel> load(std::string_view object);

}  // namespace hologram::cpu
