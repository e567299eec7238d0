// backend/cpu/loops/ranges.cpp: bodies under assumptions about where their points lie.
#include "backend/cpu/loops/ranges.h"

#include <cstdlib>

namespace hologram::cpu {
namespace {

using atlas::Body;
using atlas::Code;
using atlas::Instr;
using atlas::no_value;
using atlas::ValueId;

constexpr int64_t largest_constant = int64_t{1} << 40;

// An i64 value of the body as an expression of coordinates.
std::optional<Expr> coordinates(const Body& body, ValueId id, int depth = 0) {
  const Instr& i = body.instrs[id];
  if (i.type != DType::i64 || depth > 4) return std::nullopt;
  if (i.code == Code::constant) {
    auto n = static_cast<int64_t>(i.bits);
    if (n > largest_constant || n < -largest_constant) return std::nullopt;
    return Expr(n);
  }
  if (i.code == Code::index) {
    if (i.expr.any_atom([](const Atom& a) { return a.kind == Atom::Kind::value; }))
      return std::nullopt;
    return i.expr;
  }
  if (i.code != Code::arithmetic || (i.op != ir::Op::add && i.op != ir::Op::sub))
    return std::nullopt;
  auto x = coordinates(body, i.args[0], depth + 1), y = coordinates(body, i.args[1], depth + 1);
  if (!x || !y) return std::nullopt;
  return i.op == ir::Op::add ? *x + *y : *x - *y;
}

// What is not negative where comparison `id` of coordinates holds, and only there.
std::optional<Expr> margin(const Body& body, ValueId id) {
  const Instr& i = body.instrs[id];
  if (i.code != Code::arithmetic || i.type != DType::i64 ||
      (i.op != ir::Op::lt && i.op != ir::Op::le))
    return std::nullopt;
  auto x = coordinates(body, i.args[0]), y = coordinates(body, i.args[1]);
  if (!x || !y) return std::nullopt;
  return i.op == ir::Op::lt ? *y - *x - Expr(1) : *y - *x;
}

// Whether e is certainly not negative where `known` is not.
bool follows(const Expr& e, const Expr& known) {
  Expr more = e - known;
  return more.is_const() && more.constant_value() >= 0;
}

// Not negative where e is.
Expr beyond(const Expr& e) { return Expr(-1) - e; }

bool has_effect(const Instr& i) {
  bool divides =
      i.code == Code::arithmetic && is_int(i.type) && (i.op == ir::Op::div || i.op == ir::Op::rem);
  return divides || i.code == Code::store || i.code == Code::clamp_index ||
         i.code == Code::accumulate;
}

// A body that is written instruction by instruction from another one.
class Rewriting {
 public:
  explicit Rewriting(const Body& from) : from_(from), to_(from.instrs.size(), no_value) {}

  /// Instruction k with its operands as they are called here.
  Instr renamed(ValueId k) const {
    Instr i = from_.instrs[k];
    for (ValueId& a : i.args)
      if (a != no_value) a = to_[a];
    i.expr = i.expr.substitute([&](const Atom& a) -> std::optional<Expr> {
      if (a.kind != Atom::Kind::value) return std::nullopt;
      return Expr::value(static_cast<int>(to_[static_cast<size_t>(a.id)]), *a.a);
    });
    return i;
  }
  void put(ValueId k, Instr i) { to_[k] = out_.add(std::move(i)); }
  void put(ValueId k, DType type, uint64_t bits) {
    put(k, {.code = Code::constant, .type = type, .bits = bits, .expr = {}});
  }
  void alias(ValueId k, ValueId value) { to_[k] = value; }
  std::optional<bool> known(ValueId value) const {
    if (value == no_value || out_.instrs[value].code != Code::constant) return std::nullopt;
    return out_.instrs[value].bits != 0;
  }
  Body take() { return std::move(out_); }

 private:
  const Body& from_;
  Body out_;
  std::vector<ValueId> to_;
};

// The body without what nothing needs.
Body without_dead(const Body& body) {
  std::vector<char> live(body.instrs.size(), 0);
  for (size_t k = body.instrs.size(); k-- > 0;) {
    const Instr& i = body.instrs[k];
    if (!live[k] && !has_effect(i)) continue;
    live[k] = 1;
    for (ValueId a : i.args)
      if (a != no_value) live[a] = 1;
    i.expr.any_atom([&](const Atom& a) {
      if (a.kind == Atom::Kind::value) live[static_cast<size_t>(a.id)] = 1;
      return false;
    });
  }
  Rewriting out(body);
  for (ValueId k = 0; k < body.instrs.size(); ++k)
    if (live[k]) out.put(k, out.renamed(k));
  return out.take();
}

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
  return without_dead(out.take());
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
