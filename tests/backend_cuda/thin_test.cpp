// tests/backend_cuda/thin_test.cpp: products whose few rows are known at the launch only
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "backend/cuda/grids.h"
#include "backend_cuda/cuda_test.h"
#include "support/wrong.h"

namespace hologram::test {
namespace {

using CudaThinDevice = CudaDevice;

struct ThinCase {
  std::string type = "bf16";
  int64_t m = 7, depth = 600, n = 130;
};

atlas::Program thin_program(const ThinCase& c, bool known_rows) {
  return float_product(c.type.c_str(), false, true, known_rows ? std::to_string(c.m) : "s0");
}

// The launch of a program whose rows are s0, on four multiprocessors.
cuda::Grid launch_of(Runtime& runtime, const atlas::Program& program, const ThinCase& c) {
  const std::shared_ptr<const Kernel> kernel = runtime.kernels().get(program);
  return cuda::make_grid(*static_cast<const cuda::LoadedKernel*>(kernel->code), std::array{c.m, c.depth, c.n}, 1, 4);
}

// x along k, y along k; a number of float32 keeps its upper half where the type has 16 bits.
std::vector<float> multiply_thin(Runtime& runtime, const ThinCase& c, std::vector<float>& x, std::vector<float>& y,
                                 bool known_rows = false) {
  auto narrow = [&](std::vector<float>& from) {
    std::vector<std::byte> out;
    const size_t size = c.type == "f32" ? 4 : 2;
    for (float& number : from) {
      if (size == 2) number = std::bit_cast<float>(std::bit_cast<uint32_t>(number) & 0xffff0000u);
      const auto bits = std::bit_cast<std::array<std::byte, 4>>(number);
      out.insert(out.end(), bits.end() - static_cast<std::ptrdiff_t>(size), bits.end());
    }
    return out;
  };
  std::vector<std::byte> left = narrow(x), right = narrow(y);
  std::vector<float> out(static_cast<size_t>(c.m * c.n), -1);
  const Bytes buffers[] = {left, right, std::as_writable_bytes(std::span(out))};
  run_program(runtime, thin_program(c, known_rows), buffers, std::array{c.m, c.depth, c.n});
  return out;
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
        EXPECT_TRUE(launch_of(runtime(), thin_program(c, false), c).thin);
        std::vector<float> x(static_cast<size_t>(m * depth)), y(static_cast<size_t>(c.n * depth));
        for (auto* factor : {&x, &y})
          for (float& number : *factor) number = normal(random);
        EXPECT_EQ(multiply_thin(runtime(), c, x, y), multiply_thin(runtime(), c, x, y, true));
      }
    }
}

TEST_F(CudaThinDevice, TheirNumberDecides) {
  for (const char* type : {"bf16", "f32"})
    for (const int64_t m : {1, 3, 16, 17}) {
      const ThinCase c{.type = type, .m = m};
      SCOPED_TRACE(fmt::format("{} {}", type, m));
      const cuda::Grid grid = launch_of(runtime(), thin_program(c, false), c);
      EXPECT_EQ(grid.thin, m <= 16);
      EXPECT_TRUE(grid.parted);
      EXPECT_EQ(grid.total, m <= 16 || type[0] == 'f' ? 3 : 2);
      std::vector<float> x(static_cast<size_t>(m * c.depth)), y(static_cast<size_t>(c.n * c.depth));
      int64_t count = 0;
      for (auto* factor : {&x, &y})
        for (float& number : *factor) number = static_cast<float>(611 * ++count % 15 - 7);
      const Counted launches("launches");
      const std::vector<float> out = multiply_thin(runtime(), c, x, y);
      if (emulated()) {
        EXPECT_EQ(launches.more(), 2);
      }
      std::vector<float> wanted(out.size());
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < c.n; ++j)
          for (int64_t k = 0; k < c.depth; ++k)
            wanted[static_cast<size_t>(i * c.n + j)] += x[static_cast<size_t>(i * c.depth + k)] * y[static_cast<size_t>(j * c.depth + k)];
      EXPECT_EQ(wrong_places(out, wanted, m, c.n), "");
    }
}

TEST_F(CudaThinDevice, LeaveToChainsWhatTermsCannotHold) {
  const float infinity = std::numeric_limits<float>::infinity();
  const ThinCase c{.type = "f32", .m = 3};
  std::vector<float> x(static_cast<size_t>(c.m * c.depth), 0.5f), y(static_cast<size_t>(c.n * c.depth), 0.5f);
  x[5] = infinity;
  x[static_cast<size_t>(c.depth) + 590] = std::numeric_limits<float>::max();
  const std::vector<float> out = multiply_thin(runtime(), c, x, y);
  for (int64_t j = 0; j < c.n; ++j) {
    EXPECT_EQ(out[static_cast<size_t>(j)], infinity);
    EXPECT_EQ(out[static_cast<size_t>(c.n + j)], std::numeric_limits<float>::max() / 2);
    EXPECT_EQ(out[static_cast<size_t>(2 * c.n + j)], 150);
  }
}

TEST(CudaThin, OnlyWhereItMayHelp) {
  auto has = [](const atlas::Program& program) {
    const cuda::Stored made = cuda::compile(program);
    const bool thin = made.facts.thin.has_value();
    EXPECT_EQ(made.code.find(".visible .entry hologram_thin(") != made.code.npos, thin);
    EXPECT_EQ(made.code.find(".visible .entry hologram_thin_merge(") != made.code.npos, thin);
    const std::string text = cuda::to_text(made);
    EXPECT_EQ(cuda::to_text(cuda::from_text(text, program.num_symbols)), text);
    return thin;
  };
  EXPECT_TRUE(has(float_product("bf16", false, true)));
  EXPECT_TRUE(has(float_product("f16", false, true)));
  EXPECT_TRUE(has(float_product("f32", false, true)));
  EXPECT_FALSE(has(float_product("bf16", false, true, "300")));
  EXPECT_FALSE(has(float_product("bf16", false, true, "16")));  // its kernel is such a one
  EXPECT_FALSE(has(float_product("bf16", false, false)));
  EXPECT_FALSE(has(float_product("bf16", true, true)));
  EXPECT_FALSE(has(float_product("f32", false, true, "s0", true)));  // chains
  EXPECT_FALSE(has(byte_product("u8", "u8")));
  const cuda::Stored made = cuda::compile(float_product("bf16", false, true), 90);
  EXPECT_TRUE(made.facts.thin && made.facts.wide);
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
  if (ptxas().empty()) GTEST_SKIP() << "no ptxas: PyPI's nvidia-cuda-nvcc has one";
  for (const char* type : {"bf16", "f16", "f32"})
    for (const auto& [capability, gpu] : {std::pair{80, "sm_80"}, {80, "sm_90a"}, {90, "sm_90a"}}) {
      const std::string words = assembled(cuda::dump_ptx(float_product(type, false, true), capability), gpu);
      EXPECT_EQ(words.find("C75"), words.npos) << words;
      expect_registers(words, 255);
    }
}

}  // namespace
}  // namespace hologram::test
