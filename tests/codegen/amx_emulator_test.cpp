// tests/codegen/amx_emulator_test.cpp: what the emulator of AMX refuses; what it computes is compared in tiles_test.cpp
#include "emulator/amx.h"
#include "support/test.h"

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

class AmxDeathTest : public testing::Test {
 protected:
  amx::Emulator emulator_;
};

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
