// atlas/math.h: transcendental functions as sequences of exact body arithmetic, the same on every
// backend.
#pragma once

#include <initializer_list>
#include <span>

#include "atlas/builder.h"

namespace hologram::atlas {

/// Appends the sequence for `op` (an element-wise op without Flag::exact) on f32 or f64 operands
/// and returns its result. Only exact ops are used (add, sub, mul, div, fma, sqrt, floor, round,
/// compares, selects, casts, bit operations). Error bounds: docs/numerics.md.
Val emit_math(BodyBuilder& b, ir::Op op, std::span<const Val> args);

/// The same for `x`, a bfloat16 number in f32, where all that is made of the result is a bfloat16,
/// by a shorter sequence, which has_brief_math says whether there is.
bool has_brief_math(ir::Op op);
Val emit_brief_math(BodyBuilder& b, ir::Op op, Val x);

}  // namespace hologram::atlas
