// schedule/estimate.cpp: what a kernel costs.
#include "schedule/estimate.h"

#include <algorithm>

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

}  // namespace

Estimate estimate(const atlas::Program& program) {
  Estimate out{Expr(0), Expr(0)};
  for (const auto& b : program.buffers)
    if (b.access != atlas::Access::scratch) out.bytes += b.extent * Expr(size_of(b.dtype));
  if (program.kind == atlas::BlockKind::loop) {
    out.flop = flop_of(program.loop);
  } else if (program.kind == atlas::BlockKind::product) {
    const auto& axes = program.product.axes;
    auto own = static_cast<size_t>(program.product.batch_rank) + 3;  // as if by the direct sums
    Expr results = product_of(axes, 0, own - 1);
    if (program.product.parts > 1)
      results = product_of(axes, 0, own - 2) * product_of(axes, own, own + 1);
    out.flop =
        Expr(2) * product_of(axes, 0, own) + Expr(operations(program.product.epilogue)) * results;
    if (program.has_tail()) out.flop += flop_of(program.loop);
  } else if (program.kind == atlas::BlockKind::attention_grad) {
    const atlas::AttentionGradBlock& g = program.attention_grad;
    size_t b = g.axes.size() - 5;
    Expr scores = product_of(g.axes, 0, b + 3), depth = extent_of(g.axes[b + 3]),
         values = extent_of(g.axes[b + 4]);
    int64_t depths = 1 + !g.dq.instrs.empty() + !g.dk.instrs.empty();
    int64_t widths = 1 + !g.dv.instrs.empty();
    out.flop = scores * (Expr(2 * depths) * depth + Expr(2 * widths) * values +
                         Expr(8 + operations(g.score) + operations(g.slope)));
  } else if (program.kind == atlas::BlockKind::sort) {
    const auto& axes = program.sort.axes;
    out.flop = product_of(axes, 0, axes.size() - 1);  // one comparison each, say
  } else {
    const auto& axes = program.attention.axes;
    size_t b = axes.size() - 4;
    Expr scores = product_of(axes, 0, b + 2);
    out.flop = scores * (Expr(2) * extent_of(axes[b + 2]) + Expr(2) * extent_of(axes[b + 3]) +
                         Expr(4 + operations(program.attention.score)));
  }
  return out;
}

}  // namespace hologram::schedule
