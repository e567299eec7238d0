// tests/math/emitted_test.cpp: bodies written by emit_math hold exact arithmetic only and give the native bits.
#include "native.h"
#include "run_body.h"
#include "support/test.h"

namespace hologram::atlas::math {
namespace {

struct Case {
  ir::Op op;
  DType type;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (int k = 0; k < ir::num_ops; ++k) {
    auto op = static_cast<ir::Op>(k);
    if (!ir::is_elementwise(op) || (ir::info(op).flags & ir::exact)) continue;
    all.push_back({op, DType::f32});
    all.push_back({op, DType::f64});
  }
  return all;
}

struct Sequence {
  Body body;
  ValueId result = no_value;
};

Sequence emitted(Case c) {
  Sequence s;
  BodyBuilder b(s.body);
  std::vector<Val> args;
  for (int k = 0; k < ir::info(c.op).arity; ++k) args.push_back(b.load(k, c.type, Expr()));
  Val result = emit_math(b, c.op, args);
  EXPECT_EQ(result.type, c.type);
  s.result = result.id;
  return s;
}

/// Arbitrary bits, ordinary numbers and special ones.
template <class T>
std::vector<T> samples(DType type, int seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 4);
  std::vector<T> v = {T(0), -T(0), T(1), T(-1), T(0.5), T(INFINITY), T(-INFINITY), T(NAN), T(-2), T(3)};
  while (v.size() < 400) {
    v.push_back(static_cast<T>(normal(random)));
    v.push_back(static_cast<T>(ir::as_double(type, random() >> (64 - 8 * sizeof(T)))));
  }
  return v;
}

template <class T>
void compare(const Sequence& s, Case c) {
  std::vector<T> x = samples<T>(c.type, 1), y = samples<T>(c.type, 2);
  std::rotate(y.begin(), y.begin() + 3, y.begin() + 10);
  std::vector<T> want = ir::info(c.op).arity == 2 ? evaluate(c.op, x, y) : evaluate(c.op, x);
  for (size_t i = 0; i < x.size(); ++i) {
    const auto operand = [&](int buffer) { return ir::bits_of(c.type, double{buffer ? y[i] : x[i]}); };
    const uint64_t got = values_of(s.body, operand)[s.result];
    if (std::isnan(want[i]) && std::isnan(ir::as_double(c.type, got))) continue;
    EXPECT_EQ(got, ir::bits_of(c.type, double{want[i]})) << "at " << x[i] << " " << y[i];
  }
}

class Emitted : public testing::TestWithParam<Case> {};

TEST_P(Emitted, IsExactArithmetic) {
  Sequence s = emitted(GetParam());
  for (const Instr& i : s.body.instrs) {
    if (i.code == Code::constant || i.code == Code::load || i.code == Code::lookup) continue;
    ASSERT_EQ(i.code, Code::arithmetic);
    EXPECT_TRUE(ir::info(i.op).flags & ir::exact) << ir::name_of(i.op);
  }
}

TEST_P(Emitted, GivesTheNativeBits) {
  Case c = GetParam();
  Sequence s = emitted(c);
  if (c.type == DType::f32)
    compare<float>(s, c);
  else
    compare<double>(s, c);
}

INSTANTIATE_TEST_SUITE_P(Math, Emitted, testing::ValuesIn(cases()), [](const auto& test) {
  return std::string(ir::name_of(test.param.op)) + "_" + std::string(name_of(test.param.type));
});

TEST(EmitMath, RefusesOtherTypes) {
  Body body;
  BodyBuilder b(body);
  Val x = b.load(0, DType::i32, Expr());
  EXPECT_ANY_THROW(emit_math(b, ir::Op::exp, std::array{x}));
  Val y = b.load(0, DType::f32, Expr());
  EXPECT_ANY_THROW(emit_math(b, ir::Op::floor, std::array{y}));
}

}  // namespace
}  // namespace hologram::atlas::math
