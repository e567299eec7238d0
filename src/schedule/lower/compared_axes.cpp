// schedule/lower/compared_axes.cpp: comparisons of a coordinate as comparisons of places on the
// lines whose runs it counts.
//
// A border around a channels-last image keeps pixels apart from their channels: what is read
// depends on where a pixel lies. But pixel i is before pixel r where all of its channels are before
// the first one of r, so the comparison can be one of places on the line, and the two axes one.
#include "schedule/lower/compared_axes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "atlas/rewriting.h"

namespace hologram::schedule {
namespace {

using atlas::Body;
using atlas::Code;
using atlas::Instr;
using atlas::no_value;
using atlas::ValueId;

bool compares(const Instr& i) {
  return i.code == Code::arithmetic && (i.op == ir::Op::lt || i.op == ir::Op::le);
}

// Whether so few places of axis k change the outcome of comparisons, all of them along it, that
// each range between two of them is walked by itself: the parts of a concatenation.
bool few_borders(const Body& body, int k) {
  constexpr size_t most = 12;
  std::vector<Expr> borders;
  for (ValueId id = 0; id < body.instrs.size(); ++id) {
    if (!compares(body.instrs[id])) continue;
    auto of_runs = atlas::margin(body, id);
    auto parts = of_runs ? of_runs->linear_in_axis(k) : std::nullopt;
    if (!parts || parts->second.has_axes() || !(parts->first.is(1) || parts->first.is(-1)))
      return false;
    const Expr border = parts->first.is(1) ? -parts->second : parts->second + Expr(1);
    if (!std::ranges::count(borders, border)) borders.push_back(border);
  }
  return borders.size() <= most;
}

// A comparison's margin as one of places, `run` being the place in a run of `length`, if it is one
// of axis k alone, counted by ones: k + rest >= 0 where length * k + place + length * rest >= 0.
std::optional<Expr> margin_of_places(const Body& body, ValueId id, int k, const Expr& run,
                                     const Expr& length) {
  auto of_runs = atlas::margin(body, id);
  if (!of_runs || !of_runs->has_axis(k) || of_runs->has_axis(k + 1)) return std::nullopt;
  auto parts = of_runs->linear_in_axis(k);
  if (!parts || !(parts->first.is(1) || parts->first.is(-1))) return std::nullopt;
  const Expr first = *of_runs * length;
  return parts->first.is(1) ? first + run : first - run + length - Expr(1);
}

// The body with the margins that are given.
Body with_margins(const Body& body, const std::vector<std::optional<Expr>>& margins) {
  atlas::Rewriting out(body);
  const ValueId zero = out.add({.code = Code::constant, .type = DType::i64, .expr = {}});
  for (ValueId id = 0; id < body.instrs.size(); ++id) {
    Instr i = out.renamed(id);
    if (margins[id]) {
      i.op = ir::Op::le;
      i.args = {zero, out.add({.code = Code::index, .type = DType::i64, .expr = *margins[id]}),
                no_value};
    }
    out.put(id, std::move(i));
  }
  return atlas::without_dead(out.take());
}

}  // namespace

std::optional<atlas::LoopBlock> with_places_compared(const atlas::LoopBlock& loop, int k,
                                                     const Machine& machine) {
  constexpr int64_t short_run = 8;  // vectors; along longer ones the loop is as good
  constexpr size_t most = 8;        // comparisons that are certainly decided outside of lanes
  const Expr& length = loop.axes[static_cast<size_t>(k) + 1].extent;
  if (k + 2 != loop.parallel_rank || loop.stages.size() != 1 || !length.is_const() ||
      loop.stages[0].kind != atlas::StageKind::point ||
      length.constant_value() >= short_run * machine.vector)
    return std::nullopt;
  const Body& body = loop.stages[0].body;
  auto by_value = [](const Instr& i) {
    return i.expr.any_atom([](const Atom& a) { return a.kind == Atom::Kind::value; });
  };
  if (std::ranges::any_of(body.instrs, by_value)) return std::nullopt;
  std::vector<std::optional<Expr>> margins;
  for (ValueId id = 0; id < body.instrs.size(); ++id)
    margins.push_back(margin_of_places(body, id, k, Expr::axis(k + 1, length), length));
  auto changed = std::ranges::count_if(margins, [](const auto& m) { return m.has_value(); });
  auto all = static_cast<size_t>(std::ranges::count_if(body.instrs, compares));
  if (changed == 0 || (all > most && !few_borders(body, k))) return std::nullopt;
  atlas::LoopBlock out = loop;
  out.stages[0].body = with_margins(body, margins);
  return out;
}

}  // namespace hologram::schedule
