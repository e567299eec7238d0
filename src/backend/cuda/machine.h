// backend/cuda/machine.h: what plans for GPUs may rely on.
#pragma once

#include "schedule/machine.h"

namespace hologram::cuda {

/// Plain loops and products: what follows on a product's rows and windows are kernels of their own.
class CudaMachine final : public schedule::Machine {
 public:
  CudaMachine() {
    vector = 32;
    units = 108;
    near_bytes = 128 * 1024;
    far_bytes = int64_t{40} << 20;
    small_total = 0;
    unrolls_windows = false;
    tails = false;
    parts = false;
  }
};

}  // namespace hologram::cuda
