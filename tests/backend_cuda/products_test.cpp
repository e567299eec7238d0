// tests/backend_cuda/products_test.cpp: products on tensor cores, by terms, in parts
#include <bit>
#include <cmath>
#include <random>

#include "backend_cuda/factors.h"

namespace hologram::test {
namespace {

// Of floats by terms, of 16 bits by tensor cores alone; few rows have kernels of their own where they are known.
TEST_F(CudaDevice, ProductsOfIntegersAreExact) {
  const std::array<int64_t, 3> shapes[] = {{1, 1, 1},      {3, 0, 5},     {16, 16, 8},  {130, 40, 72}, {5, 33, 200},
                                           {257, 64, 129}, {1, 700, 37},  {2, 256, 64}, {3, 264, 9},   {4, 31, 17},
                                           {3, 800, 7},    {16, 40, 130}, {11, 900, 70}};
  for (const char* type : {"bf16", "f16", "f32"})
    for (const bool left : {false, true})
      for (const bool right : {false, true})
        for (const auto& [m, depth, n] : shapes) {
          if (type[1] == '3' ? m > 16 : depth > 700) continue;
          if ((left || !right) && m % 2 == 1) continue;  // of these layouts every second shape or so
          expect_exact(runtime(), {type, {left, right}, m, depth, n});
          if (!left && right && m <= 16) expect_exact(runtime(), {type, {left, right}, m, depth, n, 0, std::to_string(m)});
        }
}

TEST_F(CudaDevice, TensorCoresMultiplyBytes) {
  for (const char* left : {"i8", "u8"})
    for (const char* right : {"i8", "u8"})
      for (const auto& sizes : std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {3, 0, 5}, {17, 65, 9}, {130, 40, 72}, {5, 1333, 20}})
        expect_byte_product(runtime(), left, right, sizes);
}

// docs/numerics.md: what tensor cores cut off.
TEST_F(CudaDevice, TensorCoresStayWithinTheirBound) {
  constexpr int64_t m = 20, depth = 512, n = 24;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const bool one_sign : {false, true}) {
    Factors f{"bf16", {false, false}, m, depth, n};
    f.fill([&] {
      const float y = one_sign ? std::fabs(normal(random)) : normal(random);
      return std::bit_cast<float>(std::bit_cast<uint32_t>(y) & 0xffff0000u);
    });
    const std::vector<float> out = f.run(runtime());
    const Factors::Sums sums = f.sums();
    bool exact = true;
    for (size_t e = 0; e < out.size(); ++e) {
      EXPECT_LE(std::fabs(out[e] - sums.value[e]), 11 * (depth / 16) * 0x1p-24 * sums.size[e]);
      exact = exact && out[e] == static_cast<float>(sums.value[e]);
    }
    EXPECT_FALSE(exact);
  }
}

TEST_F(CudaDevice, TensorCoresKeepInfinityAndNan) {
  constexpr int64_t m = 4, depth = 20, n = 3;
  const float infinity = std::numeric_limits<float>::infinity();
  Factors f{"bf16", {false, false}, m, depth, n};
  f.fill([] { return 1.0f; });
  std::ranges::fill(f.right, 2.0f);
  f.x(0, 3) = infinity, f.x(1, 19) = -infinity;
  f.x(2, 5) = infinity, f.x(2, 18) = -infinity;
  f.y(7, 2) = std::nanf("");
  const std::vector<float> out = f.run(runtime());
  for (size_t j = 0; j < 2; ++j) {
    EXPECT_EQ(out[0 * n + j], infinity);
    EXPECT_EQ(out[1 * n + j], -infinity);
    EXPECT_TRUE(std::isnan(out[2 * n + j]));
    EXPECT_EQ(out[3 * n + j], 40);
  }
  for (size_t i = 0; i < m; ++i) EXPECT_TRUE(std::isnan(out[i * n + 2]));
}

TEST_F(CudaDevice, TermsStayWithinTheirBound) {
  for (const TermErrors& c :
       {TermErrors{"normal", as_drawn, 1.5, 0.2}, TermErrors{"of one sign", of_one_sign, 8, 1.5}, TermErrors{"graded", graded, 3.5, 1.5},
        TermErrors{"near the smallest", as_drawn, any_error, any_error, 0, -122}})
    expect_term_errors(runtime(), {"f32", {false, false}, 20, 1100, 24}, c);
}

