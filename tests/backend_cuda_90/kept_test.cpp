// tests/backend_cuda_90/kept_test.cpp: weights of float32 products that are kept as bfloat16 terms
#include "backend/cuda/machine.h"
#include "backend_cuda/cuda_test.h"
#include "runtime/results.h"

namespace hologram::test {
namespace {

using ir::Op;
using ir::Value;
using runtime::Executable;
using runtime::Kept;

// x * w, or x * w^T; behind it once more by a second weight of n x n, if there is one.
class CudaKeptDevice : public CudaDevice90 {
 protected:
  static constexpr int64_t m = 136, depth = 132, n = 140;

  void SetUp() override {
    CudaDevice90::SetUp();
    if (!small_device()) GTEST_SKIP() << "sizes of four multiprocessors";
    if (IsSkipped()) return;
    runtime_ = std::make_shared<Runtime>("cuda");
    random_.seed(7);
    x_ = numbers(m * depth), w_ = numbers(depth * n), second_ = numbers(n * n);
  }
  std::vector<float> numbers(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> out(static_cast<size_t>(count));
    for (float& v : out) v = normal(random_);
    return out;
  }
  std::shared_ptr<Executable> compile(bool fixed, bool turned = false, bool twice = false) {
    ir::Graph g;
    auto parameter = [&](int number, const Shape& shape) { return g.parameter(number, DType::f32, shape, contiguous_strides(shape)); };
    auto dot = [&](Value a, Value b) { return g.make(Op::dot_general, {a, b}, {.ints = {0}}); };
    Value x = parameter(0, {m, depth});
    Value w = turned ? g.permute(parameter(1, {n, depth}), {1, 0}) : parameter(1, {depth, n});
    Value y = dot(x, w);
    if (twice) y = dot(y, parameter(2, {n, n}));
    g.outputs.push_back({y, contiguous_strides(y->shape), -1});
    return Executable::compile(g, {.static_parameters = {false, fixed, fixed}, .graphs = twice}, runtime_);
  }
  // The result, and how many kernels ran.
  std::pair<std::vector<float>, int64_t> call(Executable& e, Kept* kept = nullptr) {
    runtime::Results<float> out;
    const int64_t launches = counted("launches");
    EXPECT_EQ(runtime::call(e, {x_.data(), w_.data(), second_.data()}, {}, out, nullptr, kept).status, 0);
    return {out.data[0], counted("launches") - launches};
  }

