// atlas/blocks/attention_keys.cpp: bounds on keys by score bodies, and heads that share keys.
#include "atlas/blocks/attention_keys.h"

#include <limits>

#include "ir/scalar.h"

namespace hologram::atlas {
namespace {

// Reads a score body that ends with select(condition, score, -inf): comparisons of coordinates in
// the condition bound the keys.
class Bounds {
 public:
  Bounds(const Body& body, int query_axis)
      : body_(body), query_(query_axis), key_(query_axis + 1) {}

  KeyBounds find() {
    read();
    return bounds_;
  }

 private:
  void read() {
    if (body_.instrs.empty()) return;
    auto last = static_cast<ValueId>(body_.instrs.size() - 1);
    while (const Instr* i = operation(last, ir::Op::select)) {
      if (lowest(i->args[2])) {
        conditions(i->args[0], true);
        last = i->args[1];
      } else if (lowest(i->args[1])) {
        conditions(i->args[0], false);
        last = i->args[2];
      } else {
        return;
      }
    }
  }

  const Instr& at(ValueId v) const { return body_.instrs[v]; }
  const Instr* operation(ValueId v, ir::Op op) const {
    const Instr& i = at(v);
    return i.code == Code::arithmetic && i.op == op ? &i : nullptr;
  }
  bool lowest(ValueId v) const {
    const Instr& i = at(v);
    return i.code == Code::constant && is_float(i.type) &&
           ir::as_double(i.type, i.bits) == -std::numeric_limits<double>::infinity();
  }

  // An integer as an expression of coordinates. Coordinates are too small to overflow.
  std::optional<Expr> number(ValueId v) const {
    const Instr& i = at(v);
    if (i.type != DType::i64 && i.type != DType::i32) return std::nullopt;
    if (i.code == Code::index) return i.expr;
    if (i.code == Code::constant) {
      int64_t c = ir::as_integer(i.type, i.bits);
      if (c < -(int64_t{1} << 31) || c >= int64_t{1} << 31) return std::nullopt;
      return Expr(c);
    }
    if (i.code != Code::arithmetic) return std::nullopt;
    if (ir::info(i.op).kind == ir::OpKind::cast)
      return i.op == ir::Op::cast && is_int(i.from) ? number(i.args[0]) : std::nullopt;
    if (i.op == ir::Op::neg) {
      auto x = number(i.args[0]);
      return x ? std::optional(-*x) : std::nullopt;
    }
    if (i.op != ir::Op::add && i.op != ir::Op::sub) return std::nullopt;
    auto x = number(i.args[0]), y = number(i.args[1]);
    if (!x || !y) return std::nullopt;
    return i.op == ir::Op::add ? *x + *y : *x - *y;
  }

  // What follows where condition v holds, or (not `holds`) does not.
  void conditions(ValueId v, bool holds) {
    const Instr& i = at(v);
    if (i.code != Code::arithmetic) return;
    if (i.op == ir::Op::bit_not) return conditions(i.args[0], !holds);
    if (i.op == (holds ? ir::Op::bit_and : ir::Op::bit_or)) {
      conditions(i.args[0], holds);
      return conditions(i.args[1], holds);
    }
    if (i.op != ir::Op::lt && i.op != ir::Op::le) return;
    auto x = number(i.args[0]), y = number(i.args[1]);
    if (!x || !y) return;
    // not (x < y) is y <= x
    Expr slack = holds ? *y - *x : *x - *y;
    if ((i.op == ir::Op::lt) == holds) slack = slack - Expr(1);
    bound(slack);
  }

  // slack >= 0
  void bound(const Expr& slack) {
    auto key = slack.linear_in_axis(key_);
    if (!key) return;
    auto query = key->second.linear_in_axis(query_);
    if (!query || query->second.has_axes()) return;
    if (key->first.is(1) && (query->first.is(0) || query->first.is(-1)))
      bounds_.first = KeyBound{!query->first.is(0), -query->second};
    else if (key->first.is(-1) && (query->first.is(0) || query->first.is(1)))
      bounds_.last = KeyBound{!query->first.is(0), query->second};
  }

  const Body& body_;
  int query_, key_;
  KeyBounds bounds_;
};

// By how many neighbours of the last batch axis an operand is shared: the largest number that the
// axis is divided by wherever it appears; `all` where it appears nowhere.
int64_t sharing(const Body& body, int axis, int64_t all) {
  int64_t group = 0;
  for (const Instr& i : body.instrs) {
    bool other = false;
    i.expr.substitute([&](const Atom& a) -> std::optional<Expr> {
      if (a.kind == Atom::Kind::axis && a.id == axis) other = true;
      if (a.kind != Atom::Kind::floor_div || !a.b->is_const()) return std::nullopt;
      auto head = a.a->linear_in_axis(axis);
      int64_t by = a.b->constant_value();
      if (!head || !head->first.is(1) || !head->second.is(0) || (group && group != by))
        return std::nullopt;
      group = by;
      return Expr(0);
    });
    if (other) return 1;
  }
  return group ? group : all;
}

}  // namespace

KeyBounds find_key_bounds(const Body& score, int query_axis) {
  return Bounds(score, query_axis).find();
}

int64_t heads_sharing(const AttentionBlock& block, bool undivided) {
  if (block.batch_rank == 0) return 1;
  const int axis = block.batch_rank - 1;
  const Expr& heads = block.axes[static_cast<size_t>(axis)].extent;
  const int64_t all = undivided && heads.is_const() ? heads.constant_value() : 1;
  const int64_t group = sharing(block.k, axis, all);
  return group == sharing(block.v, axis, all) ? group : 1;
}

}  // namespace hologram::atlas
