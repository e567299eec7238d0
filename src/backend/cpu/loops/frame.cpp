// backend/cpu/loops/frame.cpp: the plan as the emission follows it.
#include "backend/cpu/loops/frame.h"

#include <algorithm>

namespace hologram::cpu {
namespace {

// Stage `number` at another point, whose axes are numbered so.
atlas::Stage stage_at(const LoopFrame& f, size_t number, int (LoopFrame::*axis)(int) const) {
  atlas::Stage s = f.block.stages[number];
  for (atlas::Instr& i : s.body.instrs)
    i.expr = i.expr.substitute([&](const Atom& a) -> std::optional<Expr> {
      if (a.kind != Atom::Kind::axis || a.id >= f.rank) return std::nullopt;
      return Expr::axis((f.*axis)(a.id), f.extent(a.id));
    });
  return s;
}

}  // namespace

LoopFrame::LoopFrame(CpuFunction& kernel, const LoopPlan& chosen)
    : k(kernel),
      block(kernel.program.nest()),
      plan(chosen),
      rank(block.parallel_rank),
      axes(static_cast<int>(block.axes.size())) {
  bool points_only = std::ranges::all_of(
      block.stages, [](const atlas::Stage& s) { return s.kind == atlas::StageKind::point; });
  bool scratch = std::ranges::any_of(
      k.program.buffers, [](const atlas::Buffer& b) { return b.access == atlas::Access::scratch; });
  if (!points_only || scratch) plan.unroll = 1;
  if (scratch && plan.paired) plan.paired = plan.may_stream = false;
  if (!points_only || plan.mode != LaneMode::parallel) plan.may_stream = false;
  for (const atlas::Stage& s : block.stages)
    accumulators += static_cast<int>(s.reductions.size() + s.running.size());
  if (plan.carried || plan.two_rows) ahead = stage_at(*this, 0, &LoopFrame::next_axis);
  if (!plan.trailing) return;
  behind = stage_at(*this, 2, &LoopFrame::last_axis);
  for (atlas::Instr& i : behind.body.instrs)
    if (i.code == atlas::Code::accumulator) i.buffer = last_accumulator(i.buffer);
}

}  // namespace hologram::cpu
