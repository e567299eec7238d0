// atlas/rewriting.cpp: comparisons of coordinates; instructions with other operands.
#include "atlas/rewriting.h"

namespace hologram::atlas {
namespace {

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

bool has_effect(const Instr& i) {
  bool divides =
      i.code == Code::arithmetic && is_int(i.type) && (i.op == ir::Op::div || i.op == ir::Op::rem);
  return divides || i.code == Code::store || i.code == Code::clamp_index ||
         i.code == Code::accumulate;
}

// The live instructions and what these need.
Body with_operands(const Body& body, std::vector<char> live) {
  for (size_t k = body.instrs.size(); k-- > 0;) {
    if (!live[k]) continue;
    const Instr& i = body.instrs[k];
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

}  // namespace

std::optional<Expr> margin(const Body& body, ValueId id) {
  const Instr& i = body.instrs[id];
  if (i.code != Code::arithmetic || i.type != DType::i64 ||
      (i.op != ir::Op::lt && i.op != ir::Op::le))
    return std::nullopt;
  auto x = coordinates(body, i.args[0]), y = coordinates(body, i.args[1]);
  if (!x || !y) return std::nullopt;
  return i.op == ir::Op::lt ? *y - *x - Expr(1) : *y - *x;
}

std::optional<Expr> difference(const Body& body, ValueId id) {
  const Instr& i = body.instrs[id];
  if (i.code != Code::arithmetic || i.type != DType::i64 ||
      (i.op != ir::Op::eq && i.op != ir::Op::ne))
    return std::nullopt;
  auto x = coordinates(body, i.args[0]), y = coordinates(body, i.args[1]);
  if (!x || !y) return std::nullopt;
  return *x - *y;
}

std::vector<bool> of_coordinates(const Body& body) {
  std::vector<bool> found;
  for (ValueId k = 0; k < body.instrs.size(); ++k)
    found.push_back(margin(body, k) || difference(body, k) || coordinates(body, k));
  return found;
}

Instr Rewriting::renamed(ValueId k) const {
  Instr i = from_.instrs[k];
  for (ValueId& a : i.args)
    if (a != no_value) a = to_[a];
  i.expr = i.expr.substitute([&](const Atom& a) -> std::optional<Expr> {
    if (a.kind != Atom::Kind::value) return std::nullopt;
    return Expr::value(static_cast<int>(to_[static_cast<size_t>(a.id)]), *a.a);
  });
  return i;
}

Body without_dead(const Body& body, ValueId result) {
  std::vector<char> live;
  for (ValueId k = 0; k < body.instrs.size(); ++k)
    live.push_back(k == result || has_effect(body.instrs[k]));
  return with_operands(body, std::move(live));
}

Body made_of(const Body& body, ValueId id) {
  std::vector<char> live(body.instrs.size(), 0);
  live[id] = 1;
  return with_operands(body, std::move(live));
}

}  // namespace hologram::atlas
