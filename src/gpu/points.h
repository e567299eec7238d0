// gpu/points.h: how many points axes have.
#pragma once

#include <vector>

#include "atlas/program.h"

namespace hologram::gpu {

/// The points of axes [first, last): none where an extent is not positive.
Expr points_of(const std::vector<atlas::Axis>& axes, int first, int last);

/// Whether the extent is known and not above that.
inline bool at_most(const Expr& e, int64_t n) { return e.is_const() && e.constant_value() <= n; }

}  // namespace hologram::gpu
