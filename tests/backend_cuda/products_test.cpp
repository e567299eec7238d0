// tests/backend_cuda/products_test.cpp: products on tensor cores, by terms, in parts
#include <bit>
#include <cmath>
#include <random>

#include "cuda_test.h"
#include "support/wrong.h"

namespace hologram::test {
namespace {

// Small integers, whose products and sums every order of adding gives exactly.
TEST_F(CudaDevice, TensorCoresMultiplyIntegersExactly) {
  const std::vector<std::vector<int64_t>> shapes{
      {1, 1, 1},      {3, 0, 5},    {16, 16, 8},  {130, 40, 72}, {5, 33, 200},
      {257, 64, 129}, {1, 700, 37}, {2, 256, 64}, {3, 264, 9},   {4, 31, 17}};
  for (const char* type : {"bf16", "f16"})
    for (int layout = 0; layout < 4; ++layout)
      for (const auto& sizes : shapes) {
        SCOPED_TRACE(fmt::format("{} {} {}", type, layout, testing::PrintToString(sizes)));
        const int64_t m = sizes[0], depth = sizes[1], n = sizes[2];
        const bool by_columns[] = {(layout & 1) != 0, (layout & 2) != 0};
        auto number = [](int64_t i, int64_t j) {
          return static_cast<float>((7 * i + 5 * j) % 9 - 4);
        };
        auto bits = [&](float x) {  // of 16: both types hold small integers
          if (type[0] == 'b') return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
          if (x == 0) return uint16_t{0};
          const int e = std::ilogb(x);
          const auto mantissa = static_cast<int>(std::fabs(std::ldexp(x, 10 - e))) - 1024;
          return static_cast<uint16_t>((x < 0 ? 0x8000 : 0) | (e + 15) << 10 | mantissa);
        };
        std::vector<uint16_t> left(static_cast<size_t>(m * depth)),
            right(static_cast<size_t>(depth * n));
        std::vector<float> out(static_cast<size_t>(m * n), -1), wanted(out.size());
        for (int64_t k = 0; k < depth; ++k) {
          for (int64_t i = 0; i < m; ++i)
            left[static_cast<size_t>(by_columns[0] ? i + m * k : k + depth * i)] =
                bits(number(i, k));
          for (int64_t j = 0; j < n; ++j)
            right[static_cast<size_t>(by_columns[1] ? k + depth * j : j + n * k)] =
                bits(number(k, j));
        }
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            float sum = 0;
            for (int64_t k = 0; k < depth; ++k) sum += number(i, k) * number(k, j);
            wanted[static_cast<size_t>(i * n + j)] = sum;
          }
        const Bytes buffers[] = {std::as_writable_bytes(std::span(left)),
                                 std::as_writable_bytes(std::span(right)),
                                 std::as_writable_bytes(std::span(out))};
        std::vector<std::string> rows{"s0"};
        if (layout == 2 && m <= 16) rows.push_back(std::to_string(m));
        for (const std::string& known : rows) {
          std::ranges::fill(out, -1.0f);
          run_program(runtime(), float_product(type, by_columns[0], by_columns[1], known), buffers,
                      sizes);
          EXPECT_EQ(wrong_places(out, wanted, m, n), "") << known;
        }
      }
}

TEST_F(CudaDevice, TensorCoresMultiplyBytes) {
  for (const char* left : {"i8", "u8"})
    for (const char* right : {"i8", "u8"})
      for (const auto& sizes : std::vector<std::array<int64_t, 3>>{
               {1, 1, 1}, {3, 0, 5}, {17, 65, 9}, {130, 40, 72}, {5, 1333, 20}})
        expect_byte_product(runtime(), left, right, sizes);
}

// docs/numerics.md: what tensor cores cut off.
TEST_F(CudaDevice, TensorCoresStayWithinTheirBound) {
  constexpr int64_t m = 20, depth = 512, n = 24;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const bool one_sign : {false, true}) {
    std::vector<uint16_t> left(m * depth), right(depth * n);
    for (auto* factor : {&left, &right})
      for (uint16_t& x : *factor) {
        const float y = normal(random);
        x = static_cast<uint16_t>(std::bit_cast<uint32_t>(one_sign ? std::fabs(y) : y) >> 16);
      }
    std::vector<float> out(m * n);
    const Bytes buffers[] = {std::as_writable_bytes(std::span(left)),
                             std::as_writable_bytes(std::span(right)),
                             std::as_writable_bytes(std::span(out))};
    run_program(runtime(), float_product("bf16", false, false), buffers, std::array{m, depth, n});
    auto number = [](uint16_t x) { return double{std::bit_cast<float>(uint32_t{x} << 16)}; };
    bool exact = true;
    for (size_t i = 0; i < m; ++i)
      for (size_t j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (size_t k = 0; k < depth; ++k) {
          const double product = number(left[i * depth + k]) * number(right[k * n + j]);
          sum += product;
          size += std::fabs(product);
        }
        EXPECT_LE(std::fabs(out[i * n + j] - sum), 11 * (depth / 16) * 0x1p-24 * size);
        exact = exact && out[i * n + j] == static_cast<float>(sum);
      }
    EXPECT_FALSE(exact);
  }
}

