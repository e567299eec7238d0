// tests/support/programs/machines_test.cpp: products, what follows them, attention, convolutions
// and large buffers as the planner of each machine has them, against the interpreter.
#include "atlas/programs.h"
#include "codegen/attentions.h"
#include "codegen/product_tails.h"
#include "codegen/products.h"
#include "codegen/winograds.h"
#include "support/differential.h"

namespace hologram::test {
namespace {

// Right operands lie in panels where the machine has some.
template <class Case>
ProgramFor program_of(const Case& c) {
  return [c](const schedule::Machine& machine) {
    const schedule::Panel panel = machine.panel(c.operand, c.acc);
    Case own = c;
    own.packed = c.packed && panel.width > 0;
    return make_program(own, own.packed ? panel.width : 1, own.packed ? panel.group : 1);
  };
}

void check(const products::Case& c) {
  SCOPED_TRACE(testing::Message() << c);
  const std::vector<int64_t> sizes = {c.m, c.n / c.parts, c.k};
  expect_same_on_each(program_of(c), {.symbols = c.symbolic ? sizes : std::vector<int64_t>{}});
}

TEST(Machines, Products) {
  using products::Tail;
  const std::array<int64_t, 3> sizes[] = {{1, 300, 7}, {5, 64, 16}, {13, 33, 0}, {31, 61, 17}, {40, 70, 400}};
  for (bool packed : {false, true})
    for (auto [m, n, k] : sizes) {
      check({.m = m, .n = n, .k = k, .packed = packed, .tail = Tail::gelu_residual});
      check({.m = m, .n = n, .k = k, .batch = 2, .packed = packed, .symbolic = true});
    }
  for (bool turned : {false, true}) check({.m = 33, .n = 50, .k = 19, .lhs_transposed = turned, .rhs_transposed = !turned});
  check({.m = 20, .n = 40, .k = 30, .packed = true, .prologue = true, .tail = Tail::bias});
  check({.m = 20, .n = 80, .k = 500, .packed = true, .reproducible = true});
  check({.m = 9, .n = 96, .k = 40, .packed = true, .tail = Tail::bias, .parts = 3});
}

TEST(Machines, ProductsOfEveryType) {
  for (auto [operand, acc] : {std::pair{DType::f64, DType::f64},
                              {DType::f16, DType::f32},
                              {DType::bf16, DType::f32},
                              {DType::i8, DType::i32},
                              {DType::u8, DType::i32},
                              {DType::i32, DType::i32},
                              {DType::i64, DType::i64}})
    for (bool packed : {false, true})
      for (int64_t m : {1, 24}) check({.m = m, .n = 75, .k = 33, .operand = operand, .acc = acc, .packed = packed});
  check({.m = 24, .n = 75, .k = 33, .operand = DType::i8, .acc = DType::i32, .mixed = true});
}

// Operands drawn from a list.
void check_with(const products::Case& c, const std::vector<double>& values, bool nan_for_infinity = false, double tolerance = 0) {
  SCOPED_TRACE(testing::Message() << c);
  Inputs inputs{.tolerance = tolerance, .nan_for_infinity = nan_for_infinity};
  std::mt19937_64 random(5);
  inputs.prepare = [&](int buffer, char* to, int64_t count) {
    if (buffer > 1) return;
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t bits = ir::bits_of(DType::bf16, values[random() % values.size()]);
      std::memcpy(to + 2 * i, &bits, 2);
    }
  };
  expect_same_on_each(program_of(c), inputs);
}

// Infinite operands and NaN give what a chain gives, with the processor's bfloat16 instructions, too. Those may give NaN for a sum that
// overflows, and for an infinity times a subnormal number, which they take for 0 (docs/numerics.md).
TEST(Machines, SpecialOperandsOfBfloat16Products) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> ordinary{0.0, -0.0, 1, -1, 2.5, -0.75, 3, 1e18};
  auto with = [&](std::vector<double> values) {
    std::vector<double> out;
    for (int n = 0; n < 8; ++n) out.insert(out.end(), ordinary.begin(), ordinary.end());
    out.insert(out.end(), values.begin(), values.end());
    return out;
  };
  for (bool packed : {false, true})
    for (int64_t m : {1, 40})
      for (int64_t k : {2, 9, 70}) {
        // What fills up the last pair of a packed operand is zero, not drawn: there are only pairs.
        const int64_t depth = packed ? k + k % 2 : k;
        const products::Case c{.m = m, .n = 80, .k = depth, .operand = DType::bf16, .packed = packed};
        check_with(c, with({inf}));
        check_with(c, with({-inf, std::nan("")}));
        check_with(c, {inf, -inf, 0.0, 1});
        check_with(c, with({0x1p64, -0x1p64, 0x1.8p63}), true);
        check_with(c, {0x1.fep127, -0x1.fep127, 1, -1}, true);
        check_with(c, with({inf, 0x1p-130}), true, 0x1p-60);
      }
}

TEST(Machines, WhatFollowsAProductsRows) {
  using product_tails::Follows;
  for (Follows f : {Follows::layer_norm, Follows::softmax, Follows::running_sum, Follows::largest})
    for (auto [m, n, k] : {std::array<int64_t, 3>{1, 2, 1}, {29, 75, 50}, {61, 200, 9}}) {
      const product_tails::Case c{.m = m, .n = n, .k = k, .batch = m == 29 ? 3 : 0, .follows = f};
      SCOPED_TRACE(testing::Message() << c);
      expect_same_on_each(program_of(c), {.specials = 0});
    }
}

TEST(Machines, Attention) {
  using attentions::Score;
  for (Score score : {Score::plain, Score::key_bias, Score::full_bias, Score::keep_mask})
    for (bool symbolic : {false, true})
      for (DType t : {DType::f32, DType::bf16}) {
        if (symbolic && t == DType::bf16) continue;
        attentions::Case c{1, 4, 2, 19, 37, 16, 24, score == Score::plain, score, t, symbolic};
        SCOPED_TRACE(testing::Message() << c);
        expect_same(make_program(c), {.symbols = c.symbols(), .specials = 0, .tolerance = t == DType::f32 ? 1e-5 : 2e-2});
      }
}

TEST(Machines, Convolutions) {
  for (const winograds::Convolution& c :
       {winograds::Convolution{2, 33, 9, 8, 35, 1}, {3, 20, 7, 11, 70, 0, true}, {2, 24, 12, 13, 24, 2, false, true}}) {
    SCOPED_TRACE(testing::Message() << c);
    ir::Graph g;
    build(g, c);
    Inputs inputs;
    if (c.symbolic_batch) inputs.symbols = {c.batch};
    size_t programs = 1;
    for (size_t n = 0; n < programs; ++n)
      expect_same_on_each(
          [&](const schedule::Machine& machine) {
            schedule::Plan plan = schedule::make_plan(g, {.machine = &machine, .is_static = [](int i) { return i == 1; }});
            programs = std::max(programs, plan.programs.size());
            return plan.programs[std::min(n, plan.programs.size() - 1)];
          },
          inputs);
  }
}

// The buffers are said to be larger than caches; the programs touch a piece of them.
TEST(Machines, LargeBuffers) {
  for (ir::Op op : {ir::Op::gelu, ir::Op::neg}) {
    atlas::Program p = elementwise(op, DType::f32, 1, DType::f32);
    for (atlas::Buffer& b : p.buffers) b.extent = Expr(int64_t{1} << 20);
    for (int64_t points : {0, 5003}) expect_same(p, {.symbols = {points}});
  }
}

}  // namespace
}  // namespace hologram::test
