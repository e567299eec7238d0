// backend/cpu/loops/ranges.cpp: bodies under assumptions about where their points lie.
#include "backend/cpu/loops/ranges.h"

#include <algorithm>

#include "atlas/rewriting.h"

namespace hologram::cpu {
namespace {

using atlas::Body;
using atlas::Code;
using atlas::Instr;
using atlas::margin;
using atlas::no_value;
using atlas::Rewriting;
using atlas::ValueId;

// Whether e is certainly not negative where `known` is not.
bool follows(const Expr& e, const Expr& known) {
  Expr more = e - known;
  return more.is_const() && more.constant_value() >= 0;
}

// Not negative where e is.
Expr beyond(const Expr& e) { return Expr(-1) - e; }

void fold(Rewriting& out, ValueId k) {
  Instr i = out.renamed(k);
  if (i.code == Code::load || i.code == Code::store) {
    ValueId& guard = i.args[i.code == Code::load ? 0 : 1];
    auto known = out.known(guard);
    if (known) guard = no_value;
    if (known && !*known) {
      if (i.code == Code::load) out.put(k, i.type, 0);
      return;
    }
    return out.put(k, std::move(i));
  }
  if (i.code == Code::arithmetic && i.op == ir::Op::select) {
    if (auto known = out.known(i.args[0])) return out.alias(k, i.args[*known ? 1 : 2]);
  } else if (i.code == Code::arithmetic && i.type == DType::b8 && i.op == ir::Op::bit_not) {
    if (auto known = out.known(i.args[0])) return out.put(k, DType::b8, *known ? 0 : 1);
  } else if (i.code == Code::arithmetic && i.type == DType::b8 &&
             (i.op == ir::Op::bit_and || i.op == ir::Op::bit_or)) {
    bool decides = i.op == ir::Op::bit_or;  // the operand that decides alone
    for (size_t n = 0; n < 2; ++n)
      if (auto known = out.known(i.args[n]))
        return *known == decides ? out.put(k, DType::b8, decides) : out.alias(k, i.args[1 - n]);
  }
  out.put(k, std::move(i));
}

// What value k compares, if it is a comparison of coordinates along the axis or beside it.
std::optional<Comparison> comparison(const Body& body, ValueId k, int axis) {
  auto apart = margin(body, k);
  if (!apart || apart->is_const()) return std::nullopt;
  auto parts = apart->linear_in_axis(axis);
  if (!parts || !parts->first.is_const()) return std::nullopt;
  return Comparison{k, parts->first.constant_value(), parts->second};
}

}  // namespace

std::optional<Comparison> first_comparison(const Body& body, int lane_axis) {
  for (ValueId k = 0; k < body.instrs.size(); ++k)
    if (auto found = comparison(body, k, lane_axis)) return found;
  return std::nullopt;
}

void order_equalities(atlas::Program& program) {
  constexpr int64_t short_line = 128;  // elements, whose masks cost less than three ranges
  if (program.kind() != atlas::BlockKind::loop) return;
  atlas::LoopBlock& b = program.loop();
  if (b.stages.size() != 1 || b.stages[0].kind != atlas::StageKind::point || b.parallel_rank == 0 ||
      b.lane_axis != b.parallel_rank - 1)
    return;
  const Expr& line = b.axes[static_cast<size_t>(b.lane_axis)].extent;
  if (line.is_const() && line.constant_value() < short_line) return;
  const Body body = b.stages[0].body;
  Rewriting out(body);
  for (ValueId k = 0; k < body.instrs.size(); ++k) {
    const auto apart = atlas::difference(body, k);
    if (!apart || apart->is_const()) {
      out.put(k, out.renamed(k));
      continue;
    }
    const ValueId zero = out.add({.code = Code::constant, .type = DType::i64, .expr = {}}),
                  place = out.add({.code = Code::index, .type = DType::i64, .expr = *apart});
    auto truth = [&](ir::Op op, DType type, ValueId x, ValueId y) {
      return out.add(
          {.code = Code::arithmetic, .op = op, .type = type, .args = {x, y, no_value}, .expr = {}});
    };
    const ValueId both =
        truth(ir::Op::bit_and, DType::b8, truth(ir::Op::le, DType::i64, zero, place),
              truth(ir::Op::le, DType::i64, place, zero));
    out.alias(k, body.instrs[k].op == ir::Op::eq
                     ? both
                     : truth(ir::Op::bit_not, DType::b8, both, no_value));
  }
  b.stages[0].body = atlas::without_dead(out.take());
}

std::optional<Checks> checks_of(const atlas::Program& program, const Body& body, int axis) {
  auto is = [&](ValueId k, ir::Op op, DType type) {
    return k != no_value && body.instrs[k].code == Code::arithmetic && body.instrs[k].op == op &&
           body.instrs[k].type == type;
  };
  auto same = [&](ValueId k, const Expr& extent) {
    const Instr& i = body.instrs[k];
    if (i.code == Code::constant && extent.is_const())
      return i.bits == static_cast<uint64_t>(extent.constant_value());
    return is(k, ir::Op::cast, DType::u64) && body.instrs[i.args[0]].code == Code::index &&
           body.instrs[i.args[0]].expr == extent;
  };
  auto in_order = [&](const Instr& i) {
    if (i.code != Code::load) return i.code != Code::clamp_index && i.code != Code::accumulator;
    const auto along = i.expr.linear_in_axis(axis);
    return program.buffers[static_cast<size_t>(i.buffer)].access == atlas::Access::read &&
           i.args[0] == no_value && along && along->first.is(1) &&
           !along->second.any_atom([](const Atom& a) { return a.kind == Atom::Kind::value; });
  };
  Checks out;
  Rewriting within(body);
  size_t clamps = 0;
  for (ValueId k = 0; k < body.instrs.size(); ++k) {
    const Instr& i = body.instrs[k];
    if (i.code == Code::clamp_index) {
      ++clamps;
      within.alias(k, within.place(i.args[0]));
      continue;
    }
    const bool compares = is(k, ir::Op::lt, DType::u64) && is(i.args[0], ir::Op::cast, DType::u64);
    const bool checks = compares && std::ranges::any_of(body.instrs, [&](const Instr& clamp) {
                          return clamp.code == Code::clamp_index &&
                                 clamp.args[0] == body.instrs[i.args[0]].args[0] &&
                                 same(i.args[1], clamp.expr);
                        });
    if (!checks) {
      fold(within, k);
      continue;
    }
    out.inside.push_back(atlas::made_of(body, k));
    if (!std::ranges::all_of(out.inside.back().instrs, in_order)) return std::nullopt;
    within.put(k, DType::b8, 1);
  }
  if (clamps == 0 || out.inside.size() != clamps) return std::nullopt;
  out.within = atlas::without_dead(within.take());
  return out;
}

bool has_borders(const Body& body, int axis) {
  for (ValueId k = 0; k < body.instrs.size(); ++k)
    if (auto found = comparison(body, k, axis); found && found->slope != 0) return true;
  return false;
}

// Rising: from ceil(-rest / slope) on; falling: up to floor(rest / -slope).
Expr first_beyond(const Comparison& c) {
  return c.slope > 0 ? ceil_div(-c.rest, Expr(c.slope))
                     : floor_div(c.rest, Expr(-c.slope)) + Expr(1);
}

Body assume(const Body& body, const Expr& known) {
  Rewriting out(body);
  for (ValueId k = 0; k < body.instrs.size(); ++k) {
    auto other = margin(body, k);
    if (other && (follows(*other, known) || follows(beyond(*other), known)))
      out.put(k, DType::b8, follows(*other, known));
    else
      fold(out, k);
  }
  return atlas::without_dead(out.take());
}

Body assume(const Body& body, ValueId id, bool truth) {
  const Expr holds = *margin(body, id);
  return assume(body, truth ? holds : beyond(holds));
}

Expr known_of(const Comparison& c, int lane_axis, const Expr& extent, bool truth) {
  const Expr holds = Expr::axis(lane_axis, extent) * Expr(c.slope) + c.rest;
  return truth ? holds : beyond(holds);
}

std::optional<int64_t> Range::length() const {
  const Expr n = to - from;
  return n.is_const() ? std::optional(n.constant_value()) : std::nullopt;
}

bool Range::is_short(int lanes) const {
  const auto n = length();
  return n && *n < 2 * lanes;
}

namespace {

// The part of the places of an axis at which slope * place + rest >= 0.
double share_of(int64_t slope, int64_t rest, int64_t from, int64_t to) {
  const Comparison c{0, slope, Expr(rest)};
  const int64_t at = std::clamp(first_beyond(c).constant_value(), from, to);
  return static_cast<double>(slope > 0 ? to - at : at - from) / static_cast<double>(to - from);
}

// The part of a range's points for which a comparison holds, a half where that is not known.
double share_of(const Comparison& c, const Range& range, const std::vector<atlas::Axis>& axes) {
  constexpr double unknown = 0.5;
  if (c.slope != 0) {
    if (!c.rest.is_const() || !range.from.is_const() || !range.to.is_const()) return unknown;
    const int64_t from = range.from.constant_value(), to = range.to.constant_value();
    return from < to ? share_of(c.slope, c.rest.constant_value(), from, to) : unknown;
  }
  for (size_t a = 0; a < axes.size(); ++a) {
    auto parts = c.rest.linear_in_axis(static_cast<int>(a));
    const Expr& extent = axes[a].extent;
    if (parts && parts->first.is_const() && parts->first.constant_value() != 0 &&
        parts->second.is_const() && extent.is_const() && extent.constant_value() > 0)
      return share_of(parts->first.constant_value(), parts->second.constant_value(), 0,
                      extent.constant_value());
  }
  return unknown;
}

}  // namespace

std::deque<Range> ranges_of(const Body& body, const std::vector<atlas::Axis>& axes, int lane_axis,
                            int lanes) {
  constexpr size_t most_ranges = 12, most_instructions = 4000;
  const size_t most =
      std::min(most_ranges, most_instructions / std::max<size_t>(1, body.instrs.size()));
  std::deque<Range> all;
  std::vector<Range*> open;  // leaves that may be taken apart
  auto add = [&](Body left, const Expr& from, const Expr& to, double share) {
    Range& r = all.emplace_back(std::move(left), from, to, share);
    r.split = first_comparison(r.body, lane_axis);
    if (r.split && !(r.split->slope != 0 && r.is_short(lanes)))
      open.push_back(&r);
    else
      r.split.reset();
    return &r;
  };
  add(body, Expr(0), axes[static_cast<size_t>(lane_axis)].extent, 1);
  for (size_t decided = 0; decided < most && !open.empty(); ++decided) {
    auto heaviest = std::ranges::max_element(open, {}, &Range::share);
    Range& r = **heaviest;
    open.erase(heaviest);
    const Comparison& c = *r.split;
    const double part = share_of(c, r, axes);
    const bool rises = c.slope > 0;
    Expr at = c.slope != 0 ? first_beyond(c) : Expr(0);
    const bool known = c.slope != 0 && at.is_const();
    r.holds = add(assume(r.body, c.id, true), known && rises ? at : r.from,
                  known && !rises ? at : r.to, r.share * part);
    r.fails = add(assume(r.body, c.id, false), known && !rises ? at : r.from,
                  known && rises ? at : r.to, r.share * (1 - part));
  }
  for (Range* r : open) r->split.reset();
  return all;
}

Body at_place(const Body& body, int axis, int64_t place) {
  Body placed = body;
  for (Instr& i : placed.instrs)
    if (i.expr.has_axis(axis))
      i.expr = i.expr.substitute([&](const Atom& a) -> std::optional<Expr> {
        if (a.kind != Atom::Kind::axis || a.id != axis) return std::nullopt;
        return Expr(place);
      });
  return assume(placed, Expr(0));  // which decides the comparisons of constants
}

bool copies_points(const Body& body, int axis, const Expr& extent) {
  constexpr int64_t longest = 32;
  const auto loads = std::ranges::count(body.instrs, Code::load, &Instr::code);
  if (!extent.is_const() || extent.constant_value() > longest ||
      2 * loads < extent.constant_value())
    return false;
  for (int64_t place = 0; place < extent.constant_value(); ++place) {
    int64_t read = 0, written = 0;
    for (const Instr& i : at_place(body, axis, place).instrs) {
      read += i.code == Code::load;
      written += i.code == Code::store;
      if (i.code != Code::load && i.code != Code::store && i.code != Code::constant) return false;
    }
    if (read > 1 || written != 1) return false;
  }
  return true;
}

}  // namespace hologram::cpu
