// tests/codegen/amx_emulator_test.cpp: the emulator of AMX against cases worked out by hand.
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "emulator/amx.h"

#if defined(__x86_64__) && defined(__linux__)

#define TILES __attribute__((target("amx-tile,amx-bf16,amx-int8"), noinline))

namespace hologram::test {
namespace {

struct Config {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(Config) == 64);

// (Compilers take the intrinsic to read less than all of it.)
TILES void load(const Config& config) {
  asm volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}

uint16_t bf16(float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); }

// c (2 × 3 of 4 bytes) += a (2 × 8 pairs or groups) · b (8 × 3): tiles 0, 3, 5.
template <class Product>
TILES void multiply(void* c, const void* a, const void* b, Product product) {
  Config config;
  config.bytes[0] = config.bytes[5] = 12;
  config.bytes[3] = 32;
  config.rows[0] = config.rows[3] = 2;
  config.rows[5] = 8;
  load(config);
  _tile_loadd(0, c, 12);
  _tile_loadd(3, a, 32);
  _tile_stream_loadd(5, b, 12);
  product();
  _tile_stored(0, c, 12);
  _tile_release();
}

struct Bf16 {
  float c[2][3] = {};
  uint16_t a[2][16] = {}, b[8][6] = {};
  TILES void run() {
    multiply(
        c, a, b, []() __attribute__((target("amx-tile,amx-bf16"))) { _tile_dpbf16ps(0, 3, 5); });
  }
  // Value k of row m, and value k of column n.
  void row(int m, int k, float x) { a[m][k] = bf16(x); }
  void column(int n, int k, float x) { b[k / 2][2 * n + k % 2] = bf16(x); }
};

class Amx : public testing::Test {
 protected:
  amx::Emulator emulator_;
};

TEST_F(Amx, bfloat16_sums_rows_times_columns) {
  Bf16 t;
  for (int k = 0; k < 16; ++k) {
    t.row(1, k, static_cast<float>(k + 1));
    t.column(2, k, static_cast<float>(k % 2 ? -2 : 3));
  }
  t.c[1][2] = 0.5f;
  t.c[0][1] = 7;
  t.run();
  EXPECT_EQ(t.c[1][2], 0.5f + 3 * (1 + 3 + 5 + 7 + 9 + 11 + 13 + 15) - 2 * (2 + 4 + 6 + 8 + 10 + 12 + 14 + 16));
  EXPECT_EQ(t.c[0][1], 7);
  EXPECT_EQ(t.c[0][0], 0);
}

TEST_F(Amx, bfloat16_adds_even_and_odd_chains_before_the_sum) {
  Bf16 t;
  float big = 0x1p24f;
  // Even: 2^24 + 1 (lost in the chain). Odd: 1. Together 2^24 + 1 → 2^24 (even), + 2 → 2^24 + 2.
  t.row(0, 0, big);
  t.row(0, 2, 1);
  t.row(0, 1, 1);
  for (int k : {0, 1, 2}) t.column(0, k, 1);
  t.c[0][0] = 2;
  // A chain that went through c would give 2 + 2^24 + 1 + 1 = 2^24 + 4 rounded differently.
  t.run();
  EXPECT_EQ(t.c[0][0], big + 2);

  Bf16 u;  // the odd chain holds 1 + 1, which survives next to 2^24
  u.row(0, 0, big);
  u.row(0, 1, 1);
  u.row(0, 3, 1);
  for (int k : {0, 1, 3}) u.column(0, k, 1);
  u.run();
  EXPECT_EQ(u.c[0][0], big + 2);
}

TEST_F(Amx, bfloat16_rounds_each_step_of_a_chain) {
  Bf16 t;
  float x = 1 + 0x1p-7f;  // its square has 15 bits
  t.row(0, 0, 0x1p12f);
  t.column(0, 0, -0x1p12f);
  t.row(0, 2, x);
  t.column(0, 2, x);
  t.row(0, 4, 0x1p12f);
  t.column(0, 4, 0x1p12f);
  t.run();
  EXPECT_EQ(t.c[0][0], 1);  // -2^24 + 1.0156… rounds to a whole number
}

TEST_F(Amx, bfloat16_takes_and_gives_no_subnormal_numbers) {
  Bf16 t;
  t.a[0][0] = 0x0040;  // subnormal
  t.column(0, 0, 0x1p100f);
  t.row(1, 0, 0x1p-70f);  // a product below 2^-126
  t.column(1, 0, -0x1p-60f);
  t.c[1][2] = std::numeric_limits<float>::denorm_min();
  t.run();
  EXPECT_EQ(t.c[0][0], 0);
  EXPECT_EQ(t.c[1][1], 0);
  EXPECT_EQ(std::bit_cast<uint32_t>(t.c[1][2]), 0u);
  EXPECT_EQ(_mm_getcsr() & 0x8040, 0u);
}

TEST_F(Amx, bfloat16_infinities_and_nan) {
  Bf16 t;
  float inf = std::numeric_limits<float>::infinity();
  t.row(0, 5, inf);
  t.column(0, 5, 2);
  t.column(1, 5, -1);
  t.run();
  EXPECT_EQ(t.c[0][0], inf);
  EXPECT_EQ(t.c[0][1], -inf);
  EXPECT_NE(t.c[0][2], t.c[0][2]);  // inf * 0
  EXPECT_EQ(t.c[1][0], 0);
}

struct Bytes {
  int32_t c[2][3] = {};
  uint8_t a[2][32] = {}, b[8][12] = {};
  Bytes() {
    a[1][0] = 200;  // -56
    a[1][31] = 3;
    b[0][8] = 255;   // -1; column 2
    b[7][11] = 130;  // -126
    c[1][2] = 1000;
  }
};

TEST_F(Amx, bytes_signed_and_unsigned) {
  Bytes t;
  multiply(t.c, t.a, t.b, []() TILES { _tile_dpbssd(0, 3, 5); });
  EXPECT_EQ(t.c[1][2], 1000 + 56 - 3 * 126);
  EXPECT_EQ(t.c[0][2], 0);
  t = {};
  multiply(t.c, t.a, t.b, []() TILES { _tile_dpbsud(0, 3, 5); });
  EXPECT_EQ(t.c[1][2], 1000 - 56 * 255 + 3 * 130);
  t = {};
  multiply(t.c, t.a, t.b, []() TILES { _tile_dpbusd(0, 3, 5); });
  EXPECT_EQ(t.c[1][2], 1000 - 200 - 3 * 126);
  t = {};
  multiply(t.c, t.a, t.b, []() TILES { _tile_dpbuud(0, 3, 5); });
  EXPECT_EQ(t.c[1][2], 1000 + 200 * 255 + 3 * 130);
}

TILES void store_config(void* to) {
  Config config;
  config.bytes[2] = 8;
  config.rows[2] = 5;
  load(config);
  _tile_storeconfig(to);
}

TEST_F(Amx, configurations_are_kept_and_released) {
  uint8_t config[64];
  store_config(config);
  EXPECT_EQ(config[0], 1);
  EXPECT_EQ(config[20], 8);
  EXPECT_EQ(config[50], 5);
  []() TILES { _tile_release(); }();
  [&]() TILES { _tile_storeconfig(config); }();
  for (uint8_t x : config) EXPECT_EQ(x, 0);
}

// Rows apart, with the stride in a register, and rows and bytes beyond the shape left alone.
TILES void move(const void* from, int64_t from_stride, void* to, int64_t to_stride) {
  Config config;
  config.bytes[1] = 8;
  config.rows[1] = 3;
  load(config);
  _tile_zero(1);
  _tile_loadd(1, from, from_stride);
  _tile_stored(1, to, to_stride);
  _tile_release();
}

TEST_F(Amx, loads_and_stores_follow_strides) {
  uint8_t from[100], to[100] = {};
  for (int i = 0; i < 100; ++i) from[i] = static_cast<uint8_t>(i + 1);
  move(from + 40, -20, to + 1, 30);
  for (int i = 0; i < 100; ++i) {
    int row = (i - 1) / 30, column = (i - 1) % 30;
    bool inside = i >= 1 && row < 3 && column < 8;
    EXPECT_EQ(to[i], inside ? from[40 - 20 * row + column] : 0) << i;
  }
}

using AmxDeathTest = Amx;

TEST_F(AmxDeathTest, what_would_fault_ends_the_process) {
  EXPECT_DEATH([]() TILES { _tile_zero(0); }(), "");  // not configured
  EXPECT_DEATH(
      []() TILES {
        Config config;
        config.bytes[0] = 128;
        config.rows[0] = 1;
        load(config);
      }(),
      "");
  EXPECT_DEATH(__builtin_trap(), "");
}

}  // namespace
}  // namespace hologram::test

#endif
