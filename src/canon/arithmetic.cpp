// canon/arithmetic.cpp: rules on sums, products, extrema and signs.
#include <cmath>

#include "canon/terms.h"
#include "ir/fold.h"
#include "ir/scalar.h"

namespace hologram::canon {
namespace {

using namespace pattern;  // NOLINT(google-build-using-namespace): words of the tables

Result absorb_zero(Terms& t, const Match& m) {
  auto zero = ir::right_zero(m.root->op, m.root->dtype);
  if (!zero || m[3]->attrs.bits != *zero) return std::nullopt;
  return t.graph.constant(m.root->dtype, *zero, m.root->shape);
}

// x / 2^k = x * 2^-k, bit for bit, where 2^-k is a number of the type.
Result divide_by_power_of_two(Terms& t, const Match& m) {
  DType type = m.root->dtype;
  if (!is_float(type)) return std::nullopt;
  int exponent = 0;
  double by = ir::as_double(type, m[3]->attrs.bits), inverse = 1 / by;
  if (!std::isfinite(by) || std::abs(std::frexp(by, &exponent)) != 0.5) return std::nullopt;
  if (ir::as_double(type, ir::bits_of(type, inverse)) != inverse) return std::nullopt;
  return t.graph.binary(Op::mul, m[0], t.graph.number(type, inverse, m.root->shape));
}

// y may stand inside an absorption on floats only if it is no NaN.
bool absorbs(const Match& m) {
  if (!is_float(m.root->dtype)) return true;
  return m[1]->is_constant() && !std::isnan(ir::as_double(m[1]->dtype, m[1]->attrs.bits));
}

bool positive_constant(const Match& m) {
  return is_float(m.root->dtype) && m[3]->attrs.bits >> (8 * size_of(m.root->dtype) - 1) == 0;
}

bool signed_type(const Match& m) { return !is_unsigned_int(m.root->dtype); }
bool never_negative_type(const Match& m) {
  return is_unsigned_int(m.root->dtype) || m.root->dtype == DType::b8;
}

std::vector<Rule> sums() {
  return {
      {"add_same", add(x, x), mul(x, num(2)), not_b8},
      {"add_neg", add(x, neg(y)), sub(x, y)},
      {"sub_neg", sub(x, neg(y)), add(x, y)},
      {"sub_constant", sub(x, c), add(x, neg(c))},
      {"sub_same", sub(x, x), num(0), on_ints},
      {"sub_of_neg", sub(neg(x), y), neg(add(x, y)), on_ints},
      {"neg_sub", neg(sub(x, y)), sub(y, x), on_ints},
      {"neg_add_constant", neg(add(x, c)), sub(neg(c), x), on_ints},
      {"add_constants", add(add(x, c), d), add(x, add(c, d)), on_ints},
      {"sub_constants", sub(c, add(x, d)), sub(sub(c, d), x), on_ints},
      {"add_constants", add(sub(c, x), d), sub(add(c, d), x), on_ints},
      {"sub_constants", sub(c, sub(d, x)), add(x, sub(c, d)), on_ints},
  };
}

std::vector<Rule> products() {
  return {
      {"mul_minus_one", mul(x, num(-1)), neg(x)},
      {"mul_neg_neg", mul(neg(x), neg(y)), mul(x, y)},
      {"mul_neg_constant", mul(neg(x), c), mul(x, neg(c))},
      {"mul_neg", mul(neg(x), y), neg(mul(x, y))},
      {"neg_mul_constant", neg(mul(x, c)), mul(x, neg(c))},
      {"mul_abs_abs", mul(abs(x), abs(x)), mul(x, x)},
      {"mul_constants", mul(mul(x, c), d), mul(x, mul(c, d)), on_ints},
      {"div_minus_one", div(x, num(-1)), neg(x)},
      {"div_neg_neg", div(neg(x), neg(y)), div(x, y), on_floats},
      {"div_neg_constant", div(neg(x), c), div(x, neg(c)), on_floats},
      {"div_constant_neg", div(c, neg(x)), div(neg(c), x), on_floats},
      {"div_neg", div(neg(x), y), neg(div(x, y)), on_floats},
      {"div_by_neg", div(x, neg(y)), neg(div(x, y)), on_floats},
      {"neg_div_constant", neg(div(x, c)), div(x, neg(c)), on_floats},
      {"neg_constant_div", neg(div(c, x)), div(neg(c), x), on_floats},
      {"div_power_of_two", div(x, c), divide_by_power_of_two},
      {"rem_one", rem(x, num(1)), num(0), on_ints},
      {"rem_neg", rem(neg(x), y), neg(rem(x, y)), on_floats},
      {"rem_by_neg", rem(x, neg(y)), rem(x, y), on_floats},
      {"fma_neg_neg", fma(neg(x), neg(y), z), fma(x, y, z)},
      {"mul_zero", mul(x, c), absorb_zero},
  };
}

std::vector<Rule> extrema() {
  return {
      {"min_constants", min(min(x, c), d), min(x, min(c, d))},
      {"max_constants", max(max(x, c), d), max(x, max(c, d))},
      {"min_same", min(min(x, y), y), min(x, y)},
      {"max_same", max(max(x, y), y), max(x, y)},
      {"min_absorbs", min(x, max(x, y)), x, absorbs},
      {"max_absorbs", max(x, min(x, y)), x, absorbs},
      {"min_zero", min(x, c), absorb_zero},
      {"max_zero", max(x, c), absorb_zero},
      {"minnum_integer", minnum(x, y), min(x, y), on_ints},
      {"maxnum_integer", maxnum(x, y), max(x, y), on_ints},
      {"max_neg_same", max(x, neg(x)), abs(x), signed_type},
      {"min_neg_same", min(x, neg(x)), neg(abs(x)), signed_type},
      {"max_neg_neg", max(neg(x), neg(y)), neg(min(x, y)), on_floats},
      {"min_neg_neg", min(neg(x), neg(y)), neg(max(x, y)), on_floats},
  };
}

std::vector<Rule> signs() {
  return {
      {"abs_neg", abs(neg(x)), abs(x), signed_type},
      {"abs_unsigned", abs(x), x, never_negative_type},
      {"abs_positive", abs(exp(x)), exp(x)},
      {"abs_positive", abs(exp2(x)), exp2(x)},
      {"abs_positive", abs(sigmoid(x)), sigmoid(x)},
      {"abs_positive", abs(cosh(x)), cosh(x)},
      {"abs_positive", abs(erfc(x)), erfc(x)},
      {"abs_max_positive", abs(max(x, c)), max(x, c), positive_constant},
      {"abs_copysign", abs(copysign(x, y)), abs(x)},
      {"copysign_same", copysign(x, x), x},
      {"copysign_neg", copysign(neg(x), y), copysign(x, y)},
      {"copysign_abs", copysign(abs(x), y), copysign(x, y)},
      {"floor_neg", floor(neg(x)), neg(ceil(x))},
      {"ceil_neg", ceil(neg(x)), neg(floor(x))},
      {"trunc_neg", trunc(neg(x)), neg(trunc(x))},
      {"round_neg", round(neg(x)), neg(round(x))},
  };
}

// Rounding what is an integer already.
std::vector<Rule> roundings() {
  std::vector<Rule> rules;
  constexpr Op all[] = {Op::floor, Op::ceil, Op::trunc, Op::round};
  for (Op outer : all) {
    for (Op inner : all) {
      Pattern p = Pattern::node(inner, {x});
      rules.emplace_back("round_rounded", Pattern::node(outer, {p}), p);
    }
    Pattern whole = cast(x);
    rules.emplace_back(
        "round_integer", Pattern::node(outer, {whole}), +[](Terms&, const Match& m) -> Result {
          return is_float(m[0]->dtype) ? std::nullopt : Result(m.root->input());
        });
  }
  return rules;
}

}  // namespace

std::vector<Rule> arithmetic_rules() {
  std::vector<Rule> all;
  for (auto set : {sums, products, extrema, signs, roundings})
    for (Rule& r : set()) all.push_back(std::move(r));
  return all;
}

}  // namespace hologram::canon
