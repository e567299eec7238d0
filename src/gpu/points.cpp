// gpu/points.cpp: how many points axes have.
#include "gpu/points.h"

namespace hologram::gpu {

Expr points_of(const std::vector<atlas::Axis>& axes, int first, int last) {
  Expr all(1);
  for (int a = first; a < last; ++a) all *= max(axes[static_cast<size_t>(a)].extent, Expr(0));
  return all;
}

}  // namespace hologram::gpu
