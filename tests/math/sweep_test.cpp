// tests/math/sweep_test.cpp: float32 functions against their bounds: sampled, or over all 2^32 inputs
// with HOLOGRAM_EXHAUSTIVE=1. The largest errors are printed at the end.
#include <thread>

#include "native.h"
#include "support/functions.h"
#include "support/test.h"
#include "ulp.h"
#include "worst.h"

namespace hologram::atlas::math {
namespace {

using ir::Op;

/// The functions of so many operands.
std::vector<Op> functions(int operands) {
  std::vector<Op> all;
  for (int k = 0; k < ir::num_ops; ++k) {
    auto op = static_cast<Op>(k);
    if (ir::info(op).ulp32 > 0 && ir::info(op).arity == operands) all.push_back(op);
  }
  return all;
}

bool exhaustive() {
  const char* value = std::getenv("HOLOGRAM_EXHAUSTIVE");
  return value && std::string(value) == "1";
}

/// Quick estimate of ulp_error for a finite positive or negative `want`; NaN or large where anything is special.
double estimate(float got, double want) {
  uint64_t bits = std::bit_cast<uint64_t>(want);
  uint64_t exponent = std::max<uint64_t>(bits >> 52 & 0x7ff, 1023 - 126);
  double per_unit = std::bit_cast<double>((2 * 1023 + 23 - exponent) << 52);
  return std::fabs(double{got} - want) * per_unit;
}

/// Equal, the same zero or both NaN.
bool settled(float got, double want) {
  if (std::isnan(got)) return std::isnan(want);
  return double{got} == want && std::signbit(got) == std::signbit(want);
}

/// The largest error over the bit patterns first, first + step, … With `quick`, the float64 sequence, itself tested against 113-bit
/// arithmetic, tells which inputs are worth the reference's time: those that look worse than the worst so far.
Worst sweep(Op op, uint64_t first, uint64_t last, uint64_t step, bool quick = false) {
  constexpr size_t chunk = 4096;
  std::vector<float> x;
  std::vector<double> wide;
  Worst worst;
  auto flush = [&] {
    std::vector<float> y = evaluate(op, x);
    std::vector<double> near;
    if (quick) {
      wide.assign(x.begin(), x.end());
      near = evaluate(op, wide);
    }
    for (size_t i = 0; i < x.size(); ++i) {
      if (quick && (settled(y[i], near[i]) || estimate(y[i], near[i]) < worst.ulp - 1e-6)) continue;
      worst.take(ulp_error<float>(y[i], test::reference(op, double{x[i]})), x[i], y[i]);
    }
    x.clear();
  };
  for (uint64_t bits = first; bits < last; bits += step) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    if (x.size() == chunk) flush();
  }
  flush();
  return worst;
}

/// Whether the float64 sequence shares too much with the float32 one to be a guide.
bool same_sequence(Op op) { return op == Op::lgamma || op == Op::digamma; }

/// Around powers of two, integers, halves and the ends of the ranges.
Worst neighbourhoods(Op op) {
  std::vector<uint32_t> centres = {0, 0x00800000, 0x7f800000, 0x7fc00000};
  for (int e = -30; e <= 30; ++e) centres.push_back(std::bit_cast<uint32_t>(std::ldexp(1.0f, e)));
  for (float c = 0.5f; c <= 160; c += 0.5f) centres.push_back(std::bit_cast<uint32_t>(c));
  for (float c : {9.02f, 3.93f, 0.15037594f, 0.06557377f, 0.34657359f, 1.4616321f, 0.33333334f, 0.6666667f, 87.33655f, 88.72284f,
                  103.97208f, 3.8325068f, 10.054f, 14.9f, 17.328679f, 0x1.f37c8ap+95f, 5.0f, 3e38f}) {
    centres.push_back(std::bit_cast<uint32_t>(c));
  }
  Worst worst;
  for (uint32_t c : centres) {
    uint32_t low = c < 40 ? 0 : c - 40;
    for (uint64_t sign : {uint64_t{0}, uint64_t{0x80000000}}) {
      Worst w = sweep(op, low + sign, std::min<uint64_t>(c + 40, 0x7fffffff) + sign, 1);
      worst.take(w.ulp, w.at, w.got);
    }
  }
  return worst;
}

auto* const table = new WorstTable(std::string("float32, ") + (exhaustive() ? "all 2^32 inputs" : "sampled"));
const auto* added = testing::AddGlobalTestEnvironment(table);

class Sweep : public testing::TestWithParam<Op> {};

TEST_P(Sweep, StaysWithinItsBound) {
  Op op = GetParam();
  constexpr uint64_t all = uint64_t{1} << 32;
  Worst worst = neighbourhoods(op);
  if (exhaustive()) {
    unsigned parts = std::max(1u, std::thread::hardware_concurrency());
    std::vector<Worst> found(parts);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < parts; ++i) {
      threads.emplace_back([&, i, op = op] { found[i] = sweep(op, all * i / parts, all * (i + 1) / parts, 1, !same_sequence(op)); });
    }
    for (std::thread& t : threads) t.join();
    for (const Worst& w : found) worst.take(w.ulp, w.at, w.got);
  } else {
    Worst w = sweep(op, 0, all, 4099);
    worst.take(w.ulp, w.at, w.got);
  }
  table->results[std::string(ir::name_of(op))] = worst;
  EXPECT_LE(worst.ulp, ir::info(op).ulp32) << "at " << worst.at << " got " << worst.got << ", exact " << test::reference(op, worst.at);
}

