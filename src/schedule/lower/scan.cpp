// schedule/lower/scan.cpp: running reductions.
#include <algorithm>

#include "schedule/lower/kinds.h"

namespace hologram::schedule {

using atlas::AxisKind;
using atlas::Val;
using ir::Op;
using ir::Value;

Kernels lower_scan(const Context& cx) {
  Value s = cx.cluster.anchor;
  ProgramBuilder k(cx.storage.slots);
  atlas::LoopBlock& loop = k.program.loop();
  for (const ClusterAxis& a : cx.cluster.axes)
    loop.axes.push_back({a.row ? AxisKind::row : AxisKind::parallel, a.extent});
  loop.parallel_rank = static_cast<int>(cx.cluster.axes.size()) - 1;
  // What the axis is fixes the order, however many rows there are: along memory in blocks.
  auto axis = s->shape.begin() + static_cast<ptrdiff_t>(s->attrs.ints[0]);
  bool along = std::all_of(axis + 1, s->shape.end(), [](const Expr& d) { return d.is(1); });
  atlas::Stage stage{along ? atlas::StageKind::scan : atlas::StageKind::serial_row, {}, {}, {}};
  Emitter e = cx.emitter(k, stage.body);
  Index at = cx.placed(cx.cluster.members[0].index, cx.cluster.axes);
  Val x = e.widen(e.value(s->input(), at));
  static const std::pair<Op, Op> running[] = {{Op::cumsum, Op::reduce_sum},
                                              {Op::cumprod, Op::reduce_prod},
                                              {Op::cummax, Op::reduce_max},
                                              {Op::cummin, Op::reduce_min}};
  Op reduce = Op::reduce_sum;
  for (auto& [scan_op, r] : running)
    if (scan_op == s->op) reduce = r;
  stage.running.push_back({reduce, x.type});
  Val sum = e.builder().accumulate(reduce, 0, x);
  for (int slot : cx.storage.stores_of(s)) e.store(slot, at, e.convert(sum, s->dtype));
  loop.stages.push_back(std::move(stage));
  simplify_axes(loop, *cx.options.machine);
  std::vector<Lowered> out;
  out.push_back(finish(k, std::string(ir::name_of(s->op))));
  return out;
}

}  // namespace hologram::schedule
