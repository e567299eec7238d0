// tests/math/precise_test.cpp: float64 functions on samples against 113-bit arithmetic (libquadmath).
#ifdef HOLOGRAM_QUADMATH
#include <gtest/gtest.h>
#include <quadmath.h>

#include <bit>
#include <cmath>
#include <random>
#include <set>
#include <string>

#include "native.h"
#include "worst.h"

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

/// What tests/support/functions.def may name, for 113 bits.
namespace quad {

[[maybe_unused]] const Quad pi = pi_quad;

Quad sqrt(Quad x) { return sqrtq(x); }
Quad cbrt(Quad x) { return cbrtq(x); }
Quad exp(Quad x) { return expq(x); }
Quad expm1(Quad x) { return expm1q(x); }
Quad log(Quad x) { return logq(x); }
Quad log2(Quad x) { return log2q(x); }
Quad log10(Quad x) { return log10q(x); }
Quad log1p(Quad x) { return log1pq(x); }
Quad sin(Quad x) { return sinq(x); }
Quad cos(Quad x) { return cosq(x); }
Quad tan(Quad x) { return tanq(x); }
Quad asin(Quad x) { return asinq(x); }
Quad acos(Quad x) { return acosq(x); }
Quad atan(Quad x) { return atanq(x); }
Quad sinh(Quad x) { return sinhq(x); }
Quad cosh(Quad x) { return coshq(x); }
Quad tanh(Quad x) { return tanhq(x); }
Quad asinh(Quad x) { return asinhq(x); }
Quad acosh(Quad x) { return acoshq(x); }
Quad atanh(Quad x) { return atanhq(x); }
Quad erf(Quad x) { return erfq(x); }
Quad erfc(Quad x) { return erfcq(x); }
Quad lgamma(Quad x) { return lgammaq(x); }
[[maybe_unused]] Quad fabs(Quad x) { return fabsq(x); }
Quad exp2(Quad x) { return expq(x * ln2_quad); }
[[maybe_unused]] Quad nearbyint(Quad x) { return rintq(x); }
[[maybe_unused]] Quad fmod(Quad x, Quad y) { return fmodq(x, y); }
Quad pow(Quad x, Quad y) { return powq(x, y); }
Quad atan2(Quad x, Quad y) { return atan2q(x, y); }
Quad digamma(Quad x) { return digamma_quad(x); }
Quad erfinv(Quad x) { return erfinv_quad(x); }
Quad gelu(Quad x) { return x / 2 * erfcq(-x * root_half_quad); }

Quad reference(Op op, Quad x, Quad y) {
  switch (op) {
#define HOLOGRAM_REFERENCE(name, low, high, floor, expression) \
  case Op::name:                                               \
    return expression;
#include "support/functions.def"
    default:
      return 0;
  }
}

}  // namespace quad

/// Error in units in the last place of the exact value, or of `floor` where that is larger.
double error_of(double got, Quad want, double floor) {
  if (isnanq(want)) return std::isnan(got) ? 0 : INFINITY;
  double rounded = static_cast<double>(want);
  if (std::isinf(rounded) || rounded == 0 || !std::isfinite(got)) {
    if (got == rounded) return 0;  // a neighbour of an overflowing or vanishing result is off by one unit
    return std::nextafter(rounded, got) == got ? 1 : INFINITY;
  }
  int e = std::ilogb(std::max(std::fabs(rounded), floor));
  Quad unit = ldexpq(1, std::max(e, -1022) - 52);
  return static_cast<double>(fabsq(Quad(got) - want) / unit);
}

struct Function {
  Op op;
  double low, high;  ///< ordinary arguments
  double floor;      ///< results below count in units of this one
};

constexpr Function functions[] = {
#define HOLOGRAM_REFERENCE(name, low, high, floor, expression) {Op::name, low, high, floor},
#include "support/functions.def"
};

TEST(Functions, HaveAReferenceEach) {
  std::set<Op> known;
  for (const Function& f : functions) known.insert(f.op);
  for (int k = 0; k < ir::num_ops; ++k) {
    auto op = static_cast<Op>(k);
    EXPECT_EQ(known.count(op) > 0, ir::info(op).ulp64 > 0) << ir::name_of(op);
  }
}

/// What an error counts against at least; for x < 0 that includes what the reflection formula adds and subtracts.
double floor_of(const Function& f, double x) {
  if (f.floor == 0 || x > 0) return f.floor;
  Quad parts = fabsq(quad::reference(f.op, 1 - Quad(x), 0)) + fabsq(quad::reference(f.op, x, 0));
  return std::max(f.floor, static_cast<double>(parts));
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

auto* const table = new WorstTable("float64, sampled");
const auto* added = testing::AddGlobalTestEnvironment(table);

class Samples : public testing::TestWithParam<Function> {};

TEST_P(Samples, StayWithinTheirBound) {
  Function f = GetParam();
  const char* more = std::getenv("HOLOGRAM_EXHAUSTIVE");
  int n = more && std::string(more) == "1" ? 4'000'000 : 40'000;
  std::vector<double> x = arguments(f.low, f.high, n, 1), y = arguments(-30, 30, n, 2);
  const bool turns = f.op == Op::sin || f.op == Op::cos || f.op == Op::tan;
  for (size_t i = 3; turns && i < x.size(); i += 8) x[i] = static_cast<double>(pi_quad / 2 * (i * 29 % (1 << 20)));  // of small results
  std::vector<double> z = ir::info(f.op).arity == 2 ? evaluate(f.op, x, y) : evaluate(f.op, x);
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (f.op == Op::digamma && (x[i] < -1e6 || x[i] == 0)) continue;  // poles between floats
    if (f.op == Op::erfinv && !(std::fabs(x[i]) < 1)) continue;
    double error = error_of(z[i], quad::reference(f.op, x[i], y[i]), floor_of(f, x[i]));
    if (error > worst) worst = error, at = i;
  }
  table->results[std::string(ir::name_of(f.op))] = {worst, x[at], z[at]};
  EXPECT_LE(worst, ir::info(f.op).ulp64) << "at " << x[at] << " " << y[at] << " got " << z[at] << ", exact "
                                         << static_cast<double>(quad::reference(f.op, x[at], y[at]));
}

INSTANTIATE_TEST_SUITE_P(Float64, Samples, testing::ValuesIn(functions),
                         [](const auto& test) { return std::string(ir::name_of(test.param.op)); });

}  // namespace
}  // namespace hologram::atlas::math
#endif
