// tests/support/programs/exp_test.cpp: functions have the same bits whether a target renders them itself or not.
#include "atlas/programs.h"
#include "codegen/differential.h"
#include "support/test.h"

namespace hologram::test {
namespace {

TEST(Exp, SameOnEveryInstructionSet) {
  // 1 and 3: narrower than a register; 1003: whole registers and a tail
  for (int64_t count : {1, 3, 8, 1003})
    for (DType type : {DType::f32, DType::f64}) {
      SCOPED_TRACE(count);
      for (Op op : {Op::exp, Op::sin, Op::tan}) expect_same(elementwise(op, type, 1, type, Expr(count)), {.specials = 4});
    }
}

// Every 251st float32, or all of them with HOLOGRAM_EXHAUSTIVE=1.
TEST(Exp, SameBitsForEveryInput) {
  auto isas = runnable_isas();
  if (std::find(isas.begin(), isas.end(), cpu::Isa::avx512) == isas.end()) GTEST_SKIP() << "needs AVX-512";
  const char* value = std::getenv("HOLOGRAM_EXHAUSTIVE");
  uint64_t step = value && std::string_view(value) == "1" ? 1 : 251;
  constexpr int64_t count = 1 << 16;
  atlas::Program p = elementwise(Op::exp, DType::f32, 1, DType::f32, Expr(count));
  Compiled scaled(p, cpu::generic_target(cpu::Isa::avx512));
  Compiled plain(p, cpu::generic_target(cpu::Isa::avx2));
  std::vector<float> x(count), y(count), z(count);
  uint64_t wrong = 0;
  for (uint64_t first = 0; first < uint64_t{1} << 32; first += step * count) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::bit_cast<float>(static_cast<uint32_t>(first + i * step));
    int32_t errors = 0;
    std::vector<void*> bufs{x.data(), y.data()};
    ASSERT_EQ(scaled.run(bufs, {}, 0, &errors), 0);
    bufs[1] = z.data();
    ASSERT_EQ(plain.run(bufs, {}, 0, &errors), 0);
    for (size_t i = 0; i < x.size(); ++i)
      wrong += std::bit_cast<uint32_t>(y[i]) != std::bit_cast<uint32_t>(z[i]) && !(std::isnan(y[i]) && std::isnan(z[i]));
  }
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace hologram::test
