// backend/webgpu/machine.h: what plans for WebGPU may rely on.
#pragma once

#include <string_view>

#include "schedule/machine.h"

namespace hologram::webgpu {

/// As Backend::irreproducible().
inline constexpr std::string_view irreproducible =
    "WGSL lets a driver reassociate sums, flush what is below 2^-126 and take NaN for absent";

/// Plain loops and products: what follows on a product's rows and windows are kernels of their own.
class WebMachine final : public schedule::Machine {
 public:
  WebMachine() {
    vector = 32;
    units = 16;
    alignment = 256;         // browsers refuse bindings that overlap, and bind at such multiples
    most_buffers = 7;        // every device binds 8: one may be the word of faults
    near_bytes = 32 * 1024;  // a workgroup's memory
    far_bytes = int64_t{4} << 20;
    small_total = 0;
    unrolls_windows = false;
    tails = false;
    parts = false;
  }
};

}  // namespace hologram::webgpu
