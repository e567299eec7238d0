// tests/support/webgpu/use_webgpu.cpp: who links this finds wgpu-native where the build's Python has it
#include <cstdlib>

#include "support/paths.h"

namespace {

[[maybe_unused]] const int wgpu = setenv("HOLOGRAM_WEBGPU_LIBRARY", hologram::test::beside_program(HOLOGRAM_TEST_WGPU).c_str(), 0);

}  // namespace
