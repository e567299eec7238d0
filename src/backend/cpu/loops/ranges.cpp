// backend/cpu/loops/ranges.cpp: bodies under assumptions about where their points lie.
#include "backend/cpu/loops/ranges.h"

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

}  // namespace

std::optional<Comparison> first_comparison(const Body& body, int lane_axis) {
  for (ValueId k = 0; k < body.instrs.size(); ++k) {
    auto apart = margin(body, k);
    if (!apart || apart->is_const()) continue;
    auto parts = apart->linear_in_axis(lane_axis);
    if (!parts || !parts->first.is_const()) continue;
    return Comparison{k, parts->first.constant_value(), parts->second};
  }
  return std::nullopt;
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

}  // namespace hologram::cpu
