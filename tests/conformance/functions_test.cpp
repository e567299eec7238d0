// tests/conformance/functions_test.cpp: the elementary functions give the interpreter's bits on every backend.
#include "atlas/programs.h"
#include "support/differential.h"

namespace hologram::test {
namespace {

class Functions : public testing::TestWithParam<DType> {};

// Of pairs of special values, and others at random.
TEST_P(Functions, OfSpecialValuesAndOthers) {
  const DType type = GetParam();
  const std::vector<uint64_t> special = special_values(type);
  int count = 0;
  for (int k = 0; k < ir::num_ops; ++k) {
    const auto op = static_cast<Op>(k);
    if (!ir::is_elementwise(op) || (ir::info(op).flags & ir::exact)) continue;
    SCOPED_TRACE(std::string(ir::name_of(op)));
    ++count;
    const auto values = static_cast<int64_t>(special.size());
    const bool two = ir::info(op).arity == 2;
    const int64_t chosen = two ? values * 5 : values, n = chosen + 203;  // with a tail
    Inputs inputs;
    inputs.prepare = [&](int buffer, char* to, int64_t) {
      const auto size = static_cast<size_t>(size_of(type));
      for (int64_t e = 0; e < chosen; ++e) {
        const int64_t at = buffer == 0 ? e : e + e / values * 7 + 3;
        std::memcpy(to + static_cast<size_t>(e) * size, &special[static_cast<size_t>(at % values)], size);
      }
    };
    expect_same(elementwise(op, type, ir::info(op).arity, type, Expr(n)), inputs);
  }
  EXPECT_GT(count, 20);
}

INSTANTIATE_TEST_SUITE_P(Types, Functions, testing::Values(DType::f32, DType::f64),
                         [](const auto& i) { return std::string(name_of(i.param)); });

}  // namespace
}  // namespace hologram::test
