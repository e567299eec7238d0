// tests/backend_cuda_90/parts_test.cpp: products by warpgroups whose few tiles are cut along k
#include <bit>
#include <cmath>
#include <random>

#include "backend/cuda/maps.h"
#include "backend_cuda/factors.h"

namespace hologram::test {
namespace {

using CudaWideParts = CudaBackend90;
using CudaWidePartsDevice = CudaDevice90;  // on a GPU too; the sizes are those of four multiprocessors

// By the wide kernel, and by one that adds up parts.
std::vector<float> run_cut(Runtime& runtime, const Factors& f, int64_t parts = 2) {
  SCOPED_TRACE(f.text());
  const auto grid = cuda::wide_grid(*cuda::compile(f.program(), 90).facts.wide, std::array{f.m, f.depth, f.n}, 4);
  EXPECT_TRUE(grid && grid->parts == parts) << (grid ? grid->parts : 0);
  const Counted launches("launches");
  std::vector<float> out = f.run(runtime);
  launches.expect(f.type == "f32" ? 3 : 2);
  return out;
}

void expect_cut(Runtime& runtime, Factors f, int64_t parts = 2) {
  f.fill_with_integers();
  EXPECT_EQ(wrong_places(run_cut(runtime, f, parts), f.sums().value, f.m, f.n), "");
}

TEST_F(CudaWidePartsDevice, MultiplyIntegersExactly) {
  for (const bool left : {false, true}) expect_cut(runtime(), {"bf16", {left, !left}, 136, 1096, 248, 2});
  expect_cut(runtime(), {"f32", {true, true}, 200, 1096, 100, 2});
  // Steps of which parts have eight and nine; a tile whose parts are four.
  expect_cut(runtime(), {"bf16", {false, true}, 100, 2096, 131, 2}, 4);
}

TEST_F(CudaWidePartsDevice, MultiplyBytes) {
  const Counted maps("maps"), launches("launches");
  expect_byte_product(runtime(), "u8", "u8", {137, 2064, 255});
  maps.expect(2);
  launches.expect(2);
  expect_byte_product(runtime(), "u8", "u8", {137, 2032, 255});  // two parts would be shorter
  maps.expect(4);
}

// The order of the CTAs is left to chance, the order of the parts is not.
TEST_F(CudaWidePartsDevice, RepeatTheirBits) {
  for (const char* type : {"bf16", "f32"}) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    Factors c{type, {false, true}, 133, 1096, 60, 2};
    const bool half = type[0] == 'b';
    c.fill([&] {
      auto bits = std::bit_cast<uint32_t>(normal(random));
      if (half) bits &= 0xffff0000u;
      return std::bit_cast<float>(bits);
    });
    const std::vector<float> first = run_cut(runtime(), c);
    EXPECT_EQ(run_cut(runtime(), c), first);
    // docs/numerics.md
    const auto depth = static_cast<double>(c.depth);
    const double rounds = half ? 11 * std::ceil(depth / 16) + 2 : 35 + std::ceil(depth / 384);
    const Factors::Sums sums = c.sums();
    for (size_t e = 0; e < first.size(); ++e)
      ASSERT_LE(std::fabs(first[e] - sums.value[e]), rounds * 0x1p-24 * sums.size[e]) << type << " " << e;
  }
}

// What is not finite in the end is the chain's, whatever the parts are.
TEST_F(CudaWidePartsDevice, MendSumsOfAllParts) {
  Factors c{"f32", {false, true}, 133, 1096, 20, 2};
  c.fill([] { return 0.5f; });
  c.x(0, 3) = std::numeric_limits<float>::infinity();
  c.x(1, 1000) = -std::numeric_limits<float>::infinity();
  c.x(2, 3) = std::numeric_limits<float>::infinity(), c.x(2, 1000) = -c.x(2, 3);
  c.x(132, 700) = std::numeric_limits<float>::max();  // its first term is infinite
  const std::vector<float> out = run_cut(runtime(), c);
  for (int64_t j = 0; j < c.n; ++j) {
    auto at = [&](int64_t i) { return out[static_cast<size_t>(i * c.n + j)]; };
    EXPECT_EQ(at(0), std::numeric_limits<float>::infinity());
    EXPECT_EQ(at(1), -std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isnan(at(2)));
    EXPECT_EQ(at(132), std::numeric_limits<float>::max() / 2);
    EXPECT_EQ(at(3), 0.25f * static_cast<float>(c.depth));
  }
}

// Sizes that are known may say that a kernel is never cut; or that this one alone is.
TEST_F(CudaWideParts, AreMergedByAKernelOfTheModule) {
  auto sized = [](int64_t m, int64_t depth, int64_t n) {
    std::string text = atlas::disassemble(float_product("bf16", false, true));
    for (const auto& [symbol, size] : {std::pair{"s0", m}, {"s1", depth}, {"s2", n}})
      for (size_t at = 0; (at = text.find(symbol, at)) != text.npos;) text.replace(at, 2, std::to_string(size));
    return atlas::assemble(text);
  };
  auto check_merge = [](const atlas::Program& program, bool wide, bool other) {
    const cuda::Stored made = cuda::compile(program, 90);
    EXPECT_EQ(made.facts.wide->merges > 0, wide);
    EXPECT_EQ(!made.facts.parts.is(0), other);
    EXPECT_EQ(made.code.find(".visible .entry hologram_merge") != made.code.npos, wide || other);
    EXPECT_EQ(cuda::to_text(cuda::from_text(cuda::to_text(made), program.num_symbols)), cuda::to_text(made));
    EXPECT_TRUE(runtime().kernels().get(program));
  };
  check_merge(sized(1024, 4096, 1024), true, true);
  check_merge(sized(1152, 4096, 2048), true, false);  // 72 tiles, which are 144 of the other
  check_merge(sized(1152, 4096, 2304), false, false);
  check_merge(sized(1024, 1016, 1024), false, true);
}

}  // namespace
}  // namespace hologram::test
