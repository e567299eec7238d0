// schedule/estimate.cpp: what a kernel costs.
#include "schedule/estimate.h"

#include <algorithm>
#include <map>
#include <set>

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

// The smaller one, where it can be told.
Expr least(const Expr& a, const Expr& b) {
  if (provably_nonnegative(b - a)) return a;
  return provably_nonnegative(a - b) ? b : min(a, b);
}

using AxisSet = std::set<int>;

// By instruction of a stage's body: the axes that its result depends on. What earlier stages
// reduced depends on all parallel ones.
std::vector<AxisSet> axes_behind(const atlas::LoopBlock& loop, const atlas::Body& body) {
  std::vector<AxisSet> out;
  for (const atlas::Instr& i : body.instrs) {
    AxisSet found;
    auto join = [&](const AxisSet& other) { found.insert(other.begin(), other.end()); };
    for (atlas::ValueId a : i.args)
      if (a != atlas::no_value) join(out[a]);
    i.expr.any_atom([&](const Atom& a) {
      if (a.kind == Atom::Kind::axis) found.insert(a.id);
      if (a.kind == Atom::Kind::value) join(out[static_cast<size_t>(a.id)]);
      return false;
    });
    if (i.code == atlas::Code::accumulator || i.code == atlas::Code::accumulate)
      for (int axis = 0; axis < loop.parallel_rank; ++axis) found.insert(axis);
    out.push_back(std::move(found));
  }
  return out;
}

// By buffer: elements that a loop touches, at most as many as there are places where it does so: of
// a table those of the rows that are looked up. Stages are taken to touch the same ones.
std::map<int, Expr> elements_of_loop(const atlas::LoopBlock& loop) {
  std::map<int, Expr> most;
  for (const atlas::Stage& s : loop.stages) {
    const std::vector<AxisSet> behind = axes_behind(loop, s.body);
    std::map<int, Expr> here;
    std::vector<const atlas::Instr*> seen;
    for (size_t n = 0; n < behind.size(); ++n) {
      const atlas::Instr& i = s.body.instrs[n];
      if (i.code != atlas::Code::load && i.code != atlas::Code::store) continue;
      auto same = [&](const atlas::Instr* x) { return x->buffer == i.buffer && x->expr == i.expr; };
      if (std::ranges::any_of(seen, same)) continue;
      seen.push_back(&i);
      AxisSet axes;
      i.expr.any_atom([&](const Atom& a) {
        if (a.kind == Atom::Kind::axis) axes.insert(a.id);
        if (a.kind == Atom::Kind::value) axes.merge(AxisSet(behind[static_cast<size_t>(a.id)]));
        return false;
      });
      Expr count(1);
      for (int axis : axes) count *= extent_of(loop.axes[static_cast<size_t>(axis)]);
      here.try_emplace(i.buffer, Expr(0)).first->second += count;
    }
    for (const auto& [buffer, count] : here) {
      auto [known, first] = most.try_emplace(buffer, count);
      if (!first && !provably_nonnegative(known->second - count))
        known->second =
            provably_nonnegative(count - known->second) ? count : max(known->second, count);
    }
  }
  return most;
}

}  // namespace

Estimate estimate(const atlas::Program& program) {
  Estimate out{Expr(0), Expr(0), {}};
  std::map<int, Expr> touched;
  if (program.kind() == atlas::BlockKind::loop) touched = elements_of_loop(program.loop());
  for (size_t n = 0; n < program.buffers.size(); ++n) {
    const atlas::Buffer& b = program.buffers[n];
    if (b.access == atlas::Access::scratch) continue;
    auto some = touched.find(static_cast<int>(n));
    out.moved.push_back((some == touched.end() ? b.extent : least(b.extent, some->second)) *
                        Expr(size_of(b.dtype)));
    out.bytes += out.moved.back();
  }
  out.flop = std::visit([](const auto& block) { return flop_of(block); }, program.block);
  return out;
}

}  // namespace hologram::schedule
