// backend/cpu/trigonometric.h: sine, cosine and tangent, of near arguments by the short way.
#pragma once

#include "backend/cpu/function.h"

namespace hologram::cpu {

/// Whether `op` is one of those that emit_trigonometric serves.
inline bool is_trigonometric(ir::Op op) {
  return op == ir::Op::sin || op == ir::Op::cos || op == ir::Op::tan;
}

/// `op` of x, f32 or f64, a scalar or a vector.
Value* emit_trigonometric(CpuFunction& k, ir::Op op, Value* x);

}  // namespace hologram::cpu
