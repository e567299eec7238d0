// schedule/estimate.cpp: what a kernel costs.
#include "schedule/estimate.h"

#include "atlas/walk.h"

namespace hologram::schedule {
namespace {

using atlas::Axis;

// Upper end of an extent that may depend on outer axes.
Expr extent_of(const Axis& a) {
  return a.extent.substitute([](const Atom& x) -> std::optional<Expr> {
    if (x.kind == Atom::Kind::axis) return Expr(0);
    return std::nullopt;
  });
}

int64_t operations(const atlas::Body& body) {
  int64_t n = 0;
  for (const auto& i : body.instrs) {
    if (i.code == atlas::Code::accumulate) ++n;
    if (i.code == atlas::Code::arithmetic && ir::info(i.op).kind != ir::OpKind::cast)
      n += i.op == ir::Op::fma ? 2 : 1;
  }
  return n;
}

Expr product_of(const std::vector<Axis>& axes, size_t first, size_t last) {
  Expr n(1);
  for (size_t i = first; i < last; ++i) n *= extent_of(axes[i]);
  return n;
}

Expr flop_of(const atlas::LoopBlock& loop) {
  auto parallel = static_cast<size_t>(loop.parallel_rank);
  Expr points = product_of(loop.axes, 0, parallel),
       rows = product_of(loop.axes, parallel, loop.axes.size());
  Expr total(0);
  for (const auto& s : loop.stages) {
    Expr n(operations(s.body) + static_cast<int64_t>(s.reductions.size()));
    total += n * points * (s.kind == atlas::StageKind::point ? Expr(1) : rows);
  }
  return total;
}

Expr flop_of(const atlas::ProductBlock& b) {
  auto own = static_cast<size_t>(b.batch_rank) + 3;  // as if by the direct sums
  Expr results = b.parts > 1 ? product_of(b.axes, 0, own - 2) * product_of(b.axes, own, own + 1)
                             : product_of(b.axes, 0, own - 1);
  Expr sums = Expr(2) * product_of(b.axes, 0, own) + Expr(operations(b.epilogue)) * results;
  return b.tail.stages.empty() ? sums : sums + flop_of(b.tail);
}

Expr flop_of(const atlas::AttentionBlock& b) {
  size_t batch = b.axes.size() - 4;
  Expr widths = extent_of(b.axes[batch + 2]) + extent_of(b.axes[batch + 3]);
  return product_of(b.axes, 0, batch + 2) * (Expr(2) * widths + Expr(4 + operations(b.score)));
}

Expr flop_of(const atlas::AttentionGradBlock& b) {
  size_t batch = b.axes.size() - 5;
  Expr depth = extent_of(b.axes[batch + 3]), values = extent_of(b.axes[batch + 4]);
  int64_t depths = 1 + !b.dq.instrs.empty() + !b.dk.instrs.empty();
  int64_t widths = 1 + !b.dv.instrs.empty();
  return product_of(b.axes, 0, batch + 3) * (Expr(2 * depths) * depth + Expr(2 * widths) * values +
                                             Expr(8 + operations(b.score) + operations(b.slope)));
}

Expr flop_of(const atlas::SortBlock& b) {
  return product_of(b.axes, 0, b.axes.size() - 1);  // one comparison each, say
}

}  // namespace

Estimate estimate(const atlas::Program& program) {
  Estimate out{Expr(0), Expr(0)};
  for (const auto& b : program.buffers)
    if (b.access != atlas::Access::scratch) out.bytes += b.extent * Expr(size_of(b.dtype));
  out.flop = std::visit([](const auto& block) { return flop_of(block); }, program.block);
  return out;
}

}  // namespace hologram::schedule
