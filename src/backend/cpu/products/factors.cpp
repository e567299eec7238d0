// backend/cpu/products/factors.cpp: what of an operand's body depends on k, and what does not.
#include "backend/cpu/products/factors.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "atlas/order.h"
#include "atlas/rewriting.h"

namespace hologram::cpu {
namespace {

// What value `id` of the body is made of, as a body of its own; nullopt where coordinates are
// values.
std::optional<atlas::Body> part_of(const atlas::Body& body, atlas::ValueId id) {
  atlas::Body part = atlas::made_of(body, id);
  for (const atlas::Instr& i : part.instrs)
    if (i.expr.any_atom([](const Atom& a) { return a.kind == Atom::Kind::value; }))
      return std::nullopt;
  return part;
}

bool varies(const atlas::Body& body, int axis) {
  return std::ranges::any_of(body.instrs,
                             [&](const atlas::Instr& i) { return i.expr.has_axis(axis); });
}

// The body of `op` on what two bodies give; only on the first one's where the other is empty.
atlas::Body joined(ir::Op op, atlas::Body x, const atlas::Body& y) {
  const auto before = static_cast<atlas::ValueId>(x.instrs.size());
  for (atlas::Instr i : y.instrs) {
    for (atlas::ValueId& a : i.args)
      if (a != atlas::no_value) a += before;
    x.add(std::move(i));
  }
  atlas::Instr last;
  last.code = atlas::Code::arithmetic;
  last.op = op;
  last.type = DType::f32;
  last.args[0] = (y.instrs.empty() ? static_cast<atlas::ValueId>(x.instrs.size()) : before) - 1;
  if (!y.instrs.empty()) last.args[1] = static_cast<atlas::ValueId>(x.instrs.size() - 1);
  x.add(std::move(last));
  return x;
}

// Constants by which something of the body divides the axis.
std::vector<int64_t> divisors(const atlas::Body& body, int axis) {
  std::vector<int64_t> found;
  for (const atlas::Instr& i : body.instrs)
    i.expr.any_atom([&](const Atom& a) {
      if (a.kind != Atom::Kind::floor_div && a.kind != Atom::Kind::mod) return false;
      const Atom* x = a.a->as_atom();
      if (x && x->kind == Atom::Kind::axis && x->id == axis && a.b->is_const())
        found.push_back(a.b->constant_value());
      return false;
    });
  return found;
}

}  // namespace

atlas::Body nested_axis(const atlas::Body& body, int axis, const Expr& outer, const Expr& inner,
                        int64_t size) {
  atlas::Body out = body;
  auto is_axis = [&](const Expr& e) {
    const Atom* a = e.as_atom();
    return a && a->kind == Atom::Kind::axis && a->id == axis;
  };
  for (atlas::Instr& i : out.instrs)
    i.expr = i.expr.substitute([&](const Atom& a) -> std::optional<Expr> {
      if (a.kind == Atom::Kind::axis && a.id == axis) return outer * Expr(size) + inner;
      bool quotient = a.kind == Atom::Kind::floor_div;
      if ((!quotient && a.kind != Atom::Kind::mod) || !is_axis(*a.a) || !a.b->is_const())
        return std::nullopt;
      int64_t d = a.b->constant_value();
      if (d % size == 0)
        return quotient ? floor_div(outer, d / size) : mod(outer, d / size) * Expr(size) + inner;
      if (size % d == 0)
        return quotient ? outer * Expr(size / d) + floor_div(inner, d) : mod(inner, d);
      return std::nullopt;
    });
  return out;
}

bool reads_inside(const atlas::Program& program, const atlas::Body& body,
                  std::span<const int64_t> behind) {
  const atlas::ProductBlock& b = program.product();
  std::vector<int64_t> at;
  for (int axis = 0; axis < b.batch_rank; ++axis) {
    const Expr& extent = b.axes[static_cast<size_t>(axis)].extent;
    if (!extent.is_const()) return false;
    at.push_back(extent.constant_value() - 1);
  }
  at.insert(at.end(), 3, 0);
  at.insert(at.end(), behind.begin(), behind.end());
  return std::ranges::all_of(body.instrs, [&](const atlas::Instr& i) {
    if (i.code != atlas::Code::load) return true;
    const Expr& extent = program.buffers[static_cast<size_t>(i.buffer)].extent;
    const bool open = i.expr.any_atom(
        [](const Atom& a) { return a.kind == Atom::Kind::symbol || a.kind == Atom::Kind::value; });
    return i.args[0] == atlas::no_value && !open && extent.is_const() &&
           i.expr.eval({}, at) < extent.constant_value();
  });
}

Steps steps_of(const atlas::Body& body, int axis) {
  Steps s{atlas::product_block, 1};
  for (int64_t d : divisors(body, axis)) {
    if (d <= 8 && (d & (d - 1)) == 0) {
      s.together = std::max(s.together, static_cast<int>(d));
      continue;
    }
    int64_t common = std::gcd(s.segment, d);
    if (common >= 16) s.segment = common;
  }
  if (s.segment % s.together) s.together = 1;
  return s;
}

std::optional<Factors> take_factors(const atlas::Body& body, int axis) {
  auto arithmetic = [&](atlas::ValueId id, ir::Op op) {
    const atlas::Instr& i = body.instrs[id];
    return i.code == atlas::Code::arithmetic && i.op == op && i.type == DType::f32;
  };
  // The operands of instruction `id`, the one that is the same along the axis last.
  using Pair = std::pair<atlas::Body, atlas::Body>;
  auto operands = [&](const atlas::Body& of, atlas::ValueId a,
                      atlas::ValueId b) -> std::optional<Pair> {
    auto x = part_of(of, a), y = part_of(of, b);
    if (!x || !y) return std::nullopt;
    if (varies(*y, axis)) std::swap(x, y);
    if (varies(*y, axis) || !varies(*x, axis)) return std::nullopt;
    return Pair(std::move(*x), std::move(*y));
  };
  auto last = static_cast<atlas::ValueId>(body.instrs.size() - 1);
  if (arithmetic(last, ir::Op::add)) {
    auto sum = operands(body, body.instrs[last].args[0], body.instrs[last].args[1]);
    if (!sum) return std::nullopt;
    auto rest = take_factors(sum->first, axis);
    if (!rest || !rest->zero.instrs.empty()) return std::nullopt;
    rest->zero = std::move(sum->second);
    return rest;
  }
  if (arithmetic(last, ir::Op::mul))
    if (auto product = operands(body, body.instrs[last].args[0], body.instrs[last].args[1]))
      return Factors{std::move(product->first), std::move(product->second), {}};
  auto whole = part_of(body, last);
  if (!whole || whole->instrs.back().type != DType::f32) return std::nullopt;
  return Factors{std::move(*whole), {}, {}};
}

std::optional<Factors> take_point(const Factors& f, int axis) {
  const auto& instrs = f.value.instrs;
  const atlas::Instr& last = instrs.back();
  const bool whole =
      last.code == atlas::Code::arithmetic && last.op == ir::Op::cast && last.from == DType::i32;
  const atlas::Instr& sum = whole ? instrs[last.args[0]] : last;
  if (sum.code != atlas::Code::arithmetic || sum.type != (whole ? DType::i32 : DType::f32) ||
      (sum.op != ir::Op::sub && sum.op != ir::Op::add))
    return std::nullopt;
  auto v = part_of(f.value, sum.args[0]), p = part_of(f.value, sum.args[1]);
  if (!v || !p || !varies(*v, axis) || varies(*p, axis)) return std::nullopt;
  for (atlas::Body* part : {&*v, &*p}) {
    if (!whole) break;
    atlas::Instr cast = last;
    cast.args[0] = static_cast<atlas::ValueId>(part->instrs.size() - 1);
    part->add(std::move(cast));
  }
  atlas::Body zero = f.scale.instrs.empty() ? *p : joined(ir::Op::mul, *p, f.scale);
  if (sum.op == ir::Op::sub) zero = joined(ir::Op::neg, std::move(zero), {});
  if (!f.zero.instrs.empty()) zero = joined(ir::Op::add, std::move(zero), f.zero);
  return Factors{std::move(*v), f.scale, std::move(zero)};
}

}  // namespace hologram::cpu
