// tests/backend_cuda_90/ladder_test.cpp: products and attention from one tile on, a test for each step
//
// For a first run on a device: what fails first says where to look. Which kernel a size gets
// depends on the multiprocessors (HOLOGRAM_SPY_MULTIPROCESSORS=1: the wide one from a single tile
// on), so these say nothing of kernels, only of results. The emulator has the other tests.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <random>

#include "backend_cuda/factors.h"

namespace hologram::test {
namespace {

int repeats() {
  const char* said = std::getenv("HOLOGRAM_TEST_REPEATS");
  return said ? std::atoi(said) : 2;
}

struct Rung {
  const char* name;
  const char* type;
  int64_t m, depth, n;
  bool by_columns[2] = {false, true};
  bool reproducible = false;
  const char* rows = "s0";  ///< as the program has them
};

std::ostream& operator<<(std::ostream& out, const Rung& r) { return out << r.name; }

const Rung products[] = {{"chain_f32", "f32", 20, 40, 24, {false, false}, true},
                         {"skinny_bf16", "bf16", 2, 256, 64, {false, true}, false, "2"},
                         {"thin_bf16", "bf16", 16, 256, 64, {false, true}, false, "16"},
                         {"thin_f32", "f32", 16, 256, 64, {false, true}, false, "16"},
                         {"mma_bf16", "bf16", 16, 16, 8},
                         {"mma_bf16_tile", "bf16", 128, 64, 128, {false, false}},
                         {"mma_f16_tile", "f16", 128, 64, 128},
                         {"mma_f32_tile", "f32", 128, 32, 128},
                         {"mma_i8_tile", "i8", 128, 64, 128},
                         {"wide_bf16_tile", "bf16", 128, 128, 256},
                         {"wide_bf16_tile_left_turned", "bf16", 128, 128, 256, {true, true}},
                         {"wide_bf16_tile_right_turned", "bf16", 128, 128, 256, {false, false}},
                         {"wide_bf16_tile_both_turned", "bf16", 128, 128, 256, {true, false}},
                         {"wide_bf16_slots", "bf16", 128, 640, 256},
                         {"wide_bf16_two_rows", "bf16", 256, 128, 256},
                         {"wide_bf16_two_columns", "bf16", 128, 128, 512},
                         {"wide_bf16_tiles", "bf16", 384, 256, 1024},
                         {"wide_bf16_ragged", "bf16", 130, 200, 250},
                         {"wide_bf16_parts", "bf16", 128, 4096, 256},
                         {"wide_bf16_device", "bf16", 1664, 128, 2816},
                         {"wide_f16_tile", "f16", 128, 128, 256},
                         {"wide_f16_tiles", "f16", 384, 256, 1024, {true, false}},
                         {"wide_f32_tile", "f32", 128, 64, 64},
                         {"wide_f32_tile_left_turned", "f32", 128, 64, 64, {true, true}},
                         {"wide_f32_tile_right_turned", "f32", 128, 64, 64, {false, false}},
                         {"wide_f32_slots", "f32", 128, 480, 64},
                         {"wide_f32_tiles", "f32", 512, 128, 256},
                         {"wide_f32_ragged", "f32", 260, 100, 130},
                         {"wide_f32_parts", "f32", 128, 2048, 64},
                         {"wide_f32_device", "f32", 2048, 128, 2048},
                         {"wide_i8_tile", "i8", 128, 256, 256},
                         {"wide_u8_slots", "u8", 128, 1280, 256},
                         {"wide_i8_tiles", "i8", 384, 256, 1024},
                         {"wide_u8_parts", "u8", 128, 4096, 256},
                         {"wide_i8_device", "i8", 1664, 256, 2816}};

class CudaLadderDevice : public CudaDevice90, public testing::WithParamInterface<Rung> {
 protected:
  void SetUp() override {
    CudaDevice90::SetUp();
    random_.seed(5);
  }
  const Rung& rung() const { return GetParam(); }
  bool bytes() const { return rung().type[0] == 'i' || rung().type[0] == 'u'; }
  bool single() const { return std::string_view(rung().type) == "f32"; }
  Factors filled(const std::function<float()>& number) const {
    const bool turned[2] = {!bytes() && rung().by_columns[0], bytes() || rung().by_columns[1]};
    Factors f{rung().type, {turned[0], turned[1]}, rung().m, rung().depth, rung().n, 0, rung().rows, 0, rung().reproducible};
    f.fill(number);
    return f;
  }
  float integer() {  // of at most 8
    return static_cast<float>(static_cast<int>(random_() % 17) - (rung().type[0] == 'u' ? 0 : 8));
  }
  float normal() {
    const uint32_t kept = single() ? ~0u : rung().type[0] == 'b' ? 0xffff0000u : 0xffffe000u;
    const float drawn = std::bit_cast<float>(std::bit_cast<uint32_t>(normal_(random_)) & kept);
    return std::fabs(drawn) < 0x1p-10f ? 0 : drawn;
  }
  std::vector<double> product(const Factors& f) const {
    std::vector<std::byte> a = f.laid(false), b = f.laid(true), out(static_cast<size_t>(f.m * f.n * 4), std::byte{0xff});
    const Bytes buffers[] = {a, b, out};
    run_program(runtime(), bytes() ? byte_product(rung().type, rung().type) : f.program(), buffers, std::array{f.m, f.depth, f.n});
    std::vector<double> numbers;
    for (size_t at = 0; at < out.size(); at += 4) {
      std::array<std::byte, 4> bits;
      std::copy_n(&out[at], 4, bits.begin());
      numbers.push_back(bytes() ? std::bit_cast<int32_t>(bits) : static_cast<double>(std::bit_cast<float>(bits)));
    }
    return numbers;
  }

