// tests/codegen/winograd_repair_test.cpp: Winograd's sums that are not finite are the direct sums
// of taps read back from the transformed weights.
#include "codegen/winograd_runs.h"
#include "support/test.h"

namespace hologram::test {
namespace {

using namespace winograds;

constexpr float inf = std::numeric_limits<float>::infinity(), largest = std::numeric_limits<float>::max();

// The same NaN and infinities, and numbers close by where those are not huge.
void expect_alike(const std::vector<float>& got, const std::vector<float>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  int finite = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(std::isnan(got[i]), std::isnan(wanted[i])) << i;
    EXPECT_EQ(std::isinf(got[i]), std::isinf(wanted[i])) << i;
    if (std::isinf(wanted[i])) {
      EXPECT_EQ(got[i], wanted[i]) << i;
    }
    finite += std::isfinite(wanted[i]);
    if (std::fabs(wanted[i]) < 1e6F) {
      EXPECT_NEAR(got[i], wanted[i], 1e-4) << i;
    }
  }
  EXPECT_GT(finite, 0);
}

struct Data {
  std::vector<float> image, weight;
  Data(const Convolution& c, const std::function<float(std::mt19937_64&)>& pixel)
      : image(static_cast<size_t>(c.height * c.width * c.channels)), weight(static_cast<size_t>(c.results * c.channels * 9)) {
    std::mt19937_64 random(3);
    for (float& v : image) v = pixel(random);
    for (float& v : weight) v = normal(random) / 4;
  }
};

TEST(WinogradRepair, WhatIsNotFiniteComesFromTheDirectSums) {
  Convolution c{1, 32, 10, 10, 32, 1, true};
  Runner winograd(c), direct(c, true);
  const Data plain(c, [](auto& r) { return std::fabs(normal(r)) / 4; });
  for (float special : {inf, -inf, std::nanf(""), largest, -largest, largest / 2}) {
    for (size_t tap = 0; tap <= 9; ++tap) {
      SCOPED_TRACE(fmt::format("{} in {}", special, tap < 9 ? "a tap" : "pixels"));
      Data d = plain;
      if (tap < 9) {
        d.weight[9 * 33 + tap] = special;
      } else {
        // Neighbours too: their difference in a tile's transform is NaN, or overflows.
        size_t pixel = static_cast<size_t>((4 * c.width + 5) * c.channels + 3);
        d.image[pixel] = special;
        d.image[pixel + 2 * static_cast<size_t>(c.channels)] = special;
      }
      expect_alike(winograd.run(d.image, d.weight), direct.run(d.image, d.weight));
    }
  }
}

TEST(WinogradRepair, InfinitiesTimesTapsOfZeroAreNaN) {
  Convolution c{1, 32, 10, 10, 32, 1, true};
  Runner winograd(c), direct(c, true);
  for (unsigned zeros :
       {0x001U, 0x002U, 0x004U, 0x008U, 0x010U, 0x020U, 0x040U, 0x080U, 0x100U, 0x1efU, 0x092U, 0x038U, 0x155U, 0x0aaU, 0x1ffU}) {
    SCOPED_TRACE(fmt::format("zeros {:#x}", zeros));
    Data d(c, normal);
    for (size_t i = 0; i < d.weight.size(); ++i)
      if (zeros >> i % 9 & 1) d.weight[i] = i % 2 ? 0.0F : -0.0F;
    d.image[static_cast<size_t>((4 * c.width + 5) * c.channels + 3)] = inf;
    expect_alike(winograd.run(d.image, d.weight), direct.run(d.image, d.weight));
  }
}

// Filters' taps of any kind: ordinary ones, some of them zeros of both signs, of many magnitudes, whole, subnormal and huge.
using Random = std::mt19937_64;
int spread(Random& r, int bits) { return static_cast<int>(r() % static_cast<uint64_t>(bits)); }
float (*const filter_taps[])(Random&) = {
    [](Random& r) { return normal(r); },
    [](Random& r) { return r() % 2   ? normal(r)
                           : r() % 2 ? 0.0F
                                     : -0.0F; },
    [](Random& r) { return std::ldexp(normal(r), spread(r, 40) - 20); },
    [](Random& r) { return r() % 3 ? std::ldexp(normal(r), spread(r, 40) - 20) : 0.0F; },
    [](Random& r) { return static_cast<float>(spread(r, 5) - 2); },
    [](Random& r) { return r() % 3 ? std::ldexp(normal(r), -140 - spread(r, 10)) : 0.0F; },
    [](Random& r) { return r() % 3 ? std::ldexp(normal(r), -120 - spread(r, 30)) : 0.0F; },
    [](Random& r) { return std::ldexp(normal(r) / 8, 125 - spread(r, 3)); },
    [](Random& r) { return r() % 2   ? largest
                           : r() % 2 ? -largest
                                     : 0.0F; },
    [](Random& r) { return std::ldexp(std::tanh(normal(r)), 127 - spread(r, 40)); },
};

// One pixel of 1 in a channel gives the taps themselves, where another channel, whose weights are 0, makes each tile's sums NaN.
TEST(WinogradRepair, TapsComeBack) {
  Convolution c{1, 32, 12, 12, 120, 0, true};
  Runner winograd(c);
  const auto channels = static_cast<size_t>(c.channels);
  Data d(c, [](auto&) { return 0.0F; });
  std::mt19937_64 random(11);
  for (size_t o = 0; o < static_cast<size_t>(c.results); ++o)
    for (size_t t = 0; t < 9 * channels; ++t)
      d.weight[o * 9 * channels + t] = t / 9 + 1 < channels ? filter_taps[o % std::size(filter_taps)](random) : 0;
  for (int64_t i = 0; i < c.height; ++i)
    for (int64_t j = 0; j < c.width; ++j)
      d.image[static_cast<size_t>(i * c.width + j) * channels + channels - 1] = i / 2 % 2 ? -largest : largest;
  int kept = 0, transformed = 0, lost = 0;
  for (size_t k = 0; k + 1 < channels; ++k) {
    std::vector<float> image = d.image;
    image[static_cast<size_t>(5 * c.width + 6) * channels + k] = 1;
    const std::vector<float> got = winograd.run(image, d.weight);
    for (size_t o = 0; o < static_cast<size_t>(c.results); ++o) {
      const float* filter = d.weight.data() + (o * channels + k) * 9;
      double sum = 0;
      for (size_t t = 0; t < 9; ++t) sum += std::fabs(filter[t]);
      (sum < 0x1p126 ? transformed : kept) += 1;
      for (size_t t = 0; t < 9; ++t) {
        const size_t row = 5 - t / 3, column = 6 - t % 3;
        const float tap = got[(row * static_cast<size_t>(c.out_width()) + column) * static_cast<size_t>(c.results) + o];
        SCOPED_TRACE(fmt::format("tap {} of {}, kind {}", t, filter[t], o % std::size(filter_taps)));
        EXPECT_LE(std::fabs(static_cast<double>(tap) - filter[t]), sum * 0x1p-21 + 0x1p-146);
        if (sum > 0x1.00001p126) {
          EXPECT_EQ(tap, filter[t]);
        }
        if (filter[t] == 0) {
          EXPECT_EQ(tap, 0);
        }
        EXPECT_TRUE(tap == 0 || std::signbit(tap) == std::signbit(filter[t])) << tap;
        lost += tap == 0 && filter[t] != 0;
      }
    }
  }
  EXPECT_GT(kept, 300);
  EXPECT_GT(transformed, 2000);
  EXPECT_GT(lost, 0);  // tiny taps beside large ones
}

}  // namespace
}  // namespace hologram::test
