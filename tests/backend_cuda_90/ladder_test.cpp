// tests/backend_cuda_90/ladder_test.cpp: products and attention from one tile on, a test for each
// step
//
// For a first run on a device: what fails first says where to look. Which kernel a size gets
// depends on the multiprocessors (HOLOGRAM_SPY_MULTIPROCESSORS=1: the wide one from a single tile
// on), so these say nothing of kernels, only of results. The emulator has the other tests.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <random>

#include "backend_cuda/cuda_test.h"
#include "codegen/attentions.h"
#include "support/wrong.h"

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

// Factors by rows, in numbers that the type holds, and where they lie.
struct RungFactors {
  std::vector<float> left, right;

  static std::vector<std::byte> laid(const std::vector<float>& from, int64_t rows, int64_t columns,
                                     bool turned, std::string_view type) {
    const size_t size = type == "f32" ? 4 : type.ends_with("16") ? 2 : 1;
    std::vector<std::byte> out(from.size() * size);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        const uint32_t bits = bits_of(from[static_cast<size_t>(i * columns + j)], type);
        const auto at = static_cast<size_t>(turned ? j * rows + i : i * columns + j);
        std::memcpy(&out[at * size], &bits, size);
      }
    return out;
  }
  static uint32_t bits_of(float x, std::string_view type) {
    const auto bits = std::bit_cast<uint32_t>(x);
    if (type == "f32") return bits;
    if (type == "bf16") return bits >> 16;
    if (type != "f16") return static_cast<uint32_t>(static_cast<int32_t>(x));
    const uint32_t exponent = bits >> 23 & 255;  // of numbers that are not too small
    return exponent == 0 ? 0 : (bits >> 16 & 0x8000) | (exponent - 112) << 10 | (bits >> 13 & 1023);
  }
};

class CudaLadderDevice : public CudaDevice90, public testing::WithParamInterface<Rung> {
 protected:
  void SetUp() override {
    CudaDevice90::SetUp();
    random_.seed(5);
  }
  const Rung& rung() const { return GetParam(); }
  bool bytes() const { return rung().type[0] == 'i' || rung().type[0] == 'u'; }
  bool single() const { return std::string_view(rung().type) == "f32"; }
  float x(const RungFactors& f, int64_t i, int64_t k) const {
    return f.left[static_cast<size_t>(i * rung().depth + k)];
  }
  float y(const RungFactors& f, int64_t k, int64_t j) const {
    return f.right[static_cast<size_t>(k * rung().n + j)];
  }
  RungFactors filled(const std::function<float()>& number) const {
    RungFactors f{std::vector<float>(static_cast<size_t>(rung().m * rung().depth)),
              std::vector<float>(static_cast<size_t>(rung().depth * rung().n))};
    for (auto* factor : {&f.left, &f.right})
      for (float& v : *factor) v = number();
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
  std::vector<double> product(const RungFactors& f) const {
    const auto [m, depth, n] = std::tuple(rung().m, rung().depth, rung().n);
    const std::string left = fmt::format("{}", rung().type);
    std::vector<std::byte> a = RungFactors::laid(f.left, m, depth, !bytes() && rung().by_columns[0],
                                                 left),
                           b = RungFactors::laid(f.right, depth, n, bytes() || rung().by_columns[1],
                                                 left),
                           out(static_cast<size_t>(m * n * 4), std::byte{0xff});
    const Bytes buffers[] = {a, b, out};
    const atlas::Program program =
        bytes() ? byte_product(rung().type, rung().type)
                : float_product(rung().type, rung().by_columns[0], rung().by_columns[1],
                                rung().rows, rung().reproducible);
    run_program(runtime(), program, buffers, std::array{m, depth, n});
    std::vector<double> numbers;
    for (size_t at = 0; at < out.size(); at += 4) {
      std::array<std::byte, 4> bits;
      std::copy_n(&out[at], 4, bits.begin());
      numbers.push_back(bytes() ? std::bit_cast<int32_t>(bits)
                                : static_cast<double>(std::bit_cast<float>(bits)));
    }
    return numbers;
  }
  // Every sum, and the sums of magnitudes.
  std::pair<std::vector<double>, std::vector<double>> sums(const RungFactors& f) const {
    std::vector<double> sum(static_cast<size_t>(rung().m * rung().n)), size(sum.size());
    for (int64_t i = 0; i < rung().m; ++i)
      for (int64_t k = 0; k < rung().depth; ++k) {
        const double a = double{x(f, i, k)};
        if (a == 0) continue;
        double* const to = &sum[static_cast<size_t>(i * rung().n)];
        double* const magnitude = &size[static_cast<size_t>(i * rung().n)];
        for (int64_t j = 0; j < rung().n; ++j) {
          const double term = a * double{y(f, k, j)};
          to[j] += term, magnitude[j] += std::fabs(term);
        }
      }
    return {sum, size};
  }

  std::mt19937 random_;
  std::normal_distribution<float> normal_;
};

// One factor chooses a row or column of the other for each result, which comes back bit for bit.
TEST_P(CudaLadderDevice, Chooses) {
  const auto [m, depth, n] = std::tuple(rung().m, rung().depth, rung().n);
  auto place = [&](int64_t i) { return (37 * i + 5) % depth; };
  for (const bool left : {true, false}) {
    RungFactors f = filled([&] { return bytes() ? integer() : normal(); });
    std::vector<double> wanted;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        wanted.push_back(double{left ? y(f, place(i), j) : x(f, i, place(j))});
    std::ranges::fill(left ? f.left : f.right, 0.0f);
    for (int64_t i = 0; i < (left ? m : n); ++i)
      (left ? f.left[static_cast<size_t>(i * depth + place(i))]
            : f.right[static_cast<size_t>(place(i) * n + i)]) = 1;
    EXPECT_EQ(wrong_places(product(f), wanted, m, n), "")
        << "chosen by the " << (left ? "left" : "right") << " factor";
  }
}

TEST_P(CudaLadderDevice, AddsIntegers) {
  const RungFactors f = filled([&] { return integer(); });
  EXPECT_EQ(wrong_places(product(f), sums(f).first, rung().m, rung().n), "");
}

// docs/numerics.md; and the same bits again and again.
TEST_P(CudaLadderDevice, StaysWithinItsBoundAndRepeats) {
  const RungFactors f = filled([&] { return bytes() ? integer() : normal(); });
  const std::vector<double> first = product(f);
  const auto [sum, size] = sums(f);
  const auto depth = static_cast<double>(rung().depth);
  const double rounds = bytes()    ? 0
                        : single() ? 35 + std::ceil(depth / 384) + depth * rung().reproducible
                                   : 11 * std::ceil(depth / 16) + 64;
  std::vector<double> error(first.size());
  for (size_t e = 0; e < first.size(); ++e)
    error[e] = std::fabs(first[e] - sum[e]) <= rounds * 0x1p-24 * size[e] ? sum[e] : first[e];
  EXPECT_EQ(wrong_places(error, sum, rung().m, rung().n), "") << "beyond the bound";
  for (int again = 1; again < repeats(); ++again)
    ASSERT_EQ(wrong_places(product(f), first, rung().m, rung().n), "") << "call " << again;
}

std::vector<Rung> rungs() {
  if (emulated()) return {};
  return {std::begin(products), std::end(products)};
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaLadderDevice);  // over the emulator
INSTANTIATE_TEST_SUITE_P(Products, CudaLadderDevice, testing::ValuesIn(rungs()),
                         [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace hologram::test
