// tests/math/precise_test.cpp: float64 functions on samples against 113-bit arithmetic (libquadmath).
#ifdef HOLOGRAM_QUADMATH
#include <gtest/gtest.h>
#include <quadmath.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>
#include <string>

#include "native.h"

namespace hologram::atlas::math {
namespace {

using ir::Op;
using Quad = __float128;

const Quad pi_quad = acosq(-1), ln2_quad = logq(2), root_half_quad = sqrtq(Quad(0.5));

Quad digamma_quad(Quad x) {
  if (x < 0) return digamma_quad(1 - x) - pi_quad / tanq(pi_quad * (x - rintq(x)));
  Quad sum = 0;
  while (x < 40) {
    sum -= 1 / x;
    x += 1;
  }
  // Bernoulli numbers B(2k) / 2k
  constexpr double top[] = {1, -1, 1, -1, 1, -691, 1, -3617, 43867, -174611};
  constexpr double bottom[] = {12, 120, 252, 240, 132, 32760, 12, 8160, 14364, 6600};
  Quad w = 1 / (x * x), power = w, series = 0;
  for (int k = 0; k < 10; ++k, power *= w) series += power * Quad(top[k]) / Quad(bottom[k]);
  return sum + logq(x) - 1 / (2 * x) - series;
}

Quad erfinv_quad(Quad x) {
  Quad a = fabsq(x), y = Quad(0.88622692545275801365) * a;
  if (a > Quad(0.5)) y = sqrtq(-logq((1 - a) * (1 + a))) * Quad(0.8);
  for (int k = 0; k < 200; ++k) {
    Quad miss = a < Quad(0.5) ? erfq(y) - a : (1 - a) - erfcq(y);
    Quad u = miss * sqrtq(pi_quad) / 2 * expq(y * y);
    Quad next = y - u / (1 + u * y);
    if (fabsq(next - y) <= fabsq(y) * Quad(1e-32)) break;
    y = next;
  }
  return copysignq(y, x);
}

Quad exact(Op op, Quad x, Quad y) {
  switch (op) {
    case Op::rsqrt:
      return 1 / sqrtq(x);
    case Op::cbrt:
      return cbrtq(x);
    case Op::exp:
      return expq(x);
    case Op::exp2:
      return expq(x * ln2_quad);
    case Op::expm1:
      return expm1q(x);
    case Op::log:
      return logq(x);
    case Op::log2:
      return log2q(x);
    case Op::log10:
      return log10q(x);
    case Op::log1p:
      return log1pq(x);
    case Op::sin:
      return sinq(x);
    case Op::cos:
      return cosq(x);
    case Op::tan:
      return tanq(x);
    case Op::asin:
      return asinq(x);
    case Op::acos:
      return acosq(x);
    case Op::atan:
      return atanq(x);
    case Op::sinh:
      return sinhq(x);
    case Op::cosh:
      return coshq(x);
    case Op::tanh:
      return tanhq(x);
    case Op::asinh:
      return asinhq(x);
    case Op::acosh:
      return acoshq(x);
    case Op::atanh:
      return atanhq(x);
    case Op::sigmoid:
      return 1 / (1 + expq(-x));
    case Op::erf:
      return erfq(x);
    case Op::erfc:
      return erfcq(x);
    case Op::erfinv:
      return erfinv_quad(x);
    case Op::gelu:
      return x / 2 * erfcq(-x * root_half_quad);
    case Op::lgamma:
      return lgammaq(x);
    case Op::digamma:
      return digamma_quad(x);
    case Op::pow:
      return powq(x, y);
    case Op::atan2:
      return atan2q(x, y);
    default:
      return 0;
  }
}

/// Error in units in the last place of the exact value, or of `floor` where that is larger.
double error_of(double got, Quad want, double floor) {
  if (isnanq(want)) return std::isnan(got) ? 0 : INFINITY;
  double rounded = static_cast<double>(want);
  if (std::isinf(rounded) || rounded == 0 || !std::isfinite(got)) {
    // a neighbour of an overflowing or vanishing result is off by one unit
    if (got == rounded) return 0;
    return std::nextafter(rounded, got) == got ? 1 : INFINITY;
  }
  int e = std::ilogb(std::max(std::fabs(rounded), floor));
  Quad unit = ldexpq(1, std::max(e, -1022) - 52);
  return static_cast<double>(fabsq(Quad(got) - want) / unit);
}

struct Bound {
  Op op;
  double ulp;
  double low, high;  ///< ordinary arguments
  double floor = 0;  ///< results below count in units of this one
};

constexpr Bound bounds[] = {
    {Op::exp, 1, -760, 720},       {Op::exp2, 1.5, -1080, 1030}, {Op::expm1, 1, -45, 720},
    {Op::log, 1, 0, 10},           {Op::log2, 1, 0, 10},         {Op::log10, 1, 0, 10},
    {Op::log1p, 1, -1, 10},        {Op::rsqrt, 1, 0, 10},        {Op::cbrt, 1, -10, 10},
    {Op::sin, 1, -10, 10},         {Op::cos, 1, -10, 10},        {Op::tan, 2.5, -10, 10},
    {Op::asin, 1.5, -1, 1},        {Op::acos, 1.5, -1, 1},       {Op::atan, 1.5, -10, 10},
    {Op::sinh, 2.5, -720, 720},    {Op::cosh, 2, -720, 720},     {Op::tanh, 2.5, -20, 20},
    {Op::asinh, 2, -10, 10},       {Op::acosh, 3, 1, 10},        {Op::atanh, 3, -1, 1},
    {Op::sigmoid, 1, -760, 40},    {Op::erf, 1, -6, 6},          {Op::erfc, 4, -6, 28},
    {Op::erfinv, 4, -1, 1},        {Op::gelu, 4, -39, 10},       {Op::lgamma, 4, -20, 200, 1},
    {Op::digamma, 5, -20, 200, 1}, {Op::pow, 1.5, 0, 10},        {Op::atan2, 1.5, -10, 10},
};

/// What an error counts against at least; for x < 0 that includes what the reflection formula adds
/// and subtracts.
double floor_of(const Bound& bound, double x) {
  if (bound.floor == 0 || x > 0) return bound.floor;
  Quad parts = fabsq(exact(bound.op, 1 - Quad(x), 0)) + fabsq(exact(bound.op, x, 0));
  return std::max(bound.floor, static_cast<double>(parts));
}

/// A quarter each: ordinary arguments, small ones, every magnitude, arbitrary bits.
std::vector<double> arguments(double low, double high, int n, int seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> unit(0, 1);
  std::vector<double> x;
  for (int i = 0; i < n; ++i) {
    switch (i % 4) {
      case 0:
        x.push_back(low + (high - low) * unit(random));
        break;
      case 1:
        x.push_back(std::ldexp(unit(random) * 2 - 1, static_cast<int>(random() % 12) - 6));
        break;
      case 2:
        x.push_back(std::ldexp(unit(random) * 2 - 1, static_cast<int>(random() % 120) - 60));
        break;
      default:
        x.push_back(std::bit_cast<double>(uint64_t{random()}));
    }
  }
  return x;
}

std::map<std::string, std::pair<double, double>>& results() {
  static std::map<std::string, std::pair<double, double>> map;
  return map;
}

class Table : public testing::Environment {
 public:
  void TearDown() override {
    if (results().empty()) return;
    std::printf("\nlargest error in ulp, float64, sampled\n");
    for (const auto& [name, worst] : results()) {
      std::printf("  %-8s %7.4f at %.17g\n", name.c_str(), worst.first, worst.second);
    }
  }
};
const auto* table = testing::AddGlobalTestEnvironment(new Table);

class Samples : public testing::TestWithParam<Bound> {};

TEST_P(Samples, StayWithinTheirBound) {
  Bound bound = GetParam();
  const char* more = std::getenv("HOLOGRAM_EXHAUSTIVE");
  int n = more && std::string(more) == "1" ? 4'000'000 : 40'000;
  std::vector<double> x = arguments(bound.low, bound.high, n, 1), y = arguments(-30, 30, n, 2);
  bool two = ir::info(bound.op).arity == 2;
  std::vector<double> z = two ? evaluate(bound.op, x, y) : evaluate(bound.op, x);
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (bound.op == Op::digamma && (x[i] < -1e6 || x[i] == 0)) continue;  // poles between floats
    if (bound.op == Op::erfinv && !(std::fabs(x[i]) < 1)) continue;
    double error = error_of(z[i], exact(bound.op, x[i], y[i]), floor_of(bound, x[i]));
    if (error > worst) worst = error, at = i;
  }
  results()[std::string(ir::name_of(bound.op))] = {worst, x[at]};
  EXPECT_LE(worst, bound.ulp) << "at " << x[at] << " " << y[at] << " got " << z[at] << ", exact "
                              << static_cast<double>(exact(bound.op, x[at], y[at]));
}

INSTANTIATE_TEST_SUITE_P(Float64, Samples, testing::ValuesIn(bounds),
                         [](const auto& test) { return std::string(ir::name_of(test.param.op)); });

}  // namespace
}  // namespace hologram::atlas::math
#endif
