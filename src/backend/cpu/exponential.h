// backend/cpu/exponential.h: e^x as targets render it.
#pragma once

#include "backend/cpu/function.h"

namespace hologram::cpu {

/// e^x in f32, on a scalar or a vector; `bounded`: x is at most 0, or NaN.
Value* emit_exp(CpuFunction& k, Value* x, bool bounded);

/// The same for results that are rounded to bfloat16: off by at most 2^-18 of e^x, and 2^-23 |x| of
/// it.
Value* emit_brief_exp(CpuFunction& k, Value* x);

}  // namespace hologram::cpu
