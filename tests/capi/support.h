// tests/capi/support.h: what the tests of the C interface share.
#pragma once

#include "hologram/hologram.h"
#include "support/test.h"

#define EXPECT_OK(call) EXPECT_EQ(call, HOLOGRAM_OK) << hologram_last_error()
#define ASSERT_OK(call) ASSERT_EQ(call, HOLOGRAM_OK) << hologram_last_error()
/// The call gives this status and a message that has these words.
#define EXPECT_REFUSED(call, status, words) \
  EXPECT_EQ(call, status);                  \
  EXPECT_TRUE(message_has(words)) << hologram_last_error()

namespace hologram::test {

/// What a function that must succeed gives by its last parameter.
template <class... P, class... A>
auto made(hologram_status (*call)(P...), const A&... arguments) {
  std::remove_pointer_t<std::tuple_element_t<sizeof...(P) - 1, std::tuple<P...>>> out{};
  EXPECT_OK(call(arguments..., &out));
  return out;
}

inline hologram_statistics statistics(hologram_handle executor) {
  hologram_statistics s{};
  s.struct_size = sizeof s;
  EXPECT_OK(hologram_stats(executor, &s));
  return s;
}

/// An executor of the host for one test; nothing may be alive after it.
class CapiTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(new_executor(&exec)); }
  void TearDown() override {
    hologram_executor_cleanup(exec);
    uint64_t live = 0;
    EXPECT_OK(hologram_clear_all_registries());
    EXPECT_OK(hologram_live_handles(&live));
    EXPECT_EQ(live, 0u);
  }

  virtual const char* backend() const { return "cpu"; }
  hologram_status new_executor(hologram_handle* executor) const { return hologram_new_executor_with_backend(backend(), executor); }
  /// Whether this test's kernels are interpreted, or launched one by one: fewer elements and rounds will do.
  bool slow() const { return std::string_view(backend()) != "cpu"; }

  hologram_handle buffer(uint64_t length, hologram_dtype dtype = HOLOGRAM_F32) {
    hologram_handle h = 0;
    EXPECT_OK(hologram_executor_allocate(exec, dtype, length, 0, &h));
    return h;
  }
  template <class T = float>
  hologram_handle buffer(const std::vector<T>& values, hologram_dtype dtype = HOLOGRAM_F32) {
    hologram_handle h = buffer(values.size(), dtype);
    EXPECT_OK(hologram_buffer_copy_from_bytes(exec, h, values.data(), values.size() * sizeof(T)));
    return h;
  }
  template <class T = float>
  std::vector<T> values(hologram_handle h) {
    return read<T>(hologram_buffer_to_bytes, h);
  }
  hologram_handle compile(const char* source) {
    hologram_handle g = 0, e = 0;
    EXPECT_OK(hologram_graph_parse(source, &g));
    EXPECT_OK(hologram_graph_compile(exec, g, 0, &e));
    EXPECT_OK(hologram_graph_cleanup(g));
    return e;
  }
  /// A tensor's elements in row-major order.
  template <class T = float>
  std::vector<T> elements(hologram_handle t) {
    return read<T>(hologram_tensor_to_bytes, t);
  }
  template <class T, class Read>
  std::vector<T> read(const Read& to_bytes, hologram_handle h) {
    size_t bytes = 0;
    EXPECT_OK(to_bytes(exec, h, nullptr, 0, &bytes));
    std::vector<T> out(bytes / sizeof(T));
    EXPECT_OK(to_bytes(exec, h, out.data(), bytes, nullptr));
    return out;
  }
  /// The text that `get(buffer, capacity, needed)` gives.
  template <class Get>
  static std::string text(const Get& get) {
    size_t needed = 0;
    EXPECT_OK(get(nullptr, size_t{0}, &needed));
    std::string s(needed, '?');
    EXPECT_OK(get(s.data(), s.size(), &needed));
    EXPECT_EQ(s.back(), '\0');
    s.pop_back();
    return s;
  }
  static bool message_has(std::string_view part) { return std::string_view(hologram_last_error()).find(part) != std::string_view::npos; }

  hologram_handle exec = 0;
};

/// Whether this machine has the backend's device.
inline bool is_there(const char* backend) {
  uint8_t available = 0;
  EXPECT_OK(hologram_backend_is_available(backend, &available));
  return available != 0;
}

/// What holds wherever the memory is: on the host, and on devices that it does not see. WebGPU's is skipped where there is no adapter.
class DeviceTest : public CapiTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (!is_there(backend())) GTEST_SKIP() << "no " << backend();
    CapiTest::SetUp();
  }
  const char* backend() const override { return GetParam(); }
  bool is_host() const { return std::string_view(backend()) == "cpu"; }
  /// Whether work of one stream may overtake another's: WebGPU has one queue.
  bool overtakes() const { return std::string_view(backend()) == "null"; }
};

#define HOLOGRAM_ON_EVERY_DEVICE(Suite) \
  INSTANTIATE_TEST_SUITE_P(Devices, Suite, testing::Values("cpu", "null", "webgpu"), [](const auto& i) { return std::string(i.param); })

}  // namespace hologram::test
