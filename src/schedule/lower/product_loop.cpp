// schedule/lower/product_loop.cpp: products as loops, for machines that take products of known
// sizes only.
#include "atlas/order.h"
#include "schedule/lower/kinds.h"

namespace hologram::schedule {

using atlas::AxisKind;
using atlas::Val;
using ir::Value;

// Axes: the results' (columns are the lanes), then k. The sum of finished blocks and the chain of
// this one lie in scratch memory between two steps along k.
Kernels lower_product_as_loop(const Context& cx) {
  Value dot = cx.cluster.anchor, lhs = dot->input(0), rhs = dot->input(1);
  const std::vector<ClusterAxis>& axes = cx.cluster.axes;
  const DType acc = is_int(dot->dtype) ? dot->dtype : compute_type(lhs->dtype);
  const Expr block(atlas::product_block), depth = axes.back().extent;
  ProgramBuilder k(cx.storage.slots);
  atlas::LoopBlock& loop = k.program.loop();
  for (const ClusterAxis& a : axes)
    loop.axes.push_back({a.row ? AxisKind::row : AxisKind::parallel, a.extent});
  loop.parallel_rank = static_cast<int>(axes.size()) - 1;
  loop.lane_axis = loop.parallel_rank - 1;
  auto axis = [&](size_t i) { return Expr::axis(static_cast<int>(i), axes[i].extent); };
  const int chain = k.scratch(acc, Expr(1)), sum = k.scratch(acc, Expr(1));
  atlas::Stage begin{atlas::StageKind::point, {}, {}, {}},
      steps{atlas::StageKind::serial_row, {}, {}, {}}, end{atlas::StageKind::point, {}, {}, {}};
  atlas::BodyBuilder zero(begin.body);
  for (int buffer : {chain, sum}) zero.store(buffer, Expr(0), zero.constant(acc, 0));

  Emitter e = cx.emitter(k, steps.body);
  atlas::BodyBuilder& b = e.builder();
  Index at = cx.placed(cx.cluster.members[0].index, axes);
  Index of_lhs(at.begin(), at.end() - 2), of_rhs = of_lhs;
  const size_t last = axes.size() - 1;
  of_lhs.insert(of_lhs.end(), {axis(last - 2), axis(last)});
  of_rhs.insert(of_rhs.end(), {axis(last), axis(last - 1)});
  Val x = e.convert(e.value(lhs, of_lhs), acc), y = e.convert(e.value(rhs, of_rhs), acc);
  // A new block adds the one before it to the sum; the first of these is the sum.
  auto joined = [&](atlas::BodyBuilder& to, const Expr& before) {
    Val c = to.load(chain, acc, Expr(0)), s = to.load(sum, acc, Expr(0));
    return to.select(to.le(to.index(before), to.index(block)), c, to.add(s, c));
  };
  Val fresh = b.eq(b.index(mod(axis(last), block)), b.index(Expr(0)));
  b.store(sum, Expr(0), b.select(fresh, joined(b, axis(last)), b.load(sum, acc, Expr(0))));
  Val so_far = b.select(fresh, b.constant(acc, 0), b.load(chain, acc, Expr(0)));
  b.store(chain, Expr(0), is_float(acc) ? b.fma(x, y, so_far) : b.add(b.mul(x, y), so_far));

  Val total;
  Emitter out = cx.emitter(k, end.body, [&](Value v, const Index&) -> std::optional<Val> {
    if (v != dot) return std::nullopt;
    return total;
  });
  total = out.convert(joined(out.builder(), depth), dot->dtype);
  AxisMap place;
  for (size_t i = 0; i < last; ++i) place.emplace(axes[i].id, axis(i));
  cx.store_results(out, place);
  loop.stages = {std::move(begin), std::move(steps), std::move(end)};
  std::vector<Lowered> kernels;
  kernels.push_back(finish(k, cluster_name(cx.cluster)));
  return kernels;
}

}  // namespace hologram::schedule