  std::mt19937 random_;
  std::normal_distribution<float> normal_;
};

// One factor chooses a row or column of the other for each result, which comes back bit for bit.
TEST_P(CudaLadderDevice, Chooses) {
  const auto [m, depth, n] = std::tuple(rung().m, rung().depth, rung().n);
  auto place = [&](int64_t i) { return (37 * i + 5) % depth; };
  for (const bool left : {true, false}) {
    Factors f = filled([&] { return bytes() ? integer() : normal(); });
    std::vector<double> wanted;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) wanted.push_back(double{left ? f.y(place(i), j) : f.x(i, place(j))});
    std::ranges::fill(left ? f.left : f.right, 0.0f);
    for (int64_t i = 0; i < (left ? m : n); ++i) (left ? f.x(i, place(i)) : f.y(place(i), i)) = 1;
    EXPECT_EQ(wrong_places(product(f), wanted, m, n), "") << "chosen by the " << (left ? "left" : "right") << " factor";
  }
}

TEST_P(CudaLadderDevice, AddsIntegers) {
  Factors f = filled([&] { return integer(); });
  EXPECT_EQ(wrong_places(product(f), f.sums().value, rung().m, rung().n), "");
}

// docs/numerics.md; and the same bits again and again.
TEST_P(CudaLadderDevice, StaysWithinItsBoundAndRepeats) {
  Factors f = filled([&] { return bytes() ? integer() : normal(); });
  const std::vector<double> first = product(f);
  const Factors::Sums sums = f.sums();
  const auto depth = static_cast<double>(rung().depth);
  const double rounds = bytes()    ? 0
                        : single() ? 35 + std::ceil(depth / 384) + depth * rung().reproducible
                                   : 11 * std::ceil(depth / 16) + 64;
  std::vector<double> error(first.size());
  for (size_t e = 0; e < first.size(); ++e)
    error[e] = std::fabs(first[e] - sums.value[e]) <= rounds * 0x1p-24 * sums.size[e] ? sums.value[e] : first[e];
  EXPECT_EQ(wrong_places(error, sums.value, rung().m, rung().n), "") << "beyond the bound";
  for (int again = 1; again < repeats(); ++again) ASSERT_EQ(wrong_places(product(f), first, rung().m, rung().n), "") << "call " << again;
}

std::vector<Rung> rungs() {
  if (emulated()) return {};
  return {std::begin(products), std::end(products)};
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaLadderDevice);  // over the emulator
INSTANTIATE_TEST_SUITE_P(Products, CudaLadderDevice, testing::ValuesIn(rungs()), [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace hologram::test