// Where tiles are fewer than a device's CTAs, k goes to several of them, and a second kernel adds
// their sums up: in an order of its own, always the same.
TEST_F(CudaBackend, ProductsOfFewTilesAreCutIntoParts) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const char* rows : {"s0", "2", "9"}) {
    Factors f{"f32", {false, true}, rows[0] == 's' ? 9 : std::atoi(rows), 1000, 40, 0, rows};
    f.fill([&] { return normal(random); });
    auto run = [&](bool reproducible) {
      f.reproducible = reproducible;
      const Counted launches("launches");
      std::vector<float> out = f.run(runtime());
      launches.expect(reproducible ? 1 : 2);
      return out;
    };
    const std::vector<float> chains = run(true), first = run(false);
    for (size_t e = 0; e < first.size(); ++e) EXPECT_NEAR(first[e], chains[e], 1e-4);
    runtime().device()->wait(nullptr);
    const Counted blocks("blocks");
    for (int again = 0; again < 3; ++again) EXPECT_EQ(run(false), first);
    runtime().device()->wait(nullptr);
    blocks.expect(0);
    f.x(0, 5) = std::numeric_limits<float>::infinity();  // parts that are not finite: a chain says
    const std::vector<float> special = run(true), got = run(false);
    EXPECT_TRUE(std::equal(got.begin(), got.begin() + f.n, special.begin()));
  }
}

// Many tiles keep the device busy without parts.
TEST_F(CudaBackend, PartsOfProductsMakeAsManyCtasAsAreOfUse) {
  const Expr parts = cuda::compile(float_product("bf16", false, false)).facts.parts;
  auto of = [&](int64_t m, int64_t depth, int64_t n) { return parts.eval(std::array{m, depth, n}); };
  EXPECT_EQ(of(128, 4096, 128), 16);         // of 256 values of k
  EXPECT_EQ(of(128, 1 << 20, 128 * 4), 32);  // of 128 CTAs
  EXPECT_EQ(of(128 * 8, 4096, 128 * 8), 2);
  EXPECT_EQ(of(128 * 8, 4096, 128 * 8 + 1), 1);
  EXPECT_EQ(of(0, 4096, 128), 16);
  EXPECT_EQ(of(128, 0, 128), 1);
}

TEST_F(CudaBackend, KernelsUseTheInstructionsThatTheyAreMadeFor) {
  auto has = [&](const atlas::Program& p, const char* text) { return runtime().backend().dump(p, "asm")->find(text) != std::string::npos; };
  for (const char* type : {"bf16", "f16"}) {
    const atlas::Program p = float_product(type, false, false);
    EXPECT_TRUE(has(p, "mma.sync.aligned.m16n8k16.row.col.f32"));
    EXPECT_TRUE(has(p, "ldmatrix.sync.aligned.m8n8.x4.shared.b16"));
    EXPECT_TRUE(has(p, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"));
    EXPECT_TRUE(has(p, "ld.global.v4"));
  }
  const atlas::Program single = float_product("f32", false, true);
  for (const char* text : {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16", "cvt.rn.bf16x2.f32", "ld.global.v4.f32", "st.shared.v4"})
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
      {"bf16", "s0", false, 128}, {"f32", "s0", true, 128},   {"f32", "s0", false, 255}, {"bf16", "2", false, 168},
      {"f32", "2", false, 168},   {"bf16", "16", false, 168}, {"f32", "16", false, 168}};
  for (const auto& [type, rows, reproducible, most] : cases)
    for (const char* gpu : {"sm_80", "sm_90a"}) {
      if (rows[0] != 's' && gpu != std::string_view("sm_80")) continue;
      SCOPED_TRACE(fmt::format("{} {} {} {}", type, rows, reproducible, gpu));
      const atlas::Program p = float_product(type, false, true, rows, reproducible);
      const std::string text = *runtime().backend().dump(p, "asm");
      expect_registers(assembled(text, gpu), gpu == std::string_view("sm_80") ? most : 255);
    }
  for (const char* gpu : {"sm_80", "sm_90a"}) {
    SCOPED_TRACE(gpu);
    expect_registers(assembled(*runtime().backend().dump(byte_product("u8", "i8"), "asm"), gpu), 255);
  }
}

}  // namespace
}  // namespace hologram::test
