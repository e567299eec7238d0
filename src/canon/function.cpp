// canon/function.cpp: compositions recognised as functions, and symmetries of functions.
//
// Where a rule here changes bits its result is at least as accurate as the composition: the
// functions are within a few units in the last place of the exact value, the compositions cancel or
// round several times.
#include "canon/terms.h"

namespace hologram::canon {
namespace {

using namespace pattern;  // NOLINT(google-build-using-namespace): words of the tables

constexpr double sqrt_2 = 1.4142135623730951;
constexpr double sqrt_half = 0.7071067811865476;

std::vector<Rule> compositions() {
  std::vector<Rule> rules = {
      {"sigmoid", div(num(1), add(exp(x), num(1))), sigmoid(neg(x))},
      {"sigmoid", div(exp(x), add(exp(x), num(1))), sigmoid(x)},
      {"one_minus_sigmoid", sub(num(1), sigmoid(x)), sigmoid(neg(x))},
      {"erfc", sub(num(1), erf(x)), erfc(x)},
      {"erf", sub(num(1), erfc(x)), erf(x)},
      {"expm1", add(exp(x), num(-1)), expm1(x)},
      {"log1p", log(add(x, num(1))), log1p(x)},
      {"rsqrt", div(num(1), sqrt(x)), rsqrt(x)},
      {"exp2", pow(num(2), x), exp2(x)},
  };
  Pattern half = num(0.5), one = num(1);
  for (const Pattern& inner : {mul(x, about(sqrt_half)), div(x, about(sqrt_2))}) {
    Pattern twice = add(erf(inner), one);
    rules.emplace_back("gelu", mul(mul(x, half), twice), gelu(x));
    rules.emplace_back("gelu", mul(mul(x, twice), half), gelu(x));
    rules.emplace_back("gelu", mul(x, mul(twice, half)), gelu(x));
  }
  for (const Pattern& inner : {mul(x, about(-sqrt_half)), div(x, about(-sqrt_2))}) {
    rules.emplace_back("gelu", mul(mul(x, half), erfc(inner)), gelu(x));
    rules.emplace_back("gelu", mul(mul(x, erfc(inner)), half), gelu(x));
    rules.emplace_back("gelu", mul(x, mul(erfc(inner), half)), gelu(x));
  }
  return rules;
}

// The exponents that PyTorch treats apart, where that agrees with C's pow: not 1/2, for pow(-inf,
// 1/2) is inf.
std::vector<Rule> powers() {
  return {
      {"pow_zero", pow(x, num(0)), num(1)},
      {"pow_one", pow(x, num(1)), x},
      {"pow_two", pow(x, num(2)), mul(x, x)},
      {"pow_three", pow(x, num(3)), mul(x, mul(x, x))},
      {"pow_minus_one", pow(x, num(-1)), div(num(1), x)},
      {"pow_minus_two", pow(x, num(-2)), div(num(1), mul(x, x))},
      {"pow_of_one", pow(num(1), x), num(1)},
  };
}

std::vector<Rule> symmetries() {
  std::vector<Rule> rules;
  for (int k = 0; k < ir::num_ops; ++k) {
    auto f = static_cast<Op>(k);
    Pattern plain = Pattern::node(f, {x}), negated = Pattern::node(f, {neg(x)});
    if (ir::info(f).flags & ir::odd) rules.emplace_back("odd_function", negated, neg(plain));
    if (ir::info(f).flags & ir::even) {
      rules.emplace_back("even_function", negated, plain);
      rules.emplace_back("even_function", Pattern::node(f, {abs(x)}), plain);
    }
  }
  rules.emplace_back("atan2_neg", atan2(neg(y), x), neg(atan2(y, x)));
  return rules;
}

}  // namespace

std::vector<Rule> function_rules() {
  std::vector<Rule> all;
  for (auto set : {compositions, powers, symmetries})
    for (Rule& r : set()) all.push_back(std::move(r));
  return all;
}

}  // namespace hologram::canon
