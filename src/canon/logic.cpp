// canon/logic.cpp: rules on truth values, comparisons, selections and bits.
#include <algorithm>
#include <limits>

#include "canon/terms.h"
#include "ir/fold.h"
#include "ir/scalar.h"

namespace hologram::canon {
namespace {

using namespace pattern;  // NOLINT(google-build-using-namespace): words of the tables

Result select_to_cast(Terms& t, const Match& m) {
  return m.root->dtype == DType::b8 ? m[0] : t.graph.cast(m[0], m.root->dtype);
}

Result to_truth(Terms& t, const Match& m) { return t.graph.cast(m[0], DType::b8); }

Result all_bits(Terms& t, const Match& m) {
  auto ones = ir::right_identity(Op::bit_and, m.root->dtype);
  return t.graph.constant(m.root->dtype, *ones, m.root->shape);
}

Result absorb_bits(Terms& t, const Match& m) {
  auto zero = ir::right_zero(m.root->op, m.root->dtype);
  if (!zero || m[3]->attrs.bits != *zero) return std::nullopt;
  return t.graph.constant(m.root->dtype, *zero, m.root->shape);
}

// All numbers of an integer tensor lie in [low, high].
struct Range {
  int64_t low, high;
};

bool is_index(DType t) { return t == DType::i64 || t == DType::i32; }

Range range_of(DType t) {
  if (t == DType::i32)
    return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
  return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
}

// nullopt: nothing is known. Coordinates and sums of them with constants; a sum that may overflow
// is not known.
std::optional<Range> find_range(Value v, int depth = 8) {
  if (depth == 0 || !is_index(v->dtype)) return std::nullopt;
  if (v->is_constant()) {
    int64_t c = ir::as_integer(v->dtype, v->attrs.bits);
    return Range{c, c};
  }
  Range all = range_of(v->dtype);
  auto operand = [&](size_t i) { return find_range(v->input(i), depth - 1); };
  auto both = [&](auto&& combine) -> std::optional<Range> {
    auto a = operand(0);
    auto b = a ? operand(1) : std::nullopt;
    if (!b) return std::nullopt;
    Range r{};
    bool overflows = combine(*a, *b, r);
    if (overflows || r.low < all.low || r.high > all.high) return std::nullopt;
    return r;
  };
  switch (v->op) {
    case Op::iota: {
      const Expr& n = v->shape[static_cast<size_t>(v->attrs.ints[0])];
      if (!n.is_const() && v->dtype == DType::i32) return std::nullopt;
      // No dimension is larger than an address space.
      int64_t size = n.is_const() ? n.constant_value() : int64_t{1} << 48;
      if (size - 1 > all.high) return std::nullopt;
      return Range{0, std::max<int64_t>(size - 1, 0)};
    }
    case Op::reshape:
    case Op::permute:
    case Op::expand:
    case Op::slice:
    case Op::flip:
      return operand(0);
    case Op::cast:
      if (auto r = operand(0); r && r->low >= all.low && r->high <= all.high) return r;
      return std::nullopt;
    case Op::add:
      return both([](Range a, Range b, Range& r) {
        return __builtin_add_overflow(a.low, b.low, &r.low) |
               __builtin_add_overflow(a.high, b.high, &r.high);
      });
    case Op::sub:
      return both([](Range a, Range b, Range& r) {
        return __builtin_sub_overflow(a.low, b.high, &r.low) |
               __builtin_sub_overflow(a.high, b.low, &r.high);
      });
    default:
      return std::nullopt;
  }
}

// A comparison that coordinates decide: of iota + 1 with 0, say.
Result compare_ranges(Terms& t, const Match& m) {
  auto a = find_range(m.root->input(0)), b = find_range(m.root->input(1));
  if (!a || !b) return std::nullopt;
  std::optional<bool> holds;
  bool apart = a->high < b->low || b->high < a->low;
  switch (m.root->op) {
    case Op::lt:
      if (a->high < b->low) holds = true;
      if (a->low >= b->high) holds = false;
      break;
    case Op::le:
      if (a->high <= b->low) holds = true;
      if (a->low > b->high) holds = false;
      break;
    case Op::eq:
      if (apart) holds = false;
      break;
    default:
      if (apart) holds = true;
  }
  if (!holds) return std::nullopt;
  return t.graph.constant(DType::b8, *holds, m.root->shape);
}

bool x_unsigned(const Match& m) { return is_unsigned_int(m[0]->dtype); }

std::vector<Rule> selections() {
  return {
      {"select_true_false", select(x, num(1), num(0)), select_to_cast},
      {"select_false_true", select(x, num(0), num(1)), bit_not(x), on_b8},
      {"select_not", select(bit_not(x), y, z), select(x, z, y)},
      {"select_again", select(x, y, select(x, z, w)), select(x, y, w)},
      {"select_again", select(x, select(x, y, z), w), select(x, y, w)},
      {"select_or", select(x, num(1), y), bit_or(x, y), on_b8},
      {"select_and", select(x, y, num(0)), bit_and(x, y), on_b8},
      {"select_or", select(x, x, y), bit_or(x, y)},
      {"select_and", select(x, y, x), bit_and(x, y)},
      {"select_positive", select(lt(num(0), x), x, num(0)), maxnum(x, num(0)), on_floats},
      {"select_positive", select(lt(num(0), x), x, num(0)), max(x, num(0)), on_ints},
  };
}

std::vector<Rule> comparisons() {
  return {
      {"lt_same", lt(x, x), num(0)},
      {"le_same", le(x, x), num(1), x_ints},
      {"eq_same", eq(x, x), num(1), x_ints},
      {"ne_same", ne(x, x), num(0), x_ints},
      {"not_eq", bit_not(eq(x, y)), ne(x, y)},
      {"not_ne", bit_not(ne(x, y)), eq(x, y)},
      {"not_lt", bit_not(lt(x, y)), le(y, x), x_ints},
      {"not_le", bit_not(le(x, y)), lt(y, x), x_ints},
      {"eq_true", eq(x, num(1)), x, x_b8},
      {"eq_false", eq(x, num(0)), bit_not(x), x_b8},
      {"ne_true", ne(x, num(1)), bit_not(x), x_b8},
      {"ne_false", ne(x, num(0)), x, x_b8},
      {"ne_truth", ne(x, y), bit_xor(x, y), x_b8},
      {"eq_cast_truth", eq(cast(x), num(1)), x, x_b8},
      {"eq_cast_truth", eq(cast(x), num(0)), bit_not(x), x_b8},
      {"ne_cast_truth", ne(cast(x), num(1)), bit_not(x), x_b8},
      {"ne_cast_truth", ne(cast(x), num(0)), x, x_b8},
      {"lt_cast_truth", lt(num(0), cast(x)), x, x_b8},
      {"ne_zero", ne(x, num(0)), to_truth},
      {"lt_neg_neg", lt(neg(x), neg(y)), lt(y, x), x_floats},
      {"le_neg_neg", le(neg(x), neg(y)), le(y, x), x_floats},
      {"lt_neg", lt(neg(x), c), lt(neg(c), x), x_floats},
      {"le_neg", le(neg(x), c), le(neg(c), x), x_floats},
      {"lt_constant_neg", lt(c, neg(x)), lt(x, neg(c)), x_floats},
      {"le_constant_neg", le(c, neg(x)), le(x, neg(c)), x_floats},
      {"eq_neg_neg", eq(neg(x), neg(y)), eq(x, y)},
      {"ne_neg_neg", ne(neg(x), neg(y)), ne(x, y)},
      {"eq_neg", eq(neg(x), c), eq(x, neg(c))},
      {"ne_neg", ne(neg(x), c), ne(x, neg(c))},
      {"lt_unsigned_zero", lt(x, num(0)), num(0), x_unsigned},
      {"le_unsigned_zero", le(num(0), x), num(1), x_unsigned},
      {"compare_ranges", lt(x, y), compare_ranges},
      {"compare_ranges", le(x, y), compare_ranges},
      {"compare_ranges", eq(x, y), compare_ranges},
      {"compare_ranges", ne(x, y), compare_ranges},
      {"cast_neg_to_truth", cast(neg(x)),
       +[](Terms& t, const Match& m) -> Result {
         return m.root->dtype == DType::b8 ? Result(t.graph.cast(m[0], DType::b8)) : std::nullopt;
       }},
  };
}

std::vector<Rule> bits() {
  return {
      {"truth_or", add(x, y), bit_or(x, y), on_b8},
      {"truth_and", mul(x, y), bit_and(x, y), on_b8},
      {"truth_and", min(x, y), bit_and(x, y), on_b8},
      {"truth_and", minnum(x, y), bit_and(x, y), on_b8},
      {"truth_or", max(x, y), bit_or(x, y), on_b8},
      {"truth_or", maxnum(x, y), bit_or(x, y), on_b8},
      {"xor_true", bit_xor(x, num(1)), bit_not(x), on_b8},
      {"xor_same", bit_xor(x, x), num(0)},
      {"and_not", bit_and(x, bit_not(x)), num(0)},
      {"or_not", bit_or(x, bit_not(x)), all_bits},
      {"and_absorbs", bit_and(x, bit_or(x, y)), x},
      {"or_absorbs", bit_or(x, bit_and(x, y)), x},
      {"and_same", bit_and(bit_and(x, y), y), bit_and(x, y)},
      {"or_same", bit_or(bit_or(x, y), y), bit_or(x, y)},
      {"xor_again", bit_xor(bit_xor(x, y), y), x},
      {"and_constants", bit_and(bit_and(x, c), d), bit_and(x, bit_and(c, d))},
      {"or_constants", bit_or(bit_or(x, c), d), bit_or(x, bit_or(c, d))},
      {"xor_constants", bit_xor(bit_xor(x, c), d), bit_xor(x, bit_xor(c, d))},
      {"and_zero", bit_and(x, c), absorb_bits},
      {"or_ones", bit_or(x, c), absorb_bits},
  };
}

}  // namespace

std::vector<Rule> logic_rules() {
  std::vector<Rule> all;
  for (auto set : {selections, comparisons, bits})
    for (Rule& r : set()) all.push_back(std::move(r));
  return all;
}

}  // namespace hologram::canon
