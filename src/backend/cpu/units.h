// backend/cpu/units.h: a kernel's work in units, and how the runtime may split it.
#pragma once

#include "base/expr.h"

namespace hologram::cpu {

/// How the runtime splits a kernel's work.
struct Launch {
  Expr total;      ///< parallel units
  Expr grain;      ///< chunk boundaries fall on multiples of this (in units)
  Expr unit_work;  ///< rough cost of one unit on one core with its data in cache, in picoseconds
};

}  // namespace hologram::cpu
