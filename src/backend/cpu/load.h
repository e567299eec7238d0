// backend/cpu/load.h: objects into executable memory.
#pragma once

#include <memory>
#include <string_view>

#include "atlas/abi.h"

namespace hologram::cpu {

/// An object loaded into executable memory. Frees it when destroyed.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
  atlas::KernelFn function = nullptr;
  size_t bytes = 0;  ///< of the pages that it takes
};

/// Links an object into this process (JITLink; no EH frames, a resource tracker per kernel).
/// Throws Error(corrupt) when the object is not what it should be.
std::shared_ptr<LoadedKernel> load(std::string_view object);

}  // namespace hologram::cpu
