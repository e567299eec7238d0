// tests/backend_cuda_90/precision_test.cpp: float32 products of fewer terms
#include <bit>
#include <cmath>
#include <random>

#include "backend/cuda/maps.h"
#include "backend_cuda/factors.h"

namespace hologram::test {
namespace {

// On a GPU too.
using CudaPrecisionDevice = CudaDevice90;

// Of 1 "high" or 2 "medium" precision: by mma, of few rows, by warpgroups.
std::vector<Factors> all_kernels() {
  std::vector<Factors> out;
  for (int precision = 1; precision <= 2; ++precision) {
    out.push_back({"f32", {false, false}, 20, 1100, 40, 0, "s0", precision});
    out.push_back({"f32", {false, true}, 11, 1100, 40, 0, "11", precision});
    out.push_back({"f32", {false, false}, 132, 420, 60, 2, "s0", precision});
  }
  return out;
}

// The high term: x to the nearest bfloat16, ties to even.
double high(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
}

// Integers of ten bits, which two terms hold. Every order of adding gives their sums exactly.
TEST_F(CudaPrecisionDevice, TermsAreTakenAsThePrecisionSays) {
  for (int layout = 0; layout < 4; ++layout)
    for (Factors p : all_kernels()) {
      const bool known = p.rows != "s0";
      p.by_columns[0] = !known && (layout & 1) != 0;
      p.by_columns[1] = known || (layout & 2) != 0;
      if (known && layout > 0) continue;
      p.depth = 412;
      if (p.maps) p.m = 136, p.n = 56;
      if (p.maps && layout == 2) p.m = 260, p.depth = 76, p.n = 136;  // tiles beside each other
      if (p.maps && !small_device()) p.m *= 8, p.n *= 8;              // a GPU has many more multiprocessors
      p.fill_with_integers();
      const std::vector<float> out = p.run(runtime());
      int64_t inexact = 0;
      std::vector<double> wanted;
      for (int64_t i = 0; i < p.m; ++i)
        for (int64_t j = 0; j < p.n; ++j) {
          double sum = 0, exact = 0;
          for (int64_t k = 0; k < p.depth; ++k) {
            const double x = p.x(i, k), y = p.y(k, j), hx = high(p.x(i, k)), hy = high(p.y(k, j));
            sum += p.precision == 1 ? x * y - (x - hx) * (y - hy) : hx * hy;
            exact += x * y;
          }
          ASSERT_LT(std::fabs(sum), 0x1p24);
          wanted.push_back(sum);
          inexact += sum != exact;
        }
      EXPECT_GT(inexact, 0);
      EXPECT_EQ(wrong_places(out, wanted, p.m, p.n), "");
    }
}

TEST_F(CudaPrecisionDevice, StayWithinTheirBound) {
  // What is left out is as large as it can be, and of one sign.
  auto worst = [](std::mt19937&, float, int precision) { return 1 + 0x1p-8f - (precision == 1 ? 0x1p-17f + 0x1p-23f : 0x1p-23f); };
  for (const TermErrors& c :
       {TermErrors{"normal", as_drawn, 0.2, 0.02}, TermErrors{"of one sign", of_one_sign, 0.1, 0.02}, TermErrors{"graded", graded, 1, 0.2},
        TermErrors{"the worst", worst, 1, 1, 0.95}, TermErrors{"near the smallest", as_drawn, any_error, any_error, 0, -122}})
    for (const Factors& f : all_kernels()) expect_term_errors(runtime(), f, c);
}

// Where terms or sums of them are not finite, the chain of multiply-adds says what the result is.
TEST_F(CudaPrecisionDevice, LeaveToChainsWhatTheyCannotHold) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<Factors> all = all_kernels();
  all.push_back({"f32", {false, false}, 129, 400, 72, 2});  // of all terms
  all.push_back({"f32", {false, false}, 6, 400, 40});       // by mma
  all.push_back({"f32", {false, true}, 7, 600, 130});       // few rows, as sizes say
  for (Factors p : all) {
    SCOPED_TRACE(p.text());
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    p.fill([&] { return normal(random) / 2; });
    p.x(0, 3) = infinity;
    p.x(1, 399) = std::numeric_limits<float>::max();  // its first term is infinite
    p.x(p.m - 1, 5) = infinity, p.x(p.m - 1, 390) = -infinity;
    p.y(8, p.n - 1) = std::nanf("");
    p.y(9, 3) = -infinity;
    const std::vector<float> out = p.run(runtime());
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        const float sum = p.chain(i, j);
        const float got = out[static_cast<size_t>(i * p.n + j)];
        if (std::isnan(sum))
          EXPECT_TRUE(std::isnan(got)) << i << " " << j;
        else if (i < 2 || i == p.m - 1 || j == p.n - 1 || j == 3)
          EXPECT_EQ(got, sum) << i << " " << j;
        else
          EXPECT_NEAR(got, sum, p.precision == 0 ? 1e-4 : p.precision == 1 ? 0.01 : 2);
      }
  }
}

TEST(CudaPrecision, MultiplyAsOftenAsTheirTermsNeed) {
  auto count = [](const std::string& text, const char* what) {
    int found = 0;
    for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
    return found;
  };
  int tiles[3] = {}, wide[3] = {};
  for (int precision = 0; precision <= 2; ++precision)
    for (int layout = 0; layout < 4; ++layout) {
      SCOPED_TRACE(fmt::format("{} {}", precision, layout));
      const atlas::Program p = float_product("f32", (layout & 1) != 0, (layout & 2) != 0, "s0", false, precision);
      const std::string ptx = cuda::dump_ptx(p, 90);
      tiles[precision] = count(ptx, "\tmma.sync");
      wide[precision] = count(ptx, "wgmma.mma_async");
      EXPECT_GT(tiles[precision], 0);
      if ((layout + precision) % 2) continue;  // half of them
      expect_assembles(ptx, 255);
      if (layout < 2) continue;
      expect_assembles(cuda::dump_ptx(p), 255, "sm_80");
      expect_assembles(cuda::dump_ptx(float_product("f32", false, true, "16", false, precision)), 168, "sm_80");
    }
  for (const auto& found : {tiles, wide}) {
    EXPECT_EQ(found[0], 6 * found[2]);
    EXPECT_EQ(found[1], 3 * found[2]);
  }
}

}  // namespace
}  // namespace hologram::test
