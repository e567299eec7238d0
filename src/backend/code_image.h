// backend/code_image.h: machine code of a plan that runs wherever it lies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/expr.h"

namespace hologram {

/// The kernels of a plan and the function that runs all of its steps, laid out in one run of bytes
/// without references to anything outside. Loaded at a multiple of 4096. For WebAssembly it is a
/// module (backend/cpu/wasm_image.h), whose functions have numbers in place of offsets.
struct CodeImage {
  struct Entry {
    uint64_t offset = 0;           ///< of its function (atlas::KernelFn)
    Expr total, grain, unit_work;  ///< as in Kernel
  };
  std::string bytes;
  std::vector<Entry> kernels;  ///< by program
  uint64_t run_all = 0;        ///< offset of the atlas::EntryFn
};

}  // namespace hologram