TEST_F(CudaDevice, TensorCoresKeepInfinityAndNan) {
  constexpr int64_t m = 4, depth = 20, n = 3;
  auto bits = [](float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); };
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<uint16_t> left(m * depth, bits(1)), right(depth * n, bits(2));
  left[0 * depth + 3] = bits(infinity);
  left[1 * depth + 19] = bits(-infinity);
  left[2 * depth + 5] = bits(infinity), left[2 * depth + 18] = bits(-infinity);
  right[7 * n + 2] = bits(std::nanf(""));
  std::vector<float> out(m * n);
  const Bytes buffers[] = {std::as_writable_bytes(std::span(left)),
                           std::as_writable_bytes(std::span(right)),
                           std::as_writable_bytes(std::span(out))};
  run_program(runtime(), float_product("bf16", false, false), buffers, std::array{m, depth, n});
  for (size_t j = 0; j < 2; ++j) {
    EXPECT_EQ(out[0 * n + j], infinity);
    EXPECT_EQ(out[1 * n + j], -infinity);
    EXPECT_TRUE(std::isnan(out[2 * n + j]));
    EXPECT_EQ(out[3 * n + j], 40);
  }
  for (size_t i = 0; i < m; ++i) EXPECT_TRUE(std::isnan(out[i * n + 2]));
}

// m x depth times depth x n, both by rows.
std::vector<float> multiply(Runtime& runtime, std::vector<float> left, std::vector<float> right,
                            int64_t m, int64_t depth, int64_t n) {
  std::vector<float> out(static_cast<size_t>(m * n), -1);
  const auto bytes = [](std::vector<float>& v) { return std::as_writable_bytes(std::span(v)); };
  const Bytes buffers[] = {bytes(left), bytes(right), bytes(out)};
  run_program(runtime, float_product("f32", false, false), buffers, std::array{m, depth, n});
  return out;
}

// Integers of ten bits need two terms; every order of adding gives their sums exactly.
TEST_F(CudaDevice, TermsMultiplyIntegersExactly) {
  const std::vector<std::vector<int64_t>> shapes{
      {1, 1, 1}, {3, 0, 5}, {16, 16, 8}, {70, 40, 72}, {5, 33, 130}, {3, 800, 7}, {11, 900, 70}};
  auto number = [](int64_t i, int64_t j) {
    return static_cast<float>((611 * i + 377 * j) % 1021 - 510);
  };
  for (int layout = 0; layout < 4; ++layout)
    for (const auto& sizes : shapes) {
      SCOPED_TRACE(fmt::format("{} {}", layout, testing::PrintToString(sizes)));
      const int64_t m = sizes[0], depth = sizes[1], n = sizes[2];
      const bool by_columns[] = {(layout & 1) != 0, (layout & 2) != 0};
      std::vector<float> left(static_cast<size_t>(m * depth)),
          right(static_cast<size_t>(depth * n)), out(static_cast<size_t>(m * n), -1),
          wanted(out.size());
      for (int64_t k = 0; k < depth; ++k) {
        for (int64_t i = 0; i < m; ++i)
          left[static_cast<size_t>(by_columns[0] ? i + m * k : k + depth * i)] = number(i, k);
        for (int64_t j = 0; j < n; ++j)
          right[static_cast<size_t>(by_columns[1] ? k + depth * j : j + n * k)] = number(k, j);
      }
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          float& sum = wanted[static_cast<size_t>(i * n + j)];
          for (int64_t k = 0; k < depth; ++k) {
            sum += number(i, k) * number(k, j);
            ASSERT_LT(std::fabs(sum), 0x1p24);
          }
        }
      const Bytes buffers[] = {std::as_writable_bytes(std::span(left)),
                               std::as_writable_bytes(std::span(right)),
                               std::as_writable_bytes(std::span(out))};
      std::vector<std::string> rows{"s0"};
      if (layout == 2 && m <= 16) rows.push_back(std::to_string(m));
      for (const std::string& known : rows) {
        std::ranges::fill(out, -1.0f);
        run_program(runtime(), float_product("f32", by_columns[0], by_columns[1], known), buffers,
                    sizes);
        ASSERT_EQ(out, wanted) << known;
      }
    }
}

