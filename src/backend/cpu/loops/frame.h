// backend/cpu/loops/frame.h: what the parts of a loop block's emission share.
#pragma once

#include "backend/cpu/function.h"
#include "backend/cpu/loops/plan.h"

namespace hologram::cpu {

struct LoopFrame {
  LoopFrame(CpuFunction& kernel, const LoopPlan& plan);

  CpuFunction& k;
  const atlas::LoopBlock& block;
  LoopPlan plan;
  int rank;  ///< of the parallel axes
  int axes;  ///< parallel and row axes
  int accumulators = 0;
  atlas::Stage ahead;   ///< the first stage at the next point, where it runs along
  atlas::Stage behind;  ///< the last stage at the point before, where it trails

  const Expr& extent(int axis) const { return block.axes[static_cast<size_t>(axis)].extent; }
  /// Lays `lanes` along `axis` as the plan says.
  void set_lanes(Scope& scope, int axis, int lanes, Value* mask = nullptr) const {
    scope.set_lanes(axis, lanes, mask);
    if (alternate(lanes)) scope.set_alternate();
  }
  /// Whether so many lanes are alternate: two registers of float32, or several times that.
  bool alternate(int lanes) const {
    return plan.alternate && lanes % (k.traits.vector_bytes / 2) == 0;
  }
  bool at_least_one(int axis) const {
    return extent(axis).is_const() && extent(axis).constant_value() > 0;
  }
  /// The axis that stands for parallel axis a of the next point.
  int next_axis(int a) const { return axes + a; }
  /// And of the point before.
  int last_axis(int a) const { return axes + rank + a; }
  /// The number of what accumulator `number` was at the point before.
  int last_accumulator(int number) const { return accumulators + number; }
  int64_t element_bytes(int buffer) const {
    return size_of(k.program.buffers[static_cast<size_t>(buffer)].dtype);
  }
};

}  // namespace hologram::cpu
