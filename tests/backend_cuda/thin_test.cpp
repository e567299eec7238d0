// tests/backend_cuda/thin_test.cpp: products whose few rows are known at the launch only
#include <fmt/format.h>

#include <random>

#include "backend/cuda/grids.h"
#include "backend_cuda/factors.h"

namespace hologram::test {
namespace {

using CudaThinDevice = CudaDevice;

struct ThinCase {
  std::string type = "bf16";
  int64_t m = 7, depth = 600, n = 130;
};

Factors factors(const ThinCase& c) { return {c.type, {false, true}, c.m, c.depth, c.n}; }

// The launch of a program whose rows are s0, on four multiprocessors.
cuda::Grid launch_of(Runtime& runtime, const atlas::Program& program, const ThinCase& c) {
  const std::shared_ptr<const Kernel> kernel = runtime.kernels().get(program);
  return cuda::make_grid(*static_cast<const cuda::LoadedKernel*>(kernel->code), std::array{c.m, c.depth, c.n}, 1, 4);
}

TEST_F(CudaThinDevice, RowsThatSizesSayHaveTheBitsOfKnownOnes) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const char* type : {"bf16", "f32"})
    for (const int64_t m : {5, 7, 16}) {
      // Parts of k; an end of rows that is no multiple of eight; a single part.
      for (const int64_t depth : {600, 331, 64}) {
        const ThinCase c{.type = type, .m = m, .depth = depth};
        SCOPED_TRACE(fmt::format("{} {} {}", type, m, depth));
        EXPECT_TRUE(launch_of(runtime(), factors(c).program(), c).thin);
        Factors f = factors(c);
        f.fill([&] { return normal(random); });
        const std::vector<float> wanted = f.run(runtime());
        f.rows = std::to_string(m);
        EXPECT_EQ(f.run(runtime()), wanted);
      }
    }
}

TEST_F(CudaThinDevice, TheirNumberDecides) {
  for (const char* type : {"bf16", "f32"})
    for (const int64_t m : {1, 3, 16, 17}) {
      const ThinCase c{.type = type, .m = m};
      SCOPED_TRACE(fmt::format("{} {}", type, m));
      const cuda::Grid grid = launch_of(runtime(), factors(c).program(), c);
      EXPECT_EQ(grid.thin, m <= 16);
      EXPECT_TRUE(grid.parted);
      EXPECT_EQ(grid.total, m <= 16 || type[0] == 'f' ? 3 : 2);
      Factors f = factors(c);
      f.fill_with_integers();
      const Counted launches("launches");
      const std::vector<float> out = f.run(runtime());
      launches.expect(2);
      EXPECT_EQ(wrong_places(out, f.sums().value, m, c.n), "");
    }
}

TEST(CudaThin, StoredFactsAreChecked) {
  const std::string text = cuda::to_text(cuda::compile(float_product("bf16", false, true)));
  const size_t at = text.find(";128|2|s0|");
  ASSERT_LT(at, text.find('\n'));
  for (const char* other : {";0|2|s0|", ";128|2|", ";128|2|s7|", ";128|x|s0|"}) {
    std::string changed = text;
    changed.replace(at, 10, other);
    EXPECT_THROW(cuda::from_text(changed, 3), Error) << other;
  }
}

TEST(CudaThin, AssembleWithoutSpills) {
  for (const char* type : {"bf16", "f16", "f32"})
    for (const auto& [capability, gpu] : {std::pair{80, "sm_80"}, {90, "sm_90a"}})
      expect_assembles(cuda::dump_ptx(float_product(type, false, true), capability), 255, gpu);
}

}  // namespace
}  // namespace hologram::test
