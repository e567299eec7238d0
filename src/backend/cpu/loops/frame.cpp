// backend/cpu/loops/frame.cpp: the plan as the emission follows it.
#include "backend/cpu/loops/frame.h"

#include <algorithm>

namespace hologram::cpu {
namespace {

atlas::Stage stage_ahead(const LoopFrame& f) {
  atlas::Stage s = f.block.stages[0];
  for (atlas::Instr& i : s.body.instrs)
    i.expr = i.expr.substitute([&](const Atom& a) -> std::optional<Expr> {
      if (a.kind != Atom::Kind::axis || a.id >= f.rank) return std::nullopt;
      return Expr::axis(f.next_axis(a.id), f.extent(a.id));
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
  if (plan.carried) ahead = stage_ahead(*this);
}

}  // namespace hologram::cpu
