// tests/backend_cuda_90/planes_test.cpp: products by warpgroups of factors that are computed first
#include <fmt/format.h>

#include "backend/cuda/maps.h"
#include "backend_cuda/cuda_test.h"

namespace hologram::test {
namespace {

// On a GPU too.
using CudaPlanesDevice = CudaDevice90;

// (x * scale) * y of two x, where the scale is along k; y is computed too, if `both`.
struct Scaled {
  std::string type = "bf16";
  bool by_columns = false, both = false;
  int64_t m = 136, depth = 136, n = 264;

  atlas::Program program() const {
    const bool half = type != "f32";
    std::string left = fmt::format("  %0 = load.{} b0[{} + s0*s1*i0]\n", type, by_columns ? "i1 + s0*i3" : "i3 + s1*i1");
    left += half ? fmt::format(
                       "  %1 = cast.f32.{0} %0\n  %2 = load.f32 b2[i3]\n  %3 = mul.f32 %1, %2\n"
                       "  %4 = cast.{0}.f32 %3\n",
                       type)
                 : "  %1 = load.f32 b2[i3]\n  %2 = mul.f32 %0, %1\n";
    std::string right = fmt::format("  %0 = load.{} b1[i2 + s2*i3]\n", type);
    if (both && half) right += fmt::format("  %1 = cast.f32.{0} %0\n  %2 = neg.f32 %1\n  %3 = cast.{0}.f32 %2\n", type);
    if (both && !half) right += "  %1 = neg.f32 %0\n";
    return atlas::assemble(fmt::format(R"(atlas block 1
symbols 3
buffer b0 {0} read [2*s0*s1]
buffer b1 {0} read [s1*s2]
buffer b2 f32 read [s1]
buffer b3 f32 write [2*s0*s2]
product batch 1 operand {0} acc f32 precision 0
axis i0 parallel [2]
axis i1 parallel [s0]
axis i2 parallel [s2]
axis i3 row [s1]
lhs
{1}rhs
{2}epilogue
  %0 = accumulator.f32 a0
  store.f32 b3[i2 + s2*i1 + s0*s2*i0], %0
)",
                                       type, left, right));
  }
};

void expect_scaled(Runtime& runtime, const Scaled& c, bool wide = true) {
  SCOPED_TRACE(fmt::format("{} {} {}, {} x {} x {}", c.type, c.by_columns, c.both, c.m, c.depth, c.n));
  expect_interpreters(runtime, c.program(), {c.m, c.depth, c.n}, wide ? 2 : 0, wide ? 2 : 1);
}

// Sizes that no tensor map of the factors themselves takes: planes have rows of their own.
TEST_F(CudaPlanesDevice, ComputeTheLeftFactorFirst) {
  for (const bool by_columns : {false, true}) expect_scaled(runtime(), {.by_columns = by_columns, .m = 137, .depth = 131});
}

TEST_F(CudaPlanesDevice, ComputeBothFactorsFirst) {
  expect_scaled(runtime(), {.both = true, .m = 769, .depth = 129, .n = 515});
  for (const bool by_columns : {false, true})
    expect_scaled(runtime(), {.type = "f32", .by_columns = by_columns, .both = by_columns, .m = 261, .depth = 67, .n = 259});
}

TEST_F(CudaPlanesDevice, FewProductsForEachElementAreTheOtherKernels) {
  expect_scaled(runtime(), {.m = 300, .n = 256}, false);  // a column of tiles
  expect_scaled(runtime(), {.both = true}, false);
  expect_scaled(runtime(), {.type = "f32", .m = 129, .n = 128}, false);
}

TEST(CudaPlanes, StoreInVectorsWithoutSpills) {
  for (const bool by_columns : {false, true})
    for (const char* type : {"bf16", "f16", "f32"}) {
      SCOPED_TRACE(fmt::format("{} {}", type, by_columns));
      const Scaled c{.type = type, .by_columns = by_columns, .both = true};
      const std::string ptx = cuda::dump_ptx(c.program(), 90);
      const size_t entry = ptx.find(".visible .entry hologram_split(");
      ASSERT_NE(entry, ptx.npos);
      const std::string split = ptx.substr(entry, ptx.find(".visible .entry", entry + 1) - entry);
      size_t stores = 0;
      for (size_t at = 0; (at = split.find("st.global.v4", at + 1)) != split.npos;) ++stores;
      EXPECT_EQ(stores, type[0] == 'f' && type[1] == '3' ? 5u : 2u);
      if (by_columns) expect_assembles(ptx, 255);
    }
}

}  // namespace
}  // namespace hologram::test
