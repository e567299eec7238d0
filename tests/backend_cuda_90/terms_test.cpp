// tests/backend_cuda_90/terms_test.cpp: float32 products by warpgroups
#include <bit>
#include <cmath>
#include <random>

#include "backend/cuda/maps.h"
#include "backend_cuda/factors.h"

namespace hologram::test {
namespace {

class CudaWideTerms : public CudaBackend {
 protected:
  void SetUp() override {
    CudaBackend::SetUp();
    inject("capability", 90);
  }
};

// On a GPU too.
using CudaWideTermsDevice = CudaDevice90;

Bytes bytes_of(std::vector<float>& v) { return std::as_writable_bytes(std::span(v)); }

TEST_F(CudaWideTermsDevice, MultiplyIntegersExactly) {
  for (const bool left : {false, true})
    for (const bool right : {false, true}) expect_exact(runtime(), {"f32", {left, right}, 136, 136, 136, 2});
  // More steps than a block of sums and the slots have; ends that are no multiples of eight.
  expect_exact(runtime(), {"f32", {false, false}, 133, 436, 131, 2});
}

TEST_F(CudaWideTermsDevice, SizesAndStridesDecideWhichKernelRuns) {
  expect_exact(runtime(), {"f32", {false, false}, 136, 70, 136});  // rows of 280 bytes
  expect_exact(runtime(), {"f32", {true, false}, 70, 70, 136});
  expect_exact(runtime(), {"f32", {true, false}, 72, 64, 136});    // too few rows to split the right factor for
  expect_exact(runtime(), {"f32", {false, false}, 130, 32, 136});  // few steps
  expect_exact(runtime(), {"f32", {false, true}, 130, 64, 130, 2});
}

TEST_F(CudaWideTermsDevice, StayWithinTheirBound) {
  for (const TermErrors& c :
       {TermErrors{"normal", as_drawn, 1.5, 0.2}, TermErrors{"of one sign", of_one_sign, 8, 1.5}, TermErrors{"graded", graded, 7, 1.5},
        TermErrors{"near the smallest", as_drawn, any_error, any_error, 0, -122}})
    expect_term_errors(runtime(), {"f32", {false, false}, 132, 420, 100, 2}, c);
}

// Where terms or sums of them are not finite, the chain of multiply-adds says what the result is.
TEST_F(CudaWideTermsDevice, LeaveToChainsWhatTheyCannotHold) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  Factors f{"f32", {false, false}, 129, 400, 72, 2};
  f.fill([&] { return normal(random) / 2; });
  f.x(0, 3) = infinity;
  f.x(1, 399) = std::numeric_limits<float>::max();  // its first term is infinite
  f.x(70, 17) = -std::numeric_limits<float>::max();
  f.x(128, 5) = infinity, f.x(128, 390) = -infinity;
  f.y(8, 71) = std::nanf("");
  f.y(9, 3) = -infinity;
  const std::vector<float> out = f.run(runtime());
  int64_t special = 0;
  for (int64_t i = 0; i < f.m; ++i)
    for (int64_t j = 0; j < f.n; ++j) {
      const float sum = f.chain(i, j);
      const float got = out[static_cast<size_t>(i * f.n + j)];
      const bool chained = i < 2 || i == 70 || i == 128 || j == 71 || j == 3;
      special += chained;
      if (std::isnan(sum))
        EXPECT_TRUE(std::isnan(got)) << i << " " << j;
      else if (chained)
        EXPECT_EQ(got, sum) << i << " " << j;
      else
        EXPECT_NEAR(got, sum, 1e-4);
    }
  EXPECT_EQ(special, 4 * 72 + 2 * 125);
}

// |x * (y * scale) + bias| of two by three x; y is one for each of the two.
const char* const prepared = R"(atlas block 1
symbols 3
buffer b0 f32 read [6*s0*s1]
buffer b1 f32 read [2*s1*s2]
buffer b2 f32 read [s1]
buffer b3 f32 read [s2]
buffer b4 f32 write [6*s0*s2]
product batch 2 operand f32 acc f32 precision 0
axis i0 parallel [2]
axis i1 parallel [3]
axis i2 parallel [s0]
axis i3 parallel [s2]
axis i4 row [s1]
lhs
  %0 = load.f32 b0[i4 + s1*i2 + s0*s1*i1 + 3*s0*s1*i0]
rhs
  %0 = load.f32 b1[i3 + s2*i4 + s1*s2*i0]
  %1 = load.f32 b2[i4]
  %2 = mul.f32 %0, %1
epilogue
  %0 = accumulator.f32 a0
  %1 = load.f32 b3[i3]
  %2 = add.f32 %0, %1
  %3 = abs.f32 %2
  store.f32 b4[i3 + s2*i2 + s0*s2*i1 + 3*s0*s2*i0], %3
)";

