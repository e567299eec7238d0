// tests/capi/handle_test.cpp: stale, foreign, forged and doubly freed handles; much traffic.
#include "support.h"
#include "support/sanitized.h"

namespace hologram::test {
namespace {

using Handles = DeviceTest;
using HostHandles = CapiTest;
HOLOGRAM_ON_EVERY_DEVICE(Handles);

TEST_P(Handles, AreNotFollowedOnceDead) {
  hologram_handle b = buffer(16);
  uint32_t n = 0;
  EXPECT_OK(hologram_buffer_cleanup(b));
  EXPECT_EQ(hologram_buffer_cleanup(b), HOLOGRAM_NOT_FOUND);
  EXPECT_EQ(hologram_buffer_length(b, &n), HOLOGRAM_NOT_FOUND);
  hologram_handle again = buffer(16);
  EXPECT_NE(again, b) << "the same place under another generation";
  EXPECT_EQ(hologram_buffer_length(b, &n), HOLOGRAM_NOT_FOUND);
  EXPECT_EQ(hologram_buffer_length(again ^ (uint64_t{1} << 24), &n), HOLOGRAM_NOT_FOUND);
  EXPECT_EQ(hologram_buffer_length(exec, &n), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_buffer_length(0, &n), HOLOGRAM_NOT_FOUND);
  EXPECT_EQ(hologram_executor_cleanup(again), HOLOGRAM_INVALID_ARGUMENT);
}

TEST_F(HostHandles, AutoSaysThatItFellBack) {
  hologram_handle automatic = 0, cuda = 0;
  ASSERT_OK(hologram_new_executor_auto(&automatic));
  EXPECT_EQ(text([&](auto... a) { return hologram_executor_backend(automatic, a...); }), "cpu");
  hologram_statistics s = statistics(automatic);
  EXPECT_EQ(s.fallbacks, 1u);
  s = statistics(exec);
  EXPECT_EQ(s.fallbacks, 0u);
  uint8_t available = 9;
  EXPECT_OK(hologram_backend_is_available("CUDA", &available));
  EXPECT_EQ(hologram_new_executor_with_backend("Cuda", &cuda) == HOLOGRAM_OK, available == 1);
  if (available == 0) {
    EXPECT_TRUE(message_has("\"cuda\"")) << hologram_last_error();
  }
  EXPECT_EQ(hologram_new_executor_with_backend("tpu", &cuda), HOLOGRAM_INVALID_ARGUMENT);
  uint32_t devices = 9;
  EXPECT_OK(hologram_device_count("CUDA", &devices));
  EXPECT_EQ(devices > 0, available == 1);
  for (const char* name : {"cpu", "Interp", "auto"}) {
    EXPECT_OK(hologram_device_count(name, &devices));
    EXPECT_GE(devices, 1u);
  }
  EXPECT_EQ(hologram_device_count("tpu", &devices), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_backend_is_available("tpu", &available), HOLOGRAM_INVALID_ARGUMENT);
}

TEST_P(Handles, AnExecutorTakesItsBuffersWithIt) {
  hologram_handle b = buffer(std::vector<float>(5000, 1.0f)), t = made(hologram_tensor_from_buffer, b, "[50, 100]");
  EXPECT_OK(hologram_executor_cleanup(exec));
  EXPECT_EQ(hologram_executor_cleanup(exec), HOLOGRAM_NOT_FOUND);
  uint32_t n = 0;
  EXPECT_EQ(hologram_buffer_length(b, &n), HOLOGRAM_NOT_FOUND);
  EXPECT_EQ(hologram_tensor_ndim(t, &n), HOLOGRAM_NOT_FOUND);
  EXPECT_EQ(hologram_executor_allocate_buffer(exec, 4, &b), HOLOGRAM_NOT_FOUND);
  EXPECT_EQ(made(hologram_live_handles), 0u);
}

/// Pages of memory that the process has touched, 0 where the system does not say.
long resident() {
  std::FILE* f = std::fopen("/proc/self/statm", "r");
  long size = 0, pages = 0;
  if (f == nullptr || std::fscanf(f, "%ld %ld", &size, &pages) != 2) pages = 0;
  if (f) std::fclose(f);
  return pages;
}

/// HOLOGRAM_SOAK makes the tests of growth ten times as long.
int soak(int rounds, bool slow) { return (std::getenv("HOLOGRAM_SOAK") ? 10 : 1) * (slow ? rounds / 200 + 1500 : rounds); }

TEST_P(Handles, MillionsOfBuffersLeaveNothing) {
  hologram_statistics s{};
  s.struct_size = sizeof s;
  long before = 0;
  for (int i = 0; i < soak(1'000'000, slow()); ++i) {
    if (i == 1000) before = resident();
    hologram_handle b = made(hologram_executor_allocate, exec, HOLOGRAM_F32, i % 2 ? 100 : 4000, HOLOGRAM_UNINITIALIZED);
    ASSERT_OK(hologram_buffer_cleanup(b));
  }
  // The fake device overwrites late what is freed, and gives out other memory meanwhile.
  EXPECT_TRUE(sanitized || resident() - before < (slow() ? 5000 : 500)) << "pages of growth";
  s = statistics(exec);
  EXPECT_EQ(s.buffers, 0u);
  EXPECT_EQ(s.linear_bytes, 0u);
  EXPECT_EQ(s.boundary_classes_busy, 0u);
  EXPECT_LE(s.linear_mapped, 4u);
}

}  // namespace
}  // namespace hologram::test
