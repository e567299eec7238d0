// tests/atlas/interp_test.cpp: the orders of sums that are stated, and what the interpreter refuses; other backends tell its faults
#include "atlas/abi.h"
#include "atlas/programs.h"
#include "backend/interp/backend.h"
#include "base/error.h"
#include "support/refusal.h"
#include "support/test.h"

namespace hologram::test {
namespace {

std::vector<float> random_floats(size_t n, unsigned seed) {
  std::mt19937 gen(seed);
  std::normal_distribution<float> d;
  std::vector<float> v(n);
  for (float& x : v) x = d(gen);
  return v;
}

// The stated order, written out.
float reference_sum(const std::vector<float>& x) {
  std::vector<std::pair<int, float>> counter;
  for (size_t at = 0; at < x.size(); at += 4096) {
    float p[64] = {};
    for (size_t k = 0; k < 4096; ++k) p[k % 64] += at + k < x.size() ? x[at + k] : 0.0f;
    for (int half = 32; half; half /= 2)
      for (int k = 0; k < half; ++k) p[k] += p[k + half];
    float block = p[0];
    int level = 0;
    for (; !counter.empty() && counter.back().first == level; ++level) {
      block = counter.back().second + block;
      counter.pop_back();
    }
    counter.emplace_back(level, block);
  }
  if (counter.empty()) return 0;
  float sum = counter.back().second;
  for (size_t k = counter.size() - 1; k-- > 0;) sum = counter[k].second + sum;
  return sum;
}

class SumOrder : public testing::TestWithParam<int64_t> {};

TEST_P(SumOrder, IsTheStatedOne) {
  int64_t n = GetParam();
  std::vector<float> x = random_floats(static_cast<size_t>(n), 3);
  float out = -1;
  run(row_reduction(Op::reduce_sum, DType::f32), {x.data(), &out}, {1, n});
  EXPECT_EQ(std::bit_cast<uint32_t>(out), std::bit_cast<uint32_t>(reference_sum(x)));
}

INSTANTIATE_TEST_SUITE_P(Sizes, SumOrder,
                         testing::Values(0, 1, 2, 63, 64, 65, 4095, 4096, 4097, 8192, 12288, 3 * 4096 + 5, 7 * 4096 + 1, 100000));

TEST(Interp, TreeReductionIsTheCounterAlone) {
  std::vector<float> x = random_floats(7, 4);
  float out = 0;
  run(row_reduction(Op::reduce_sum, DType::f32, true), {x.data(), &out}, {1, 7});
  EXPECT_EQ(out, ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + x[6]));
}

TEST(Interp, ReductionsOfNothingGiveTheIdentity) {
  std::vector<std::pair<Op, float>> cases = {
      {Op::reduce_sum, 0.0f}, {Op::reduce_prod, 1.0f}, {Op::reduce_max, -INFINITY}, {Op::reduce_min, INFINITY}};
  for (auto [op, want] : cases) {
    float out = 42, none = 0;
    run(row_reduction(op, DType::f32), {&none, &out}, {1, 0});
    EXPECT_EQ(out, want) << ir::name_of(op);
  }
  int8_t least = 0, none = 0;
  run(row_reduction(Op::reduce_max, DType::i8), {&none, &least}, {1, 0});
  EXPECT_EQ(least, -128);
}

class ProductDepth : public testing::TestWithParam<int64_t> {};

TEST_P(ProductDepth, IsAChainOfFmaPerBlock) {
  int64_t B = 2, M = 3, N = 150, K = GetParam();
  auto at = [](int64_t k) { return static_cast<size_t>(k); };
  std::vector<float> x = random_floats(at(B * M * K), 1), y = random_floats(at(B * K * N), 2), out(at(B * M * N), -1);
  run(batched_product(DType::f32, DType::f32, DType::f32), {x.data(), y.data(), out.data()}, {B, M, N, K});
  for (int64_t b = 0; b < B; ++b)
    for (int64_t m = 0; m < M; ++m)
      for (int64_t n = 0; n < N; ++n) {
        float sum = 0;
        for (int64_t begin = 0; begin < K; begin += 384) {
          float chain = 0;
          for (int64_t k = begin; k < std::min(K, begin + 384); ++k)
            chain = std::fma(x[at((b * M + m) * K + k)], y[at((b * K + k) * N + n)], chain);
          sum = begin ? sum + chain : chain;
        }
        ASSERT_EQ(out[at((b * M + m) * N + n)], sum) << b << " " << m << " " << n;
      }
}

INSTANTIATE_TEST_SUITE_P(Depths, ProductDepth, testing::Values(0, 1, 7, 383, 384, 385, 900));

TEST(Interp, NamesTheAccessThatLeavesItsBuffer) {
  Program p = elementwise(Op::neg, DType::f32, 1, DType::f32);
  p.num_symbols = 2;
  p.buffers[0].extent = sym(1);
  std::vector<float> x(8), y(8);
  EXPECT_EQ(refusal([&] { run(p, {x.data(), y.data()}, {8, 7}); }, ErrorCode::internal), "interp: element 7 of buffer b0, which has 7");
}

// What is stored on disk must not hold a function as some version of the library computed it.
TEST(Interp, StoresProgramsBeforeTheirFunctionsAreTakenApart) {
  Program p = elementwise(Op::gelu, DType::f32, 1, DType::f32);
  EXPECT_EQ(atlas::decode(interp::make_backend()->compile(p)), p);
}

}  // namespace
}  // namespace hologram::test
