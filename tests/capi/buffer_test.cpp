// tests/capi/buffer_test.cpp: executors and buffers: pools, copies, views, lives.
#include "support.h"

namespace hologram::test {
namespace {

using Buffers = DeviceTest;
using HostBuffers = CapiTest;  // what shows their addresses, and boundary classes
HOLOGRAM_ON_EVERY_DEVICE(Buffers);

extern "C" int capi_c99_program(float* sum);

TEST(C99, ProgramRuns) {
  float sum = 0;
  EXPECT_EQ(capi_c99_program(&sum), 0) << hologram_last_error();
  EXPECT_EQ(sum, 20);
}

TEST_P(Buffers, JsonGivesTheSameBitsBack) {
  std::mt19937 rng(5);
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> in = {0.0f, -0.0f, 0.1f, 1e-45f, -3.4028235e38f, 16777217.0f, inf, -inf, nan};
  while (in.size() < 5000) {
    const auto v = std::bit_cast<float>(static_cast<uint32_t>(rng()));
    in.push_back(std::isnan(v) ? nan : v);
  }
  hologram_handle a = buffer(in), b = buffer(in.size());
  const std::string json = text([&](auto... x) { return hologram_buffer_to_vec(exec, a, x...); });
  ASSERT_OK(hologram_buffer_copy_from_slice(exec, b, json.c_str()));
  const std::vector<float> out = values(b);
  EXPECT_EQ(std::memcmp(in.data(), out.data(), in.size() * 4), 0);
}

TEST_P(Buffers, JsonOfEveryDtype) {
  const struct {
    hologram_dtype dtype;
    const char* json;
  } cases[] = {{HOLOGRAM_I64, "[-9223372036854775808, 9223372036854775807]"},
               {HOLOGRAM_U64, "[0, 18446744073709551615]"},
               {HOLOGRAM_U8, "[0, 255]"},
               {HOLOGRAM_I8, "[-128, 127]"},
               {HOLOGRAM_F64, "[0.1, 1e-300]"},
               {HOLOGRAM_F16, "[0.5, 65504]"},
               {HOLOGRAM_BF16, "[0.5, -2]"},
               {HOLOGRAM_B8, "[0, 1]"}};
  for (const auto& c : cases) {
    hologram_handle b = buffer(2, c.dtype);
    EXPECT_OK(hologram_buffer_copy_from_slice(exec, b, c.json));
    EXPECT_EQ(text([&](auto... x) { return hologram_buffer_to_vec(exec, b, x...); }), c.json);
  }
  EXPECT_EQ(hologram_buffer_copy_from_slice(exec, buffer(1, HOLOGRAM_U8), "[256]"), HOLOGRAM_INVALID_ARGUMENT);
}

TEST_P(Buffers, JsonErrorsNameThePositionAndChangeNothing) {
  hologram_handle b = buffer(std::vector<float>{7, 8, 9});
  for (const char* bad :
       {"", "[1, 2, 3", "[1, 2]", "[1, 2, 3, 4]", "[1, x, 3]", "1, 2, 3", "[1, 2, 3] ]", "[1, , 3]", "[01, 2, 3]", "[\"nan\", 2, 3]"}) {
    EXPECT_EQ(hologram_buffer_copy_from_slice(exec, b, bad), HOLOGRAM_INVALID_ARGUMENT) << bad;
    EXPECT_EQ(values(b), (std::vector<float>{7, 8, 9})) << bad;
  }
  hologram_buffer_copy_from_slice(exec, b, "[1, x, 3]");
  EXPECT_TRUE(message_has("position 4")) << hologram_last_error();
  EXPECT_OK(hologram_buffer_copy_from_slice(exec, b, " [ 1 ,2e0,\n\"Infinity\" ] "));
  EXPECT_EQ(values(b)[2], std::numeric_limits<float>::infinity());
  EXPECT_OK(hologram_buffer_copy_from_slice(exec, b, "[null, -Infinity, NaN]"));
  EXPECT_TRUE(std::isnan(values(b)[0]));
}

TEST_P(Buffers, MemoryLimitRefusesAndLosesNothing) {
  ASSERT_OK(hologram_executor_set_memory_limit(exec, 1 << 20));
  hologram_handle a = buffer(std::vector<float>(200'000, 3.0f)), b = 0;
  EXPECT_REFUSED(hologram_executor_allocate_buffer(exec, 100'000, &b), HOLOGRAM_OUT_OF_MEMORY, "1048576");
  EXPECT_EQ(values(a), std::vector<float>(200'000, 3.0f));
  EXPECT_EQ(hologram_buffer_resize(exec, a, 1 << 20), HOLOGRAM_OUT_OF_MEMORY);
  EXPECT_EQ(values(a).size(), 200'000u);
  EXPECT_OK(hologram_buffer_cleanup(a));
  EXPECT_OK(hologram_executor_allocate_buffer(exec, 100'000, &b));
  hologram_statistics s = statistics(exec);
  EXPECT_EQ(s.linear_bytes, 400'000u);
  EXPECT_EQ(s.linear_peak, 800'000u);
  EXPECT_EQ(s.buffers, 1u);
  EXPECT_EQ(hologram_executor_allocate_buffer_u64(exec, UINT64_MAX / 2, &b), HOLOGRAM_INVALID_ARGUMENT);
}

TEST_F(HostBuffers, BytesMoveWithinWrappedMemory) {
  alignas(64) std::array<float, 32> memory{};
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
  uint8_t copied = 0;
  hologram_handle b = made(hologram_executor_wrap, exec, HOLOGRAM_F32, memory.data(), 28, nullptr, nullptr, &copied);
  EXPECT_OK(hologram_buffer_to_bytes(exec, b, memory.data() + 4, 28 * sizeof(float), nullptr));
  EXPECT_EQ(memory[31], 27.0f);
  EXPECT_EQ(memory[4], 0.0f);
  EXPECT_OK(hologram_buffer_copy_from_bytes(exec, b, memory.data() + 4, 28 * sizeof(float)));
  EXPECT_EQ(memory[27], 27.0f);
}

TEST_P(Buffers, FillAndCopyAnyPartOfLargeOnes) {
  hologram_handle a = buffer(100'000), part = 0, moved = 0;
  ASSERT_OK(hologram_buffer_slice(exec, a, 777, 50'001, &part));
  ASSERT_OK(hologram_buffer_fill(exec, part, 3, 50'001));
  std::vector<float> want(100'000);
  std::fill_n(want.begin() + 777, 50'001, 3.0f);
  EXPECT_EQ(values(a), want);
  // Source and destination overlap.
  std::iota(want.begin(), want.end(), 0.0f);
  ASSERT_OK(hologram_buffer_copy_from_bytes(exec, a, want.data(), 400'000));
  ASSERT_OK(hologram_buffer_slice(exec, a, 778, 50'001, &moved));
  ASSERT_OK(hologram_buffer_copy_u64(exec, part, moved, 50'001));
  std::copy_backward(want.begin() + 777, want.begin() + 50'778, want.begin() + 50'779);
  EXPECT_EQ(values(a), want);
}

TEST(DeviceBuffers, CopyMemoryThatIsWrapped) {
  hologram_handle exec = 0, b = 0;
  ASSERT_OK(hologram_new_executor_with_backend("null", &exec));
  alignas(64) float memory[16] = {1, 2, 3};
  int released = 0;
  uint8_t copied = 0;
  ASSERT_OK(hologram_executor_wrap(
      exec, HOLOGRAM_F32, memory, 16, [](void* n) { ++*static_cast<int*>(n); }, &released, &copied, &b));
  EXPECT_EQ(copied, 1);
  EXPECT_EQ(released, 1);
  memory[0] = 9;
  float out[16];
  EXPECT_OK(hologram_buffer_to_bytes(exec, b, out, sizeof out, nullptr));
  EXPECT_EQ(out[0], 1);
  EXPECT_OK(hologram_buffer_resize(exec, b, 4));
  EXPECT_OK(hologram_executor_cleanup(exec));
}

TEST_P(Buffers, EmptyOnesAreBuffers) {
  hologram_handle b = buffer(0);
  EXPECT_EQ(made(hologram_buffer_is_empty, b), 1);
  EXPECT_EQ(text([&](auto... x) { return hologram_buffer_to_vec(exec, b, x...); }), "[]");
  EXPECT_OK(hologram_buffer_copy_from_slice(exec, b, "[]"));
  EXPECT_OK(hologram_vector_add_f32(exec, b, b, b, 0));
}

}  // namespace
}  // namespace hologram::test
