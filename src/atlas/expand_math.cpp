// atlas/expand_math.cpp: transcendental functions of bodies replaced by their sequences.
#include <algorithm>
#include <optional>

#include "atlas/builder.h"
#include "atlas/math.h"
#include "atlas/walk.h"
#include "base/error.h"

namespace hologram::atlas {
namespace {

using Keeps = std::function<bool(ir::Op, DType)>;

bool is_function(const Instr& i) {
  return i.code == Code::arithmetic && !(ir::info(i.op).flags & ir::exact);
}
bool needs_expansion(const Instr& i, const Keeps& keeps) {
  return is_function(i) && !(keeps && keeps(i.op, i.type));
}

bool is_cast(const Instr& i, DType from, DType to) {
  return i.code == Code::arithmetic && i.op == ir::Op::cast && i.from == from && i.type == to;
}

/// Which values are functions of one bfloat16 of which only bfloat16 is made.
std::vector<bool> brief_values(const Body& body) {
  std::vector<bool> brief;
  for (const Instr& i : body.instrs) {
    brief.push_back(i.code == Code::arithmetic && i.type == DType::f32 &&
                    ir::info(i.op).kind != ir::OpKind::cast && ir::info(i.op).arity == 1 &&
                    is_cast(body.instrs[i.args[0]], DType::bf16, DType::f32));
    if (is_cast(i, DType::f32, DType::bf16)) continue;
    for (ValueId a : i.args)
      if (a != no_value) brief[a] = false;
  }
  return brief;
}

/// Rebuilds a body; `at` gives each old value's new number.
class Expansion {
 public:
  Expansion(const Body& body, const Keeps& keeps, const std::vector<ValueId>& results)
      : old_(body), keeps_(keeps), brief_(brief_values(body)), builder_(body_) {
    for (ValueId v : results)
      if (v != no_value) brief_[v] = false;
    for (const Instr& i : body.instrs) map_.push_back(place(i));
  }

  ValueId at(ValueId old) const { return old == no_value ? no_value : map_[old].id; }
  Body take() { return std::move(body_); }

  /// Keeps an operand body's value in last place.
  void finish() {
    if (!map_.empty() && old_.instrs.back().code != Code::store) builder_.finish(map_.back());
  }

 private:
  Val arg(const Instr& i, size_t k) const {
    return i.args[k] == no_value ? Val{} : map_[i.args[k]];
  }

  Expr renumber(const Expr& e) const {
    if (!e.any_atom([](const Atom& a) { return a.kind == Atom::Kind::value; })) return e;
    return e.substitute([&](const Atom& a) -> std::optional<Expr> {
      if (a.kind != Atom::Kind::value) return std::nullopt;
      return Expr::value(static_cast<int>(map_[static_cast<size_t>(a.id)].id), renumber(*a.a));
    });
  }

  Val place(const Instr& i) {
    switch (i.code) {
      case Code::constant:
        return builder_.constant(i.type, i.bits);
      case Code::index:
        return builder_.index(renumber(i.expr));
      case Code::clamp_index:
        return builder_.clamp_index(arg(i, 0), renumber(i.expr));
      case Code::load:
        return builder_.load(i.buffer, i.type, renumber(i.expr), arg(i, 0));
      case Code::store:
        builder_.store(i.buffer, renumber(i.expr), arg(i, 0), arg(i, 1));
        return {};
      case Code::accumulator:
        return builder_.accumulator(i.buffer, i.type);
      case Code::accumulate:
        return builder_.accumulate(i.op, i.buffer, arg(i, 0));
      case Code::lookup:
        return builder_.lookup(i.type, arg(i, 0), i.table);
      case Code::arithmetic:
        break;
    }
    if (ir::info(i.op).kind == ir::OpKind::cast) return builder_.cast(arg(i, 0), i.type, i.op);
    auto count = static_cast<size_t>(ir::info(i.op).arity);
    std::array<Val, 3> args{arg(i, 0), arg(i, 1), arg(i, 2)};
    if (brief_[map_.size()] && is_function(i) && has_brief_math(i.op))
      return emit_brief_math(builder_, i.op, args[0]);
    if (needs_expansion(i, keeps_))
      return emit_math(builder_, i.op, std::span<const Val>(args).first(count));
    return count == 1   ? builder_.op(i.op, args[0])
           : count == 2 ? builder_.op(i.op, args[0], args[1])
                        : builder_.op(i.op, args[0], args[1], args[2]);
  }

  const Body& old_;
  const Keeps& keeps_;
  std::vector<bool> brief_;
  Body body_;
  BodyBuilder builder_;
  std::vector<Val> map_;
};

bool needs_expansion(const Body& body, const Keeps& keeps) {
  return std::any_of(body.instrs.begin(), body.instrs.end(), [&](const Instr& i) {
    return needs_expansion(i, keeps) || (is_function(i) && has_brief_math(i.op));
  });
}

void expand(Stage& stage, const Keeps& keeps) {
  if (!needs_expansion(stage.body, keeps)) return;
  std::vector<ValueId> results;
  for (const Reduction& r : stage.reductions) results.insert(results.end(), {r.value, r.position});
  Expansion e(stage.body, keeps, results);
  for (Reduction& r : stage.reductions) {
    r.value = e.at(r.value);
    r.position = e.at(r.position);
  }
  stage.body = e.take();
}

void expand(Body& body, const Keeps& keeps) {
  if (!needs_expansion(body, keeps)) return;
  Expansion e(body, keeps, {static_cast<ValueId>(body.instrs.size() - 1)});
  e.finish();
  body = e.take();
}

}  // namespace

void expand_math(Program& program, const std::function<bool(ir::Op, DType)>& keeps) {
  for_each_stage(program, [&](Stage& s) { expand(s, keeps); });
  std::visit([&](auto& block) { for_each_block_body(block, [&](Body& b) { expand(b, keeps); }); },
             program.block);
}

}  // namespace hologram::atlas
