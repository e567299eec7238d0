// backend/cpu/loops/bounds.h: what is known of values: exponents no larger than 0, short NaN.
#pragma once

#include "atlas/program.h"

namespace hologram::cpu {

/// Marks each e^x of x = v - max(v), v along the row of the maximum, by Instr::bits = 1: what it
/// does to bound large arguments may be left out.
void mark_bounded(atlas::Program& program);

/// Marks each rounding to bf16, by Instr::bits = 1, of what has a low half of 0 where it is NaN:
/// the sum that rounds it then keeps it NaN; and by the same each load of a f32, or conversion to
/// it, that is done once for all points: a NaN then is made such a one. Only for targets that keep
/// NaN (TargetTraits).
void mark_low_nan(atlas::Program& program);

}  // namespace hologram::cpu
