// tests/math/emitted_test.cpp: bodies written by emit_math hold exact arithmetic only and give the
// native bits.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "atlas/math.h"
#include "ir/scalar.h"
#include "native.h"

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
  std::vector<ValueId> inputs;
  ValueId result = no_value;
};

Sequence emitted(Case c) {
  Sequence s;
  BodyBuilder b(s.body);
  std::vector<Val> args;
  for (int k = 0; k < ir::info(c.op).arity; ++k) {
    args.push_back(b.load(k, c.type, Expr()));
    s.inputs.push_back(args.back().id);
  }
  Val result = emit_math(b, c.op, args);
  EXPECT_EQ(result.type, c.type);
  s.result = result.id;
  return s;
}

uint64_t run(const Sequence& s, std::span<const uint64_t> inputs) {
  std::vector<uint64_t> values(s.body.instrs.size());
  for (size_t k = 0; k < inputs.size(); ++k) values[s.inputs[k]] = inputs[k];
  for (size_t id = 0; id < s.body.instrs.size(); ++id) {
    const Instr& i = s.body.instrs[id];
    if (i.code == Code::constant) values[id] = i.bits;
    if (i.code == Code::lookup) values[id] = i.table[values[i.args[0]] % i.table.size()];
    if (i.code != Code::arithmetic) continue;
    std::vector<uint64_t> args;
    for (ValueId a : i.args) {
      if (a != no_value) args.push_back(values[a]);
    }
    bool cast = ir::info(i.op).kind == ir::OpKind::cast;
    values[id] = ir::eval_scalar(i.op, cast ? i.from : i.type, args, result_type(i));
  }
  return values[s.result];
}

/// Arbitrary bits, ordinary numbers and special ones.
template <class T>
std::vector<T> samples(int n, int seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 4);
  std::vector<T> v = {T(0), -T(0), T(1), T(-1), T(0.5), T(INFINITY), T(-INFINITY), T(NAN), T(-2), T(3)};
  while (static_cast<int>(v.size()) < n) {
    v.push_back(static_cast<T>(normal(random)));
    uint64_t bits = random();
    if constexpr (sizeof(T) == 4)
      v.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    else
      v.push_back(std::bit_cast<double>(bits));
  }
  return v;
}

template <class T>
uint64_t bits_of(T v) {
  if constexpr (sizeof(T) == 4)
    return std::bit_cast<uint32_t>(v);
  else
    return std::bit_cast<uint64_t>(v);
}
template <class T>
T value_of(uint64_t bits) {
  if constexpr (sizeof(T) == 4)
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  else
    return std::bit_cast<double>(bits);
}

template <class T>
void compare(const Sequence& s, Case c) {
  std::vector<T> x = samples<T>(400, 1), y = samples<T>(400, 2);
  std::rotate(y.begin(), y.begin() + 3, y.begin() + 10);
  bool two = s.inputs.size() == 2;
  std::vector<T> want = two ? evaluate(c.op, x, y) : evaluate(c.op, x);
  for (size_t i = 0; i < x.size(); ++i) {
    std::vector<uint64_t> inputs = {bits_of(x[i])};
    if (two) inputs.push_back(bits_of(y[i]));
    uint64_t got = run(s, inputs);
    if (std::isnan(want[i]) && std::isnan(value_of<T>(got))) continue;
    EXPECT_EQ(got, bits_of(want[i])) << "at " << x[i] << " " << y[i];
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
