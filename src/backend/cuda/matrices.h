// backend/cuda/matrices.h: what a warp multiplies on tensor cores.
#pragma once

#include <vector>

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// A factor of 16-bit numbers in shared memory: element (x, k) at base + x * stride + k if it lies
/// along k, else at base + k * stride + x.
struct Matrices {
  Value* memory;
  Value* base;  ///< i32
  int stride;
  bool depth_run;
};

/// Four 8 x 8 matrices, x from `x` on and k from `k` on (i32): the second one is the next along k
/// if `depth_first`, else along x. The builder stands where the whole warp is.
std::vector<Value*> load_matrices(CudaFunction& k, const Matrices& from, Value* x, Value* depth,
                                  bool depth_first);

/// mma.m16n8k16: adds the product of four registers of `left` and two of `right` to four sums. Of
/// the sums, lane l has rows l / 4 and l / 4 + 8, columns 2 (l % 4) and the one behind it.
void multiply_matrices(CudaFunction& k, DType type, const std::vector<Value*>& left,
                       const std::vector<Value*>& right, Value** sums);

/// mma.m16n8k32 of bytes: registers hold four values of k where those of 16-bit numbers hold two.
void multiply_bytes(CudaFunction& k, bool left_signed, bool right_signed,
                    const std::vector<Value*>& left, const std::vector<Value*>& right,
                    Value** sums);

/// Two f32, rounded to bf16 or f16, as one register: `low` in its lower half.
Value* round_pair(CudaFunction& k, DType type, Value* low, Value* high);

}  // namespace hologram::cuda