// docs/numerics.md: what products by terms lose, in units of 2^-24 times the sum of |x||y|.
TEST_F(CudaDevice, TermsStayWithinTheirBound) {
  constexpr int64_t m = 20, depth = 1100, n = 24;
  struct Case {
    const char* name;
    float (*of)(std::mt19937&, float);  // of a normal number
    double most, mean;                  // units
    int left_exponent = 0;
  };
  const double any = std::numeric_limits<double>::infinity();
  const Case cases[] = {
      {"normal", [](std::mt19937&, float x) { return x; }, 1.5, 0.2},
      {"of one sign", [](std::mt19937&, float x) { return std::fabs(x); }, 8, 1.5},
      {"graded",
       [](std::mt19937& random, float x) {
         return std::ldexp(x, static_cast<int>(random() % 40) - 20);
       },
       3.5, 1.5},
      {"near the smallest", [](std::mt19937&, float x) { return x; }, any, any, -122}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> left(m * depth), right(depth * n);
    for (float& x : left) x = std::ldexp(c.of(random, normal(random)), c.left_exponent);
    for (float& x : right) x = c.of(random, normal(random));
    const std::vector<float> out = multiply(runtime(), left, right, m, depth, n);
    double most = 0, all = 0;
    for (size_t i = 0; i < m; ++i)
      for (size_t j = 0; j < n; ++j) {
        double sum = 0, size = 0, operands = 0;
        for (size_t k = 0; k < depth; ++k) {
          const double x = double{left[i * depth + k]}, y = double{right[k * n + j]};
          sum += x * y;
          size += std::fabs(x * y);
          operands += std::fabs(x) + std::fabs(y);
        }
        const double error = std::fabs(out[i * n + j] - sum);
        EXPECT_LE(error, (35 + (depth + 383) / 384) * 0x1p-24 * size + 0x1p-134 * operands +
                             (depth + 12) * 0x1p-149);
        most = std::max(most, error / (0x1p-24 * size));
        all += error / (0x1p-24 * size);
      }
    EXPECT_LE(most, c.most);
    EXPECT_LE(all / (m * n), c.mean);
    EXPECT_GT(most, 0);
  }
}

