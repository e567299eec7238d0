// tests/backend_cuda_90/precision_test.cpp: float32 products of fewer terms
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "backend/cuda/maps.h"
#include "backend_cuda/cuda_test.h"
#include "support/wrong.h"

namespace hologram::test {
namespace {

// On a GPU too.
using CudaPrecisionDevice = CudaDevice90;

// A product of 1 "high" or 2 "medium" precision, and which kernel computes it.
struct Brief {
  int precision = 1;
  const char* kernel = "";
  int64_t m = 20, depth = 1100, n = 40;
  std::string rows = "s0";  ///< as the program has them
  bool by_columns[2] = {false, false};
  std::vector<float> left = {}, right = {};  ///< by rows

  template <class F>
  void fill(F&& number) {
    left.resize(static_cast<size_t>(m * depth));
    right.resize(static_cast<size_t>(depth * n));
    for (auto* factor : {&left, &right})
      for (float& x : *factor) x = number();
  }
  float x(int64_t i, int64_t k) const { return left[static_cast<size_t>(i * depth + k)]; }
  float y(int64_t k, int64_t j) const { return right[static_cast<size_t>(k * n + j)]; }
  bool wide() const { return std::string_view(kernel) == "by warpgroups"; }
  atlas::Program program() const {
    return float_product("f32", by_columns[0], by_columns[1], rows, false, precision);
  }
  std::vector<float> run(Runtime& runtime) const {
    auto laid = [](const std::vector<float>& from, int64_t count, int64_t columns, bool turned) {
      std::vector<float> to(from.size());
      for (int64_t i = 0; i < count; ++i)
        for (int64_t j = 0; j < columns; ++j)
          to[static_cast<size_t>(turned ? j * count + i : i * columns + j)] =
              from[static_cast<size_t>(i * columns + j)];
      return to;
    };
    std::vector<float> first = laid(left, m, depth, by_columns[0]);
    std::vector<float> second = laid(right, depth, n, by_columns[1]);
    std::vector<float> out(static_cast<size_t>(m * n), -1);
    auto bytes = [](std::vector<float>& v) { return std::as_writable_bytes(std::span(v)); };
    const Bytes buffers[] = {bytes(first), bytes(second), bytes(out)};
    const Counted maps("maps");
    run_program(runtime, program(), buffers, std::array{m, depth, n});
    maps.expect(wide() ? 2 : 0);
    return out;
  }
};

std::vector<Brief> all_kernels() {
  std::vector<Brief> out;
  for (int precision = 1; precision <= 2; ++precision) {
    out.push_back({.precision = precision, .kernel = "by mma"});
    out.push_back({.precision = precision,
                   .kernel = "of few rows",
                   .m = 11,
                   .rows = "11",
                   .by_columns = {false, true}});
    out.push_back(
        {.precision = precision, .kernel = "by warpgroups", .m = 132, .depth = 420, .n = 60});
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
    for (const Brief& kernel : all_kernels()) {
      Brief p = kernel;
      const bool known = p.rows != "s0";
      p.by_columns[0] = !known && (layout & 1) != 0;
      p.by_columns[1] = known || (layout & 2) != 0;
      if (known && layout > 0) continue;
      p.depth = 412;
      if (p.wide()) p.m = 136, p.n = 56;
      if (p.wide() && layout == 2) p.m = 260, p.depth = 76, p.n = 136;  // tiles beside each other
      if (p.wide() && !small_device()) p.m *= 8, p.n *= 8;  // a GPU has many more multiprocessors
      SCOPED_TRACE(fmt::format("{} {} {}", p.kernel, p.precision, layout));
      int64_t number = 0;
      p.fill([&] { return static_cast<float>((611 * ++number) % 1021 - 510); });
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

// docs/numerics.md: what products of fewer terms lose, in units of the sum of |x||y| times 2^-15
// (2^-7 of one term).
TEST_F(CudaPrecisionDevice, StayWithinTheirBound) {
  struct Case {
    const char* name;
    float (*of)(std::mt19937&, float, int);  // of a normal number; of a precision
    double most, mean;                       // units
    double least = 0;                        // of `most`
    int left_exponent = 0;
  };
  const double any = std::numeric_limits<double>::infinity();
  const Case cases[] = {
      {"normal", [](std::mt19937&, float x, int) { return x; }, 0.2, 0.02},
      {"of one sign", [](std::mt19937&, float x, int) { return std::fabs(x); }, 0.1, 0.02},
      {"graded",
       [](std::mt19937& random, float x, int) {
         return std::ldexp(x, static_cast<int>(random() % 40) - 20);
       },
       1, 0.2},
      // What is left out is as large as it can be, and of one sign.
      {"the worst",
       [](std::mt19937&, float, int precision) {
         const float left_out = precision == 1 ? 0x1p-17f + 0x1p-23f : 0x1p-23f;
         return 1 + 0x1p-8f - left_out;
       },
       1, 1, 0.95},
      {"near the smallest", [](std::mt19937&, float x, int) { return x; }, any, any, 0, -122}};
  for (const Case& c : cases)
    for (Brief p : all_kernels()) {
      SCOPED_TRACE(fmt::format("{}, {} {}", c.name, p.kernel, p.precision));
      std::mt19937 random(3);
      std::normal_distribution<float> normal;
      p.fill([&] { return c.of(random, normal(random), p.precision); });
      for (float& x : p.left) x = std::ldexp(x, c.left_exponent);
      const std::vector<float> out = p.run(runtime());
      const double unit = p.precision == 1 ? 0x1p-15 : 0x1p-7;
      const auto depth = static_cast<double>(p.depth);
      double most = 0, all = 0;
      for (int64_t i = 0; i < p.m; ++i)
        for (int64_t j = 0; j < p.n; ++j) {
          double sum = 0, size = 0, operands = 0;
          for (int64_t k = 0; k < p.depth; ++k) {
            const double x = p.x(i, k), y = p.y(k, j);
            sum += x * y;
            size += std::fabs(x * y);
            operands += std::fabs(x) + std::fabs(y);
          }
          const double error = std::fabs(out[static_cast<size_t>(i * p.n + j)] - sum);
          EXPECT_LE(error, (unit + (35 + std::ceil(depth / 384)) * 0x1p-24) * size +
                               0x1p-134 * operands + (depth + 12) * 0x1p-149);
          most = std::max(most, error / (unit * size));
          all += error / (unit * size);
        }
      EXPECT_LE(most, c.most);
      EXPECT_GT(most, c.least);
      EXPECT_LE(all / static_cast<double>(p.m * p.n), c.mean);
    }
}

// Where terms or sums of them are not finite, the chain of multiply-adds says what the result is.
TEST_F(CudaPrecisionDevice, LeaveToChainsWhatTheyCannotHold) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (Brief p : all_kernels()) {
    SCOPED_TRACE(fmt::format("{} {}", p.kernel, p.precision));
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    p.fill([&] { return normal(random) / 2; });
    const auto depth = static_cast<size_t>(p.depth);
    p.left[0 * depth + 3] = infinity;
    p.left[1 * depth + 399] = std::numeric_limits<float>::max();  // its first term is infinite
    p.left[2 * depth + 5] = infinity, p.left[2 * depth + 390] = -infinity;
    p.right[static_cast<size_t>(8 * p.n + 7)] = std::nanf("");
    const std::vector<float> out = p.run(runtime());
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        float sum = 0;
        for (int64_t begin = 0; begin < p.depth; begin += 384) {
          float chain = 0;
          for (int64_t k = begin; k < std::min(begin + 384, p.depth); ++k)
            chain = std::fma(p.x(i, k), p.y(k, j), chain);
          sum = begin == 0 ? chain : sum + chain;
        }
        const float got = out[static_cast<size_t>(i * p.n + j)];
        if (std::isnan(sum))
          EXPECT_TRUE(std::isnan(got)) << i << " " << j;
        else if (i < 3 || j == 7)
          EXPECT_EQ(got, sum) << i << " " << j;
        else
          EXPECT_NEAR(got, sum, p.precision == 1 ? 0.01 : 2);
      }
  }
}

// Of an H100, which has 132 multiprocessors.
TEST(CudaPrecision, FewerTermsTakeLessMemoryAndHaveToBeForMore) {
  auto grid = [](int precision, int64_t m) {
    const atlas::Program p = float_product("f32", false, true, "s0", false, precision);
    return cuda::wide_grid(*cuda::compile(p, 90).facts.wide, std::array<int64_t, 3>{m, 4096, 8192},
                           132);
  };
  for (int precision = 0; precision <= 2; ++precision) {
    const auto found = grid(precision, 4096);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->workspace, static_cast<size_t>(3 - precision) * 2 * 4096 * 8192);
    EXPECT_TRUE(grid(precision, 512));
    EXPECT_EQ(grid(precision, 256).has_value(), precision == 0);
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
      const atlas::Program p =
          float_product("f32", (layout & 1) != 0, (layout & 2) != 0, "s0", false, precision);
      const std::string ptx = cuda::dump_ptx(p, 90);
      tiles[precision] = count(ptx, "\tmma.sync");
      wide[precision] = count(ptx, "wgmma.mma_async");
      EXPECT_GT(tiles[precision], 0);
      if (ptxas().empty() || (layout + precision) % 2) continue;  // half of them
      const std::string words = assembled(ptx, "sm_90a");
      EXPECT_EQ(words.find("C75"), words.npos) << words;
      expect_registers(words, 255);
      if (layout >= 2) {
        expect_registers(assembled(cuda::dump_ptx(p), "sm_80"), 255);
        const atlas::Program few = float_product("f32", false, true, "16", false, precision);
        expect_registers(assembled(cuda::dump_ptx(few), "sm_80"), 168);
      }
    }
  for (const auto& found : {tiles, wide}) {
    EXPECT_EQ(found[0], 6 * found[2]);
    EXPECT_EQ(found[1], 3 * found[2]);
  }
}

}  // namespace
}  // namespace hologram::test