// What is computed of the right factor is computed once, where it is split.
TEST_F(CudaWideTermsDevice, PrepareTheRightFactorOfBatches) {
  constexpr int64_t m = 72, depth = 68, n = 60;
  std::vector<float> x(6 * m * depth), y(2 * depth * n), scale(depth), bias(n), out(6 * m * n, -1);
  auto fill = [](std::vector<float>& v, int64_t factor, int64_t modulus) {
    for (size_t e = 0; e < v.size(); ++e) v[e] = static_cast<float>((factor * static_cast<int64_t>(e)) % modulus - modulus / 2);
  };
  fill(x, 61, 401), fill(y, 37, 97), fill(scale, 5, 9), fill(bias, 7, 1001);
  const Bytes buffers[] = {bytes_of(x), bytes_of(y), bytes_of(scale), bytes_of(bias), bytes_of(out)};
  const Counted maps("maps"), launches("launches");
  run_program(runtime(), atlas::assemble(prepared), buffers, std::array{m, depth, n});
  maps.expect(2);
  launches.expect(2);
  for (int64_t b = 0; b < 6; ++b)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = double{bias[static_cast<size_t>(j)]};
        for (int64_t k = 0; k < depth; ++k)
          sum += double{x[static_cast<size_t>((b * m + i) * depth + k)]} * double{y[static_cast<size_t>((b / 3 * depth + k) * n + j)]} *
                 double{scale[static_cast<size_t>(k)]};
        ASSERT_EQ(out[static_cast<size_t>((b * m + i) * n + j)], std::fabs(sum)) << b << " " << i << " " << j;
      }
}

// Of an H100, which has 132 multiprocessors.
TEST_F(CudaWideTerms, AreExpectedToBeFasterForLargeSizes) {
  const cuda::WideFacts single = *cuda::compile(float_product("f32", false, true), 90).facts.wide;
  const cuda::WideFacts half = *cuda::compile(float_product("bf16", false, true), 90).facts.wide;
  auto grid = [](const cuda::WideFacts& facts, int64_t m, int64_t depth, int64_t n) {
    return cuda::wide_grid(facts, std::array{m, depth, n}, 132);
  };
  const auto large = grid(single, 4096, 4096, 4096);
  ASSERT_TRUE(large);
  EXPECT_EQ(large->tiles, 1024);
  EXPECT_EQ(large->ctas, 132);
  EXPECT_EQ(large->pieces, 4096 * 4096 / 8);
  EXPECT_EQ(large->workspace, size_t{6} * 4096 * 4096);
  EXPECT_TRUE(grid(single, 1024, 1024, 1024));
  EXPECT_FALSE(grid(single, 896, 1008, 896));    // 49 tiles
  EXPECT_FALSE(grid(single, 128, 4096, 16384));  // splitting takes longer than the product
  EXPECT_TRUE(grid(single, 256, 4096, 16384));
  EXPECT_FALSE(grid(single, 8192, 16384, 16384));  // more than 1 GiB of terms
  EXPECT_TRUE(grid(half, 4096, 4096, 4096));
  EXPECT_EQ(grid(half, 4096, 4096, 4096)->workspace, 0u);
  EXPECT_FALSE(grid(half, 1024, 1024, 1024));
}

TEST_F(CudaWideTerms, FactsAreStored) {
  const cuda::Stored made = cuda::compile(atlas::assemble(prepared), 90);
  ASSERT_TRUE(made.facts.wide);
  const std::string text = cuda::to_text(made);
  EXPECT_EQ(cuda::to_text(cuda::from_text(text, 3)), text);
  for (const auto& [what, by] : {std::pair{"|-1|bf16|", "|-2|bf16|"}, {"|f32|", "|f64|"}}) {
    std::string changed = text;
    const size_t at = changed.find(what);
    ASSERT_LT(at, changed.find('\n')) << what;
    changed.replace(at, std::string_view(what).size(), by);
    EXPECT_THROW(cuda::from_text(changed, 3), Error) << by;
  }
}

