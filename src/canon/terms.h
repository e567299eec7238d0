// canon/terms.h: tensor graphs as a language of the rewrite engine, and patterns over them.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"
#include "rewrite/rewrite.h"

namespace hologram::canon {

using ir::Attrs;
using ir::Op;
using ir::Value;

/// A splat written in a pattern. It matches the constant of the operand's dtype nearest to `value`;
/// when `loose`, also neighbours within a few units in the last place (1/sqrt(2) is rounded
/// differently by different front ends).
struct Number {
  double value = 0;
  bool loose = false;
};

/// The language of the engine: nodes of one graph, to which replacements are added.
struct Terms {
  using Term = Value;
  using Head = Op;
  using Literal = Number;

  ir::Graph& graph;

  static Op head(Value v) { return v->op; }
  static std::span<const Value> operands(Value v) { return v->inputs; }
  static bool commutative(Op op) { return (ir::info(op).flags & ir::commutative) != 0; }
  static bool is_constant(Value v) { return v->is_constant(); }
  static bool is(Value v, const Number& n);
  /// The splat in the dtype and shape of `like`.
  Value literal(const Number& n, Value like) {
    return graph.number(like->dtype, n.value, like->shape);
  }
  /// An operation without attributes.
  Value build(Op op, std::vector<Value> operands) { return graph.make(op, std::move(operands)); }
  /// The same operation on other operands.
  Value rebuild(Value v, std::vector<Value> operands);
  /// See cost.cpp.
  static uint64_t weigh(Value v, std::span<const uint64_t> operand_costs);
};

using Rule = rewrite::Rule<Terms>;
using Match = rewrite::Match<Terms>;
using Pattern = rewrite::Pattern<Terms>;
using Result = std::optional<Value>;

/// When a rule is in force; see Options in canon/canon.h.
enum RuleFlag : uint32_t {
  only_fast = 1,     ///< loses precision that a narrowing cast promises
  changes_order = 2  ///< changes the order of sums: off in reproducible mode
};

/// Conditions on the type of the root, or of x where the root is a truth value.
inline bool on_ints(const Match& m) { return is_int(m.root->dtype); }
inline bool on_floats(const Match& m) { return is_float(m.root->dtype); }
inline bool on_b8(const Match& m) { return m.root->dtype == DType::b8; }
inline bool not_b8(const Match& m) { return m.root->dtype != DType::b8; }
inline bool x_ints(const Match& m) { return is_int(m[0]->dtype); }
inline bool x_floats(const Match& m) { return is_float(m[0]->dtype); }
inline bool x_b8(const Match& m) { return m[0]->dtype == DType::b8; }

/// The rule sets, in the order in which they are tried.
std::vector<Rule> empty_rules();
std::vector<Rule> arithmetic_rules();
std::vector<Rule> logic_rules();
std::vector<Rule> cast_rules();
std::vector<Rule> movement_rules();
std::vector<Rule> slice_rules();
std::vector<Rule> hoist_rules();
std::vector<Rule> reduce_rules();
std::vector<Rule> index_rules();
std::vector<Rule> function_rules();

/// Pattern vocabulary: one function per operation of ops.def, variables x, y, z, w, constants c, d.
namespace pattern {

inline const Pattern x = Pattern::variable(0), y = Pattern::variable(1), z = Pattern::variable(2),
                     w = Pattern::variable(5);
inline const Pattern c = Pattern::constant(3), d = Pattern::constant(4);
inline Pattern num(double value) { return Pattern::literal({value}); }
inline Pattern about(double value) { return Pattern::literal({value, true}); }
/// Any node of this operation.
inline Pattern any(Op op) { return Pattern::any_operands(op); }

#define HOLOGRAM_OP(name, kind, arity, attributes, flags, doc)         \
  template <class... P>                                                \
  Pattern name(const P&... operands) {                                 \
    return Pattern::node(Op::name, std::vector<Pattern>{operands...}); \
  }
#include "ir/ops.def"

}  // namespace pattern

}  // namespace hologram::canon
