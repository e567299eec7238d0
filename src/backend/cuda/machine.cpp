// backend/cuda/machine.cpp: which weights are kept as terms.
#include "backend/cuda/machine.h"

#include "backend/cuda/maps.h"

namespace hologram::cuda {

// As sizes decide at the launch. Few rows would wait for three numbers in place of one.
bool CudaMachine::keeps_terms(const atlas::ProductBlock& product) const {
  if (capability_ != 90 || product.operand_type != DType::f32 || product.acc_type != DType::f32 ||
      product.reproducible || product.precision != 0 || product.parts != 1 ||
      product.batch_rank != 0)
    return false;
  auto size = [&](size_t axis) {
    const Expr& e = product.axes[axis].extent;
    return e.is_const() ? e.constant_value() : 0;
  };
  constexpr int64_t tile = 128;
  const int64_t tiles = (size(0) + tile - 1) / tile * ((size(1) + tile - 1) / tile);
  return size(0) > most_thin_rows &&
         wide_parts(tiles, size(2), size_of(DType::f32), true, multiprocessors_) > 0;
}

}  // namespace hologram::cuda
