// schedule/windows/weight_gradient.cpp: the gradient of a grouped weight, a chain for each tap.
//
// A body takes up to eight pixels of a line. No windows are copied. A gradient that arrives with
// its channels apart is laid out once.
#include <algorithm>

#include "schedule/lower/kinds.h"
#include "schedule/windows/channels.h"
#include "schedule/windows/window.h"

namespace hologram::schedule {

using atlas::AxisKind;
using atlas::Val;
using ir::Value;

// Axes: the batch behind the groups (blocks of pixels), channels (the lanes), then lines and their
// pixels, some at a time. The chains of all taps live in scratch memory between these, so that each
// element of the image is read once for a few pixels.
Kernels lower_weight_gradient(const Context& cx) {
  Value dot = cx.cluster.anchor, lhs = dot->input(0), rhs = dot->input(1);
  DType acc = compute_type(lhs->dtype);
  const size_t last = cx.cluster.axes.size() - 1;
  const ClusterAxis &groups = cx.cluster.axes[0], &column = cx.cluster.axes[last - 2],
                    &tap = cx.cluster.axes[last - 1], &depth = cx.cluster.axes[last];
  const int64_t taps = tap.extent.constant_value();
  Expr line = line_of(rhs, rhs->rank() - 2);
  const int64_t pixels =
      pixels_together(line, 1, cx.options.machine->sums_in_registers(lhs->dtype));
  ProgramBuilder k(cx.storage.slots);
  atlas::LoopBlock& loop = k.program.loop();
  AxisMap place;
  auto add_axis = [&](AxisKind kind, const Expr& extent) {
    Expr axis = Expr::axis(static_cast<int>(loop.axes.size()), extent);
    loop.axes.push_back({kind, extent});
    return axis;
  };
  for (size_t i = 1; i + 3 < cx.cluster.axes.size(); ++i)
    place[cx.cluster.axes[i].id] = add_axis(AxisKind::parallel, cx.cluster.axes[i].extent);
  Expr channel = add_axis(AxisKind::parallel, groups.extent * column.extent);
  loop.parallel_rank = static_cast<int>(loop.axes.size());
  loop.lane_axis = loop.parallel_rank - 1;
  Expr first = add_axis(AxisKind::row, *depth.extent.exact_div(line)) * line;
  first += add_axis(AxisKind::row, *line.exact_div(Expr(pixels))) * Expr(pixels);
  auto [group, in_group] = group_and_column(channel, groups.extent, column.extent);
  place[groups.id] = group;
  place[column.id] = in_group;
  place[tap.id] = Expr(0);
  Index own = substitute(cx.cluster.members[0].index, place);

  int chains = k.scratch(acc, Expr(taps));
  atlas::Stage begin{atlas::StageKind::point, {}, {}, {}},
      rows{atlas::StageKind::serial_row, {}, {}, {}}, end{atlas::StageKind::point, {}, {}, {}};
  atlas::BodyBuilder zero(begin.body);
  for (int64_t t = 0; t < taps; ++t) zero.store(chains, Expr(t), zero.constant(acc, 0));

  Emitter e = cx.emitter(k, rows.body);
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
  Emitter out = cx.emitter(k, end.body, [&](Value v, const Index&) -> std::optional<Val> {
    if (v != dot) return std::nullopt;
    return sum;
  });
  for (int64_t t = 0; t < taps; ++t) {
    place[tap.id] = Expr(t);
    sum = out.convert(out.builder().load(chains, acc, Expr(t)), dot->dtype);
    cx.store_results(out, place);
  }
  loop.stages = {std::move(begin), std::move(rows), std::move(end)};
  std::vector<Lowered> kernels;
  kernels.push_back(finish(k, cluster_name(cx.cluster)));
  return kernels;
}

}  // namespace hologram::schedule