INSTANTIATE_TEST_SUITE_P(Float32, Sweep, testing::ValuesIn(functions(1)),
                         [](const auto& test) { return std::string(ir::name_of(test.param)); });

// What approximates functions that tend to 1 must not reach beyond it.
TEST(OddByPieces, GrowToOne) {
  std::vector<float> x;
  for (float a = 2; a < 20; a += 0x1p-12f) x.push_back(a);
  for (auto [op, top] : {std::pair{Op::tanh, 9.02f}, {Op::erf, 3.93f}}) {
    std::vector<float> y = evaluate(op, x);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_LE(y[i], 1.0f) << x[i];
      if (x[i] >= top) {
        EXPECT_EQ(y[i], 1.0f) << x[i];
      }
    }
    std::vector<float> ends = evaluate(op, std::vector{-0.0f, 0.0f, -INFINITY, INFINITY, NAN});
    EXPECT_TRUE(ends[0] == 0 && std::signbit(ends[0]) && !std::signbit(ends[1]));
    EXPECT_EQ(ends[2], -1.0f);
    EXPECT_EQ(ends[3], 1.0f);
    EXPECT_TRUE(std::isnan(ends[4]));
  }
  EXPECT_EQ(evaluate(Op::tanh, std::vector{-0x1p-149f, 0x1.8p-140f, 0x1p-30f}), (std::vector{-0x1p-149f, 0x1.8p-140f, 0x1p-30f}));
}

/// Pairs with special, ordinary and arbitrary members.
std::pair<std::vector<float>, std::vector<float>> pairs() {
  std::vector<float> x, y;
  std::vector<float> special = {0.0f, 0x1p-149f, 0x1p-126f, 1e-20f,  0.5f,           0x1.fffffep-1f, 1.0f,  0x1.000002p0f, 1.5f, 2.0f,
                                3.0f, 4.0f,      1e5f,      0x1p24f, 0x1.fffffep23f, 1e30f,          3e38f, INFINITY,      NAN};
  size_t n = special.size();
  for (size_t i = 0; i < n; ++i) special.push_back(-special[i]);
  for (float a : special) {
    for (float b : special) {
      x.push_back(a);
      y.push_back(b);
    }
  }
  std::mt19937_64 random(7);
  std::normal_distribution<float> wide(0, 20), narrow(0, 1);
  for (int i = 0; i < (exhaustive() ? 100'000'000 : 400'000); ++i) {
    uint64_t bits = random();
    switch (i % 4) {
      case 0:
        x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
        y.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits >> 32)));
        break;
      case 1:
        x.push_back(std::exp2(narrow(random)));
        y.push_back(wide(random) * 6);
        break;
      case 2:
        x.push_back(wide(random));
        y.push_back(std::nearbyint(wide(random)));
        break;
      default:
        x.push_back(std::exp(wide(random)));
        y.push_back(narrow(random));
    }
  }
  return {x, y};
}

class PairSweep : public testing::TestWithParam<Op> {};

TEST_P(PairSweep, StaysWithinItsBound) {
  Op op = GetParam();
  auto [x, y] = pairs();
  std::vector<float> z = evaluate(op, x, y);
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    double error = ulp_error<float>(z[i], test::reference(op, double{x[i]}, double{y[i]}));
    if (error > worst) worst = error, at = i;
  }
  table->results[std::string(ir::name_of(op))] = {worst, x[at], z[at]};
  EXPECT_LE(worst, ir::info(op).ulp32) << "at " << x[at] << ", " << y[at] << " got " << z[at] << ", exact "
                                       << test::reference(op, double{x[at]}, double{y[at]});
}

INSTANTIATE_TEST_SUITE_P(Float32, PairSweep, testing::ValuesIn(functions(2)),
                         [](const auto& test) { return std::string(ir::name_of(test.param)); });

}  // namespace
}  // namespace hologram::atlas::math