// Where terms or sums of them are not finite, the chain of multiply-adds says what the result is.
TEST_F(CudaDevice, TermsLeaveToChainsWhatTheyCannotHold) {
  constexpr int64_t m = 6, depth = 400, n = 3;
  const float infinity = std::numeric_limits<float>::infinity();
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> left(m * depth), right(depth * n);
  for (float& x : left) x = normal(random);
  for (float& x : right) x = normal(random) / 4;
  left[0 * depth + 3] = infinity;
  left[1 * depth + 399] = std::numeric_limits<float>::max();  // its first term rounds to infinity
  left[1 * depth + 17] = -std::numeric_limits<float>::max();
  left[2 * depth + 5] = infinity, left[2 * depth + 390] = -infinity;
  left[3 * depth + 8] = std::nanf("");
  left[4 * depth + 8] = 0x1p127f, left[4 * depth + 9] = 0x1p127f;  // overflow, and back again
  right[8 * n + 0] = right[9 * n + 0] = 2, right[8 * n + 1] = 2, right[9 * n + 1] = -2;
  const std::vector<float> out = multiply(runtime(), left, right, m, depth, n);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float sum = 0;
      double exact = 0, size = 0;
      for (size_t begin = 0; begin < depth; begin += 384) {
        float chain = 0;
        for (size_t k = begin; k < std::min<size_t>(begin + 384, depth); ++k) {
          const float x = left[i * depth + k], y = right[k * n + j];
          chain = std::fma(x, y, chain);
          exact += double{x} * double{y};
          size += std::fabs(double{x} * double{y});
        }
        sum = begin == 0 ? chain : sum + chain;
      }
      SCOPED_TRACE(fmt::format("{} {}", i, j));
      const float got = out[i * n + j];
      if (i == 5)
        EXPECT_LE(std::fabs(got - exact), 2 * 0x1p-24 * size);
      else if (i == 4 && j > 0)  // the chain may overflow on the way to a number
        EXPECT_FALSE(std::isnan(got));
      else if (std::isnan(sum))
        EXPECT_TRUE(std::isnan(got));
      else
        EXPECT_EQ(got, sum);
    }
  EXPECT_EQ(std::fabs(out[0]), infinity);
  EXPECT_TRUE(std::isfinite(out[1 * n]));
  EXPECT_EQ(out[4 * n], infinity);
}

// Where tiles are fewer than a device's CTAs, k goes to several of them, and a second kernel adds
// their sums up: in an order of its own, always the same.
TEST_F(CudaBackend, ProductsOfFewTilesAreCutIntoParts) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const char* rows : {"s0", "2", "9"}) {
    SCOPED_TRACE(rows);
    const int64_t m = rows[0] == 's' ? 9 : std::atoi(rows), depth = 1000, n = 40;
    std::vector<float> left(static_cast<size_t>(m * depth)), right(static_cast<size_t>(depth * n)),
        out(static_cast<size_t>(m * n));
    for (auto* factor : {&left, &right})
      for (float& x : *factor) x = normal(random);
    const auto bytes = [](std::vector<float>& v) { return std::as_writable_bytes(std::span(v)); };
    const Bytes buffers[] = {bytes(left), bytes(right), bytes(out)};
    auto launches = [&](int64_t k, bool reproducible) {
      const int64_t before = counted("launches");
      std::ranges::fill(out, -1.0f);
      run_program(runtime(), float_product("f32", false, true, rows, reproducible), buffers,
                  std::array{m, k, n});
      return counted("launches") - before;
    };
    EXPECT_EQ(launches(200, false), 1);
    EXPECT_EQ(launches(depth, true), 1);
    const std::vector<float> chains = out;
    EXPECT_EQ(launches(depth, false), 2);
    const std::vector<float> first = out;
    for (size_t e = 0; e < out.size(); ++e) EXPECT_NEAR(out[e], chains[e], 1e-4);
    runtime().device()->wait(nullptr);
    const int64_t blocks = counted("blocks");
    for (int again = 0; again < 3; ++again) {
      EXPECT_EQ(launches(depth, false), 2);
      EXPECT_EQ(out, first);
    }
    runtime().device()->wait(nullptr);
    EXPECT_EQ(counted("blocks"), blocks);
    left[5] = std::numeric_limits<float>::infinity();  // parts that are not finite: a chain says
    EXPECT_EQ(launches(depth, true), 1);
    const std::vector<float> special(out.begin(), out.begin() + n);
    EXPECT_EQ(launches(depth, false), 2);
    EXPECT_EQ(std::vector<float>(out.begin(), out.begin() + n), special);
  }
}

// Many tiles keep the device busy without parts.
TEST_F(CudaBackend, PartsOfProductsMakeAsManyCtasAsAreOfUse) {
  const Expr parts = cuda::compile(float_product("bf16", false, false)).facts.parts;
  auto of = [&](int64_t m, int64_t depth, int64_t n) {
    return parts.eval(std::array{m, depth, n});
  };
  EXPECT_EQ(of(128, 4096, 128), 16);         // of 256 values of k
  EXPECT_EQ(of(128, 1 << 20, 128 * 4), 32);  // of 128 CTAs
  EXPECT_EQ(of(128 * 8, 4096, 128 * 8), 2);
  EXPECT_EQ(of(128 * 8, 4096, 128 * 8 + 1), 1);
  EXPECT_EQ(of(0, 4096, 128), 16);
  EXPECT_EQ(of(128, 0, 128), 1);
}