  std::shared_ptr<Runtime> runtime_;
  std::mt19937 random_;
  std::vector<float> x_, w_, second_;
};

TEST_F(CudaKeptDevice, GiveTheBitsOfTermsThatEachCallComputes) {
  for (const bool turned : {false, true}) {
    const auto fixed = compile(true, turned), fresh = compile(false, turned);
    const auto [wanted, launches] = call(*fresh);
    EXPECT_EQ(launches, 2);  // the terms, the product
    Kept kept;
    EXPECT_EQ(call(*fixed, &kept), std::pair(wanted, int64_t{2}));
    ASSERT_EQ(kept.size(), 1u);
    if (turned) continue;
    w_ = numbers(depth * n);
    EXPECT_EQ(call(*fixed, &kept), std::pair(wanted, int64_t{1}));  // not told of it
    kept.set(0, nullptr);
    EXPECT_EQ(call(*fixed, &kept), std::pair(call(*fresh).first, int64_t{2}));
    EXPECT_TRUE(fresh->plan().cache.empty());
  }
}

TEST_F(CudaKeptDevice, LeaveTheirKernelNothingToSplit) {
  const auto fixed = compile(true);
  int products = 0;
  for (const atlas::Program& p : fixed->plan().programs) {
    if (p.kind() != atlas::BlockKind::product) continue;
    ++products;
    EXPECT_EQ(p.buffers.size(), 3u);  // the weight itself is not read
    const cuda::Stored made = cuda::compile(p, 90);
    ASSERT_TRUE(made.facts.wide);
    EXPECT_FALSE(made.facts.wide->computed());
    EXPECT_EQ(made.code.find("hologram_split"), made.code.npos);
    expect_assembles(made.code, 255);
  }
  EXPECT_EQ(products, 1);
}

// The sum of three numbers that are not each other's rests, as a graph may have it.
TEST(CudaKept, OtherSumsAreNoTerms) {
  std::string text = R"(atlas block 1
symbols 1
buffer b0 f32 read [64*s0]
buffer b1 bf16 read [24576]
buffer b2 f32 write [128*s0]
product batch 0 operand f32 acc f32 precision 0
axis i0 parallel [s0]
axis i1 parallel [128]
axis i2 row [64]
lhs
  %0 = load.f32 b0[i2 + 64*i0]
rhs
  %0 = load.bf16 b1[i2 + 64*i1 + 16384]
  %1 = cast.f32.bf16 %0
  %2 = load.bf16 b1[i2 + 64*i1 + 8192]
  %3 = cast.f32.bf16 %2
  %4 = add.f32 %1, %3
  %5 = load.bf16 b1[i2 + 64*i1]
  %6 = cast.f32.bf16 %5
  %7 = add.f32 %4, %6
epilogue
  %0 = accumulator.f32 a0
  store.f32 b2[i1 + 128*i0], %0
)";
  EXPECT_TRUE(cuda::compile(atlas::assemble(text), 90).facts.wide->computed());
  text.replace(text.find("%7 = add.f32 %4, %6"), 19, "%7 = neg.f32 %6\n  %8 = neg.f32 %7\n  %9 = add.f32 %4, %8");
  EXPECT_FALSE(cuda::compile(atlas::assemble(text), 90).facts.wide->computed());
}

TEST_F(CudaKeptDevice, HoldEveryNumber) {
  const float infinity = std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::max();
  const float special[] = {infinity,  -infinity,  std::nanf(""), most, -most, 3.3961776e38f,
                           0x1p-126f, -0x1p-130f, 0x1p-133f,     0.0f, 1.0f,  0x1.fffffep0f};
  std::ranges::fill(x_, 0.0f);
  std::ranges::fill(w_, 0.0f);
  for (int64_t j = 0; j < n; ++j)  // each result is one number of the weight
    w_[static_cast<size_t>(j % depth * n + j)] = special[static_cast<size_t>(j) % std::size(special)];
  for (int64_t i = 0; i < depth; ++i) x_[static_cast<size_t>(i * depth + i)] = 1;
  Kept kept;
  const std::vector<float> out = call(*compile(true), &kept).first;
  for (int64_t j = 0; j < n; ++j) {
    const int64_t i = j % depth;
    const float wanted = special[static_cast<size_t>(j) % std::size(special)];
    const float got = out[static_cast<size_t>(i * n + j)];
    if (std::isnan(wanted))
      EXPECT_TRUE(std::isnan(got)) << j;
    else
      EXPECT_EQ(got, wanted) << j;
  }
}

// What is kept does not part launches that one graph holds, unless it is computed.
TEST_F(CudaKeptDevice, StayBesideGraphs) {
  const auto fixed = compile(true, false, true), fresh = compile(false, false, true);
  const std::vector<float> wanted = call(*fresh).first;
  Kept kept;
  const Counted graphs("graphs");
  EXPECT_EQ(call(*fixed, &kept), std::pair(wanted, int64_t{4}));
  ASSERT_EQ(kept.size(), 2u);
  graphs.expect(0);
  for (int again = 0; again < 2; ++again) EXPECT_EQ(call(*fixed, &kept), std::pair(wanted, int64_t{2}));
  graphs.expect(2);
  kept.set(1, nullptr);
  EXPECT_EQ(call(*fixed, &kept), std::pair(wanted, int64_t{3}));
  graphs.expect(2);
}

}  // namespace
}  // namespace hologram::test
