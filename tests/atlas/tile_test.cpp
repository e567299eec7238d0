// tests/atlas/tile_test.cpp: products of bfloat16 terms: their arithmetic, and their errors against
// the worst case of a chain of multiply-adds.
#include "atlas/programs.h"
#include "atlas/tile_math.h"
#include "interp/interp.h"
#include "support/test.h"

namespace hologram::test {
namespace {

// 257 lies halfway between 256 and 258.
TEST(TileMath, halfway_numbers_are_rounded_to_even_by_the_last_term_alone) {
  auto term = [](float x, int count, size_t i) { return atlas::widen_bf16(atlas::terms_of(x, count)[i]); };
  EXPECT_EQ(term(257, 1, 0), 256);
  EXPECT_EQ(term(-259, 1, 0), -260);
  for (int count : {2, 3}) {
    EXPECT_EQ(term(257, count, 0), 258);
    EXPECT_EQ(term(257, count, 1), -1);
    EXPECT_EQ(term(-257, count, 0), -258);
  }
  const float x = 1 + 0x1p-9f + 0x1p-17f;  // what its first term leaves lies halfway
  EXPECT_EQ(term(x, 2, 1), 0x1p-9f);
  EXPECT_EQ(term(x, 3, 1), 0x1p-9f + 0x1p-16f);
  EXPECT_EQ(term(x, 3, 2), -0x1p-17f);
}

TEST(TileMath, magnitudes) {
  using atlas::Magnitudes, atlas::magnitudes_of, atlas::terms_of;
  auto of = [](float x) { return magnitudes_of(terms_of(x, 3)[0]); };
  for (float x : {0.0f, -0.0f, 1.0f, -0x1p-39f, 0x1p39f}) EXPECT_EQ(of(x), Magnitudes::narrow) << x;
  for (float x : {0x1p-41f, 0x1p41f, -0x1p-101f, 0x1.fp126f}) EXPECT_EQ(of(x), Magnitudes::wide) << x;
  for (float x : {0x1p-103f, 1e-45f, 0x1.fffffep126f, 0x1p127f, INFINITY, NAN}) EXPECT_EQ(of(x), Magnitudes::any) << x;
}

// Operands of one distribution.
struct Draw {
  const char* name;
  float (*lhs)(std::mt19937_64&, int64_t k);
  float (*rhs)(std::mt19937_64&, int64_t k);
};

float normal(std::mt19937_64& r, int64_t) { return std::normal_distribution<float>()(r); }
float positive(std::mt19937_64& r, int64_t) { return std::uniform_real_distribution<float>(0.5f, 1)(r); }
// Uniform exponents in [-e, e].
template <int e>
float wide(std::mt19937_64& r, int64_t) {
  return std::ldexp(normal(r, 0), static_cast<int>(r() % (2 * e + 1)) - e);
}
template <int e>
float near(std::mt19937_64& r, int64_t) {
  return std::ldexp(std::uniform_real_distribution<float>(0.5f, 1)(r) * (r() % 2 ? 1 : -1), e);
}
// Pairs that cancel but for their last bits.
float cancels(std::mt19937_64& r, int64_t k) {
  float x = 1 + static_cast<float>(r() % 64) * 0x1p-23f;
  return k % 2 ? -x : x;
}
float one(std::mt19937_64&, int64_t) { return 0x1.fffffep0f; }
float sparse(std::mt19937_64& r, int64_t) { return r() % 8 ? 0 : wide<30>(r, 0); }
// All bits of the significand set, so that the terms left out are largest.
float dense(std::mt19937_64& r, int64_t) { return (r() % 2 ? 1.0f : -1.0f) * (0x1.00fdfep0f + static_cast<float>(r() % 4) * 0x1p-23f); }
float mixed_extremes(std::mt19937_64& r, int64_t k) { return k % 3 == 0 ? near<-120>(r, k) : k % 3 == 1 ? near<60>(r, k) : 0; }

constexpr Draw draws[] = {
    {"normal", normal, normal},
    {"all positive", positive, positive},
    {"exponents within 2^30", wide<30>, wide<30>},
    {"exponents within 2^60", wide<60>, wide<60>},
    {"cancelling pairs", cancels, one},
    {"sparse", sparse, wide<30>},
    {"terms left out largest", dense, dense},
    {"near overflow", near<60>, near<56>},
    {"the left operand near overflow", near<128>, near<-10>},
    {"near underflow", near<-60>, near<-62>},
    {"subnormal", near<-130>, near<20>},
    {"subnormal beside large", mixed_extremes, mixed_extremes},
};

// The largest error of 12 × 12 elements in units of 2^-24 sum |x||y|, beside what rounding to subnormal numbers explains.
double measure(const Draw& d, int64_t k, int terms, uint64_t seed) {
  constexpr int64_t m = 12, n = 12;
  std::mt19937_64 random(seed);
  std::vector<float> x(static_cast<size_t>(m * k)), y(static_cast<size_t>(k * n)), out(static_cast<size_t>(m * n));
  for (size_t i = 0; i < x.size(); ++i) x[i] = d.lhs(random, static_cast<int64_t>(i) % k);
  for (size_t i = 0; i < y.size(); ++i) y[i] = d.rhs(random, static_cast<int64_t>(i) / n);
  atlas::Program p = batched_product(DType::f32, DType::f32, DType::f32);
  p.product().reproducible = false;
  p.product().terms = terms;
  atlas::verify(p);
  std::vector<void*> bufs{x.data(), y.data(), out.data()};
  std::vector<int64_t> syms{1, m, n, k};
  interp::run(p, bufs.data(), syms.data(), nullptr);
  double worst = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      long double sum = 0, size = 0;
      for (int64_t l = 0; l < k; ++l) {
        long double t = static_cast<long double>(x[static_cast<size_t>(i * k + l)]) * y[static_cast<size_t>(l * n + j)];
        sum += t;
        size += std::abs(t);
      }
      if (size == 0 || size > 0x1p127) continue;
      double error = static_cast<double>(std::abs(out[static_cast<size_t>(i * n + j)] - sum));
      error = std::max(0.0, error - static_cast<double>(k) * 0x1p-149);
      worst = std::max(worst, error / static_cast<double>(size) * 0x1p24);
    }
  return worst;
}

TEST(TileError, three_terms_stay_below_the_worst_case_of_a_chain) {
  for (const Draw& d : draws)
    for (int64_t k : {32, 33, 100, 384, 1000, 2100}) {
      const double chain = static_cast<double>(std::min<int64_t>(k, 384) + (k + 383) / 384 - 1);
      EXPECT_LE(measure(d, k, 3, static_cast<uint64_t>(k)), chain) << d.name << ", K = " << k;
    }
}

TEST(TileError, two_terms_and_one) {
  for (const Draw& d : draws)
    for (int64_t k : {32, 1000}) {
      EXPECT_LE(measure(d, k, 2, 5), 0x1.01p9 + static_cast<double>(k)) << d.name;
      EXPECT_LE(measure(d, k, 1, 5), 0x1.02p17 + static_cast<double>(k)) << d.name;
    }
}

}  // namespace
}  // namespace hologram::test
