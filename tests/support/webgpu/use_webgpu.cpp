// tests/support/webgpu/use_webgpu.cpp: who links this finds wgpu-native where the build's Python has it
#include <cstdlib>

namespace {

[[maybe_unused]] const int wgpu = setenv("HOLOGRAM_WEBGPU_LIBRARY", HOLOGRAM_TEST_WGPU, 0);

}  // namespace
