// schedule/windows/taps.cpp: the gradient of a depthwise or grouped weight: a chain for each tap.
#include <algorithm>

#include "schedule/windows/window.h"
#include "schedule/lower/context.h"

namespace hologram::schedule {

using atlas::AxisKind;
using atlas::Val;
using ir::Value;

// Axes: the batch behind the groups (blocks of pixels), channels (the lanes), then lines and their
// pixels, some at a time. The chains of all taps live in scratch memory between these, so that each
// element of the image is read once for a few pixels.
std::vector<Lowered> Lowering::tap_sums() {
  Value dot = c_.anchor, lhs = dot->input(0), rhs = dot->input(1);
  DType acc = compute_type(lhs->dtype);
  const size_t last = c_.axes.size() - 1;
  const ClusterAxis &groups = c_.axes[0], &column = c_.axes[last - 2], &tap = c_.axes[last - 1],
                    &depth = c_.axes[last];
  const int64_t taps = tap.extent.constant_value();
  Expr line = line_of(rhs, rhs->rank() - 2);
  const int64_t pixels = pixels_together(line, 1, 32);
  Kernel k(storage_.slots);
  atlas::LoopBlock& loop = k.program.loop;
  AxisMap place;
  auto add_axis = [&](AxisKind kind, const Expr& extent) {
    Expr axis = Expr::axis(static_cast<int>(loop.axes.size()), extent);
    loop.axes.push_back({kind, extent});
    return axis;
  };
  for (size_t i = 1; i + 3 < c_.axes.size(); ++i)
    place[c_.axes[i].id] = add_axis(AxisKind::parallel, c_.axes[i].extent);
  Expr channel = add_axis(AxisKind::parallel, groups.extent * column.extent);
  loop.parallel_rank = static_cast<int>(loop.axes.size());
  loop.lane_axis = loop.parallel_rank - 1;
  Expr first = add_axis(AxisKind::row, *depth.extent.exact_div(line)) * line;
  first += add_axis(AxisKind::row, *line.exact_div(Expr(pixels))) * Expr(pixels);
  const bool grouped = !column.extent.is(1);
  place[groups.id] = grouped ? Expr::axis(group_id, groups.extent) : channel;
  place[column.id] = grouped ? Expr::axis(column_id, column.extent) : Expr(0);
  place[tap.id] = Expr::axis(tap_id, tap.extent);
  Index own = substitute(c_.members[0].index, place);

  int chains = k.scratch(acc, Expr(taps));
  atlas::Stage begin{atlas::StageKind::point, {}, {}, {}},
      rows{atlas::StageKind::serial_row, {}, {}, {}}, end{atlas::StageKind::point, {}, {}, {}};
  atlas::BodyBuilder zero(begin.body);
  for (int64_t t = 0; t < taps; ++t) zero.store(chains, Expr(t), zero.constant(acc, 0));

  Emitter e = emitter(k, rows.body);
  std::vector<Val> factors;
  for (int64_t p = 0; p < pixels; ++p) {
    Index at(own.begin(), own.end() - 1);
    at.push_back(first + Expr(p));
    factors.push_back(e.convert(e.value(lhs, at), acc));
  }
  for (int64_t t = 0; t < taps; ++t) {
    Val chain = e.builder().load(chains, acc, Expr(t));
    for (int64_t p = 0; p < pixels; ++p) {
      Index at(own.begin(), own.end() - 2);
      at.insert(at.end(), {first + Expr(p), Expr(t)});
      Val x = e.convert(e.value(rhs, at), acc);
      chain = e.builder().fma(factors[static_cast<size_t>(p)], x, chain);
    }
    e.builder().store(chains, Expr(t), chain);
  }

  Val sum;
  Emitter out = emitter(k, end.body, [&](Value v, const Index&) -> std::optional<Val> {
    if (v != dot) return std::nullopt;
    return sum;
  });
  for (int64_t t = 0; t < taps; ++t) {
    place[tap.id] = Expr(t);
    sum = out.convert(out.builder().load(chains, acc, Expr(t)), dot->dtype);
    for (const Member& m : c_.members)
      for (int slot : storage_.stores_of(m.node)) {
        Index at = substitute(m.index, place);
        out.store(slot, at, out.value(m.node, at));
      }
  }
  loop.stages = {std::move(begin), std::move(rows), std::move(end)};
  if (grouped)
    for (atlas::Stage& s : loop.stages)
      for (atlas::Instr& i : s.body.instrs) i.expr = of_channel(i.expr, column.extent, channel);
  std::vector<Lowered> kernels;
  kernels.push_back(finish(k, cluster_name(c_)));
  return kernels;
}

}  // namespace hologram::schedule
