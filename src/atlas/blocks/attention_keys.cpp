// atlas/blocks/attention_keys.cpp: bounds on keys by score bodies, and heads that share keys.
#include "atlas/blocks/attention_keys.h"

#include <limits>

#include "ir/scalar.h"

namespace hologram::atlas {
namespace {

bool lowest(const Instr& i) {
  return i.code == Code::constant && is_float(i.type) &&
         ir::as_double(i.type, i.bits) == -std::numeric_limits<double>::infinity();
}

// Calls each(condition, holds) for the selections of -inf that a score body ends with: a key is
// hidden where a condition does not hold (`holds`), or does.
template <class Each>
void for_each_condition(const Body& score, const Each& each) {
  if (score.instrs.empty()) return;
  auto last = static_cast<ValueId>(score.instrs.size() - 1);
  while (true) {
    const Instr& i = score.instrs[last];
    if (i.code != Code::arithmetic || i.op != ir::Op::select) return;
    const bool holds = lowest(score.instrs[i.args[2]]);
    if (!holds && !lowest(score.instrs[i.args[1]])) return;
    each(i.args[0], holds);
    last = i.args[holds ? 1 : 2];
  }
}

// Comparisons of coordinates in these conditions bound the keys.
class Bounds {
 public:
  Bounds(const Body& body, int query_axis)
      : body_(body), query_(query_axis), key_(query_axis + 1) {}

  KeyBounds find() {
    for_each_condition(body_, [&](ValueId v, bool holds) { conditions(v, holds); });
    return bounds_;
  }

 private:
  const Instr& at(ValueId v) const { return body_.instrs[v]; }

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

// What the values of a body are made of: of accumulators, of memory.
struct Sources {
  std::vector<bool> score, memory;

  explicit Sources(const Body& body) {
    for (const Instr& i : body.instrs) {
      bool of_score = i.code == Code::accumulator, of_memory = i.code == Code::load;
      auto add = [&](size_t v) {
        of_score = of_score || score[v];
        of_memory = of_memory || memory[v];
      };
      for (ValueId v : i.args)
        if (v != no_value) add(v);
      i.expr.any_atom([&](const Atom& a) {
        if (a.kind == Atom::Kind::value) add(static_cast<size_t>(a.id));
        return false;
      });
      score.push_back(of_score);
      memory.push_back(of_memory);
    }
  }
};

}  // namespace

KeyBounds find_key_bounds(const Body& score, int query_axis) {
  return Bounds(score, query_axis).find();
}

Body seen_keys(const Body& score) {
  const Sources sources(score);
  Body seen;
  bool of_memory = false;
  std::vector<std::pair<ValueId, bool>> conditions;
  for_each_condition(score, [&](ValueId v, bool holds) {
    if (sources.score[v]) return;
    conditions.emplace_back(v, holds);
    of_memory = of_memory || sources.memory[v];
  });
  if (!of_memory) return {};
  // Nothing of what follows from the score is asked for: any number does in its place.
  for (Instr i : score.instrs) {
    if (i.code == Code::accumulator) {
      i.code = Code::constant;
      i.buffer = -1;
    }
    seen.add(std::move(i));
  }
  auto add = [&](Code code, ir::Op op, ValueId x, ValueId y) {
    return seen.add({.code = code,
                     .op = op,
                     .type = DType::b8,
                     .args = {x, y, no_value},
                     .bits = code == Code::constant ? 1u : 0u,
                     .expr = {}});
  };
  ValueId all = add(Code::constant, {}, no_value, no_value);
  for (auto [v, holds] : conditions) {
    if (!holds) v = add(Code::arithmetic, ir::Op::bit_not, v, no_value);
    all = add(Code::arithmetic, ir::Op::bit_and, all, v);
  }
  return seen;
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
