// tests/capi/webgpu_test.cpp: adapters by their interface; wgpu-native, or an adapter for it, that is missing
#include <unistd.h>

#include <filesystem>

#include "support.h"
#include "support/environment.h"
#include "support/paths.h"

namespace hologram::test {
namespace {

using WebGpu = CapiTest;

TEST_F(WebGpu, AnInterfaceIsDemandedByItsName) {
  if (!is_there("webgpu")) GTEST_SKIP() << "no adapter";
  uint32_t all = 0, named = 0;
  ASSERT_OK(hologram_device_count("webgpu", &all));
  for (const char* name : {"vulkan", "metal"}) {
    uint32_t devices = 0;
    EXPECT_OK(hologram_device_count(name, &devices));
    EXPECT_EQ(devices > 0, is_there(name));
    named += devices;
    if (devices == 0) continue;
    hologram_handle device = made(hologram_new_executor_with_backend, name);
    EXPECT_EQ(text([&](auto... a) { return hologram_executor_backend(device, a...); }).substr(0, 6), "webgpu");
    const float value[] = {-1.5f, 2};
    float result[2] = {};
    hologram_handle x = made(hologram_executor_allocate, device, HOLOGRAM_F32, 2, 0);
    ASSERT_OK(hologram_buffer_copy_from_bytes(device, x, value, sizeof value));
    ASSERT_OK(hologram_vector_abs_f32(device, x, x, 2));
    ASSERT_OK(hologram_buffer_to_bytes(device, x, result, sizeof result, nullptr));
    EXPECT_EQ(result[0], 1.5f);
    ASSERT_OK(hologram_executor_cleanup(device));
    const std::string behind = std::string(name) + ":" + std::to_string(devices);
    EXPECT_EQ(hologram_new_executor_with_backend(behind.c_str(), &device), HOLOGRAM_UNAVAILABLE);
  }
  EXPECT_LE(named, all);
}

class WithoutWebGpu : public CapiTest {
 protected:
  // The error names the backend and the reason; the host's executor works. Devices that no other test has opened: those stay open.
  void expect_missing(const std::string& reason) {
    for (const char* name : {"webgpu:7", "vulkan:7", "metal:7"}) {
      EXPECT_EQ(made(hologram_device_count, name), 0u) << name;
      EXPECT_FALSE(is_there(name)) << name;
      hologram_handle none = 0;
      EXPECT_EQ(hologram_new_executor_with_backend(name, &none), HOLOGRAM_UNAVAILABLE) << name;
      EXPECT_TRUE(message_has(reason)) << name << ": " << hologram_last_error();
      const std::string base(std::string_view(name).substr(0, std::string_view(name).find(':')));
      EXPECT_TRUE(message_has("backend \"" + base + "\" is not available")) << hologram_last_error();
    }
    const hologram_handle x = buffer({1, -2, 3}), y = buffer(3);
    EXPECT_OK(hologram_vector_abs_f32(exec, x, y, 3));
    EXPECT_EQ(values(y), (std::vector<float>{1, 2, 3}));
  }
};

TEST_F(WithoutWebGpu, ALibraryThatIsMissingOrAnotherIsNamed) {
  const std::string bare = beside_program(HOLOGRAM_BARE_WGPU);
  for (const auto& [path, reason] : {std::pair<std::string, std::string>{"off", "HOLOGRAM_WEBGPU_LIBRARY is off"},
                                     {"/nowhere/libwgpu.so", "no wgpu-native, which `pip install wgpu` brings: /nowhere/libwgpu.so"},
                                     {"libm.so.6", "libm.so.6 has no function wgpuGetVersion"}}) {
    const Setting library("HOLOGRAM_WEBGPU_LIBRARY", path);
    expect_missing(reason);
  }
  const Setting library("HOLOGRAM_WEBGPU_LIBRARY", bare);
  {
    const Setting version("BARE_WGPU_VERSION", "1b000400");
    expect_missing(bare + " is wgpu-native 27.0.4.0; it must be 29.0.1.1");
  }
  const Setting version("BARE_WGPU_VERSION", "1d000101");
  expect_missing(bare + " has no function wgpu");
}

// Vulkan's loader looks for drivers when it is asked through another path: an instance of its own.
TEST_F(WithoutWebGpu, AMachineWithoutAdaptersIsNamed) {
  const char* library = std::getenv("HOLOGRAM_WEBGPU_LIBRARY");
  if (!library || !std::filesystem::exists(library)) GTEST_SKIP() << "no wgpu-native";
  const std::string link = testing::TempDir() + "no-adapter-" + std::to_string(::getpid()) + ".so";
  std::filesystem::create_symlink(std::filesystem::absolute(library), link);
  {
    const Setting another("HOLOGRAM_WEBGPU_LIBRARY", link), files("VK_ICD_FILENAMES", "/nowhere"), drivers("VK_DRIVER_FILES", "/nowhere");
    expect_missing(link + " finds no");
  }
  std::filesystem::remove(link);
}

}  // namespace
}  // namespace hologram::test