// x * (y * scale) of bfloat16 x; y are bytes, as weights of eight bits are.
const char* const weighted = R"(atlas block 1
symbols 3
buffer b0 bf16 read [s0*s1]
buffer b1 i8 read [s2*s1]
buffer b2 f32 read [s2]
buffer b3 f32 write [s0*s2]
product batch 0 operand bf16 acc f32 precision 0
axis i0 parallel [s0]
axis i1 parallel [s2]
axis i2 row [s1]
lhs
  %0 = load.bf16 b0[i2 + s1*i0]
rhs
  %0 = load.i8 b1[i2 + s1*i1]
  %1 = cast.f32.i8 %0
  %2 = load.f32 b2[i1]
  %3 = mul.f32 %1, %2
  %4 = cast.bf16.f32 %3
epilogue
  %0 = accumulator.f32 a0
  store.f32 b3[i1 + s2*i0], %0
)";

// Of 16-bit floats a right factor that is computed comes by a single plane.
TEST_F(CudaWideTermsDevice, OfSixteenBitsComputeTheRightFactorFirst) {
  constexpr int64_t m = 520, depth = 132, n = 137;
  std::vector<uint16_t> x(m * depth);
  std::vector<int8_t> y(n * depth);
  std::vector<float> scale(n), out(m * n, -1);
  auto small = [](int64_t e) { return static_cast<float>(7 * e % 9 - 4); };
  auto half = [](float v) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(v) >> 16); };
  for (size_t e = 0; e < x.size(); ++e) x[e] = half(small(static_cast<int64_t>(e)));
  for (size_t e = 0; e < y.size(); ++e) y[e] = static_cast<int8_t>(11 * e % 15) - 7;
  for (size_t e = 0; e < scale.size(); ++e) scale[e] = e % 2 ? 0.5f : 2.0f;
  auto bytes = [](auto& v) { return std::as_writable_bytes(std::span(v)); };
  const Bytes buffers[] = {bytes(x), bytes(y), bytes(scale), bytes(out)};
  const Counted maps("maps"), launches("launches");
  // Rows of 132 bfloat16 are 264 bytes: the other kernel. Of 136 they are 272.
  run_program(runtime(), atlas::assemble(weighted), buffers, std::array{m, depth, n});
  maps.expect(0);
  for (const int64_t k_count : {depth, depth - 4}) {
    SCOPED_TRACE(k_count);
    std::ranges::fill(out, -1.0f);
    run_program(runtime(), atlas::assemble(weighted), buffers, std::array{m, k_count, n});
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (int64_t k = 0; k < k_count; ++k) sum += small(i * k_count + k) * static_cast<float>(y[static_cast<size_t>(j * k_count + k)]);
        ASSERT_EQ(out[static_cast<size_t>(i * n + j)], sum * scale[static_cast<size_t>(j)]) << i << " " << j;
      }
  }
  maps.expect(2);
  launches.expect(1 + 1 + 2);
  const std::string ptx = cuda::dump_ptx(atlas::assemble(weighted), 90);
  if (ptxas().empty()) return;
  const std::string words = assembled(ptx, "sm_90a");
  EXPECT_EQ(words.find("C75"), words.npos) << words;
  expect_registers(words, 255);
}

TEST_F(CudaWideTerms, AssembleWithoutSpills) {
  if (ptxas().empty()) GTEST_SKIP() << "no ptxas: PyPI's nvidia-cuda-nvcc has one";
  for (int layout = 0; layout < 4; ++layout) {
    SCOPED_TRACE(layout);
    const atlas::Program p = float_product("f32", (layout & 1) != 0, (layout & 2) != 0);
    const std::string ptx = cuda::dump_ptx(p, 90);
    auto has = [&](const std::string& entry, const char* what) {
      const size_t begin = ptx.find(".visible .entry " + entry + "(");
      const size_t end = ptx.find(".visible .entry", begin + 1);
      return begin != ptx.npos && ptx.substr(begin, end - begin).find(what) != ptx.npos;
    };
    EXPECT_TRUE(has("hologram_split", "ld.global.v4") && has("hologram_split", "st.global.v4"));
    EXPECT_EQ(has("hologram_wide", "ld.shared.v2.f32"), (layout & 1) == 0);
    EXPECT_NE(ptx.find("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"), ptx.npos);
    const std::string words = assembled(ptx, "sm_90a");
    EXPECT_EQ(words.find("C75"), words.npos) << words;
    expect_registers(words, 255);
  }
  const std::string words = assembled(cuda::dump_ptx(atlas::assemble(prepared), 90), "sm_90a");
  EXPECT_EQ(words.find("C75"), words.npos) << words;
  expect_registers(words, 255);
}

}  // namespace
}  // namespace hologram::test
