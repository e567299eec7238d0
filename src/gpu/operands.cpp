// gpu/operands.cpp: how the operands of products and of attention lie in memory.
#include "gpu/operands.h"

namespace hologram::gpu {

bool runs_along(const atlas::Body& body, int axis, int depth_axis) {
  for (const atlas::Instr& i : body.instrs) {
    if (i.code != atlas::Code::load || !(i.expr.has_axis(axis) || i.expr.has_axis(depth_axis)))
      continue;
    const auto along = i.expr.linear_in_axis(axis);
    return !along || !along->first.is(1);
  }
  return true;
}

bool lies_along(const atlas::Body& body, int axis) {
  for (const atlas::Instr& i : body.instrs) {
    if (i.code != atlas::Code::load || !i.expr.has_axis(axis)) continue;
    const auto along = i.expr.linear_in_axis(axis);
    return along && along->first.is(1);
  }
  return false;
}

}  // namespace hologram::gpu
