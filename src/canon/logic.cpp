// canon/logic.cpp: rules on truth values, comparisons, selections and bits.
#include "canon/terms.h"
#include "ir/fold.h"

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