TEST_F(CudaBackend, KernelsUseTheInstructionsThatTheyAreMadeFor) {
  auto has = [&](const atlas::Program& p, const char* text) {
    return runtime().backend().dump(p, "asm")->find(text) != std::string::npos;
  };
  for (const char* type : {"bf16", "f16"}) {
    const atlas::Program p = float_product(type, false, false);
    EXPECT_TRUE(has(p, "mma.sync.aligned.m16n8k16.row.col.f32"));
    EXPECT_TRUE(has(p, "ldmatrix.sync.aligned.m8n8.x4.shared.b16"));
    EXPECT_TRUE(has(p, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"));
    EXPECT_TRUE(has(p, "ld.global.v4"));
  }
  const atlas::Program single = float_product("f32", false, true);
  for (const char* text : {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16", "cvt.rn.bf16x2.f32",
                           "ld.global.v4.f32", "st.shared.v4"})
    EXPECT_TRUE(has(single, text)) << text;
  EXPECT_FALSE(has(float_product("f32", false, true, "s0", true), "mma.sync"));
  EXPECT_TRUE(has(byte_product("i8", "i8"), "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"));
  EXPECT_TRUE(has(byte_product("u8", "i8"), "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32"));
  const atlas::Program few = float_product("bf16", false, true, "2");
  EXPECT_FALSE(has(few, "mma.sync"));  // memory sets the pace: each lane reads its own columns
  EXPECT_TRUE(has(few, "ld.global.v4") && has(few, "shfl.sync.bfly"));
  EXPECT_TRUE(has(float_product("bf16", false, false, "2"), "mma.sync"));
  EXPECT_FALSE(has(float_product("f32", false, true, "2"), "mma.sync"));
  const atlas::Program thin = float_product("bf16", false, true, "16");
  EXPECT_TRUE(has(thin, "mma.sync") && has(thin, "ld.global.v4"));
  EXPECT_FALSE(has(thin, "ldmatrix"));  // registers get the factors from global memory
  const atlas::Program sum = elementwise(Op::add, DType::f32, 2, DType::f32);
  EXPECT_TRUE(has(sum, "ld.global.v4.f32") && has(sum, "st.global.v4.f32"));
  EXPECT_TRUE(has(elementwise(Op::add, DType::f64, 2, DType::f64), "ld.global.v2.f64"));
}

// Two CTAs of 256 threads fit on a multiprocessor with up to 128 registers a thread, of 128 threads
// three with up to 168 and two with as many as there are.
TEST_F(CudaBackend, ProductsKeepTheirSumsInRegisters) {
  if (ptxas().empty()) GTEST_SKIP() << "no ptxas: PyPI's nvidia-cuda-nvcc has one";
  const std::tuple<const char*, const char*, bool, int> cases[] = {
      {"bf16", "s0", false, 128}, {"f32", "s0", true, 128}, {"f32", "s0", false, 255},
      {"bf16", "2", false, 168},  {"f32", "2", false, 168}, {"bf16", "16", false, 168},
      {"f32", "16", false, 168}};
  for (const auto& [type, rows, reproducible, most] : cases)
    for (const char* gpu : {"sm_80", "sm_90a"}) {
      SCOPED_TRACE(fmt::format("{} {} {} {}", type, rows, reproducible, gpu));
      const atlas::Program p = float_product(type, false, true, rows, reproducible);
      const std::string text = *runtime().backend().dump(p, "asm");
      expect_registers(assembled(text, gpu), gpu == std::string_view("sm_80") ? most : 255);
    }
  for (const char* gpu : {"sm_80", "sm_90a"}) {
    SCOPED_TRACE(gpu);
    expect_registers(assembled(*runtime().backend().dump(byte_product("u8", "i8"), "asm"), gpu),
                     255);
  }
}

}  // namespace
}  // namespace hologram::test
