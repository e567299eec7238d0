// backend/cuda/machine.h: what plans for GPUs may rely on.
#pragma once

#include "schedule/machine.h"

namespace hologram::cuda {

/// Plain loops and products: what follows on a product's rows and windows are kernels of their own.
class CudaMachine final : public schedule::Machine {
 public:
  /// Without a device: for kernels that all GPUs run.
  explicit CudaMachine(int capability = 80, int multiprocessors = 108)
      : capability_(capability), multiprocessors_(multiprocessors) {
    vector = 32;
    units = 108;
    near_bytes = 128 * 1024;
    far_bytes = int64_t{40} << 20;
    small_total = 0;
    unrolls_windows = false;
    tails = false;
    parts = false;
  }

  /// Where the product of float32 by warpgroups is expected to run, on this device.
  bool keeps_terms(const atlas::ProductBlock& product) const override;

 private:
  const int capability_, multiprocessors_;
};

}  // namespace hologram::cuda
