// tests/runtime/growth_test.cpp: a process that keeps compiling keeps its size
#include <unistd.h>

#include <fstream>

#include "host/pages.h"
#include "runtime/executable.h"
#include "support/sanitized.h"
#include "support/test.h"

namespace hologram::runtime {
namespace {

int64_t resident_bytes() {
  int64_t whole = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> whole >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// A fused loop with a reduction of a size and with a constant of its own.
void compile(int number, const std::shared_ptr<Runtime>& runtime) {
  ir::Graph g;
  const int64_t n = 3 + number % 61;
  const ir::Value x = g.parameter(0, DType::f32, {n, 40}, {40, 1});
  const ir::Value y = g.binary(ir::Op::mul, x, g.number(DType::f32, number + 0.5, {n, 40}));
  g.outputs.push_back({g.reduce(ir::Op::reduce_max, y, {1}), {1}});
  Executable::compile(g, {}, runtime);
}

// HOLOGRAM_COMPILES is how many kernels a round compiles.
TEST(Growth, KernelsThatAreForgottenLeaveNothing) {
  const char* asked = getenv("HOLOGRAM_COMPILES");
  const int each = asked ? atoi(asked) : 25, rounds = 4;
  setenv("HOLOGRAM_CACHE_DIR", "off", 1);
  auto runtime = std::make_shared<Runtime>("cpu");
  int64_t sizes[rounds + 1], made = 0;
  for (int r = 0; r <= rounds; ++r) {
    for (int i = 0; i < each; ++i) compile(static_cast<int>(made++), runtime);
    runtime->kernels().clear();
    EXPECT_EQ(runtime->compiled_bytes().code + runtime->compiled_bytes().code_cached, 0u);
    EXPECT_EQ(runtime->compiled_bytes().plans, 0u);
    host::trim_heap();
    sizes[r] = resident_bytes();
    RecordProperty("resident " + std::to_string(r), std::to_string(sizes[r]));
  }
  EXPECT_EQ(runtime->kernels().stats().misses, static_cast<uint64_t>(made));
  if (test::sanitized) GTEST_SKIP() << "sizes are not looked at";
  EXPECT_LT(sizes[rounds] - sizes[1], (rounds - 1) * each * 2048) << "after a first round";
}

}  // namespace
}  // namespace hologram::runtime
