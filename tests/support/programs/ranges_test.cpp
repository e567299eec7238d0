// tests/support/programs/ranges_test.cpp: loops whose bodies compare coordinates: concatenations, padding, triangles.
#include "backend/cpu/loops/ranges.h"
#include "codegen/differential.h"

namespace hologram::test {
namespace {

using ir::Op;

// Three parts along the lanes, and two along the axis before, of sizes that no vector divides.
TEST(Ranges, Concatenations) {
  for (bool symbolic : {false, true})
    for (bool along : {true, false}) {
      Expr m = symbolic ? Expr::symbol(0) : Expr(7), n = symbolic ? Expr::symbol(1) : Expr(203);
      Points t({m, n}, 2);
      const Expr &y = t.i[0], &x = t.i[1], &at = along ? x : y;
      Expr first = symbolic ? Expr::symbol(0) : Expr(3), second = first + Expr(along ? 65 : 2);
      t.p.buffers = std::vector(4, atlas::Buffer{DType::f32, Access::read, m * n});
      t.p.buffers[2].dtype = DType::bf16, t.p.buffers[3].access = Access::write;
      BodyBuilder b = t.body();
      Val in_first = b.lt(b.index(at), b.index(first)), in_second = b.lt(b.index(at), b.index(second));
      Val late = b.le(b.index(first), b.index(at));
      Val u = b.load(0, DType::f32, y * n + x, in_first), w = b.cast(b.load(2, DType::bf16, y * n + x), DType::f32);
      Val v = b.load(1, DType::f32, y * n + x, b.op(Op::bit_and, late, in_second));
      b.store(3, y * n + x, b.select(in_first, u, b.select(in_second, v, w)));
      expect_same(t.p, {.symbols = {7, 203}, .chunks = {0, 1, 100, 211}});
    }
}

TEST(Ranges, PaddingOnEverySide) {
  for (int64_t width : {5, 64, 150}) {
    Points t({Expr(6), Expr(9), Expr(width + 7)});
    Expr y = t.i[1] - Expr(2), x = t.i[2] - Expr(3);
    Expr from = (t.i[0] * Expr(5) + y) * Expr(width) + x, to = (t.i[0] * Expr(9) + t.i[1]) * Expr(width + 7) + t.i[2];
    t.p.buffers = {{DType::f32, Access::read, Expr(30 * width)}, {DType::f32, Access::write, Expr(54 * (width + 7))}};
    BodyBuilder b = t.body();
    auto within = [&](const Expr& e, int64_t n) {
      return b.op(Op::bit_and, b.le(b.integer(DType::i64, 0), b.index(e)), b.lt(b.index(e), b.integer(DType::i64, n)));
    };
    Val inside = b.op(Op::bit_and, within(y, 5), within(x, width));
    b.store(1, to, b.select(inside, b.load(0, DType::f32, from, inside), b.number(DType::f32, -2)));
    expect_same(t.p, {.chunks = {0, 1, 37}});
  }
}

// Where a row's range begins depends on the row, and on multiples of the coordinate.
TEST(Ranges, TrianglesSlopesAndDiagonals) {
  for (auto [op, slope] :
       std::vector<std::pair<Op, int>>{{Op::le, 1}, {Op::le, -1}, {Op::le, 3}, {Op::le, -2}, {Op::eq, 1}, {Op::ne, -2}}) {
    Points t({Expr(40), Expr(303)});
    Expr to = t.i[0] * Expr(303) + t.i[1];
    t.p.buffers = {{DType::i16, Access::read, Expr(40 * 303)}, {DType::i16, Access::write, Expr(40 * 303)}};
    BodyBuilder b = t.body();
    Val keep = b.op(op, b.index(t.i[1] * Expr(slope)), b.index(t.i[0] * Expr(2) - Expr(11)));
    Val other = b.op(Op::bit_not, b.lt(b.index(t.i[0]), b.add(b.index(t.i[1]), b.integer(DType::i64, -5))));
    Val x = b.load(0, DType::i16, to);
    b.store(1, to, b.select(b.op(Op::bit_or, keep, other), x, b.integer(DType::i16, 9)), b.op(Op::bit_or, keep, other));
    expect_same(t.p, {.chunks = {0, 50}});
  }
}

// An index that only the other side would use is out of range all the same.
TEST(Ranges, ErrorsOfValuesThatNothingUses) {
  Points t({Expr(300)});
  t.p.buffers = {{DType::i64, Access::read, Expr(300)}, {DType::f32, Access::read, Expr(10)}, {DType::f32, Access::write, Expr(300)}};
  BodyBuilder b = t.body();
  Val k = b.clamp_index(b.load(0, DType::i64, t.i[0]), Expr(10));
  Val x = b.load(1, DType::f32, Expr::value(static_cast<int>(k.id), Expr(10)));
  b.store(2, t.i[0], b.select(b.lt(b.index(t.i[0]), b.integer(DType::i64, 100)), x, b.number(DType::f32, 1)));
  for (int64_t bad : {-1, 50, 250})
    expect_same(t.p, {.prepare = [&](int buffer, char* memory, int64_t count) {
                  if (buffer == 0)
                    for (int64_t i = 0; i < count; ++i) reinterpret_cast<int64_t*>(memory)[i] = i == bad ? 77 : i % 10;
                }});
}

TEST(Ranges, WhatAnAssumptionLeaves) {
  Points t({Expr(64)});
  t.p.buffers = {{DType::f32, Access::read, Expr(64)}, {DType::f32, Access::write, Expr(64)}};
  BodyBuilder b = t.body();
  Val low = b.lt(b.index(t.i[0]), b.integer(DType::i64, 20));
  b.store(1, t.i[0], b.select(low, b.load(0, DType::f32, t.i[0], low), b.number(DType::f32, 3)));
  const atlas::Body& body = t.p.loop().stages[0].body;
  auto found = cpu::first_comparison(body, 0);
  ASSERT_TRUE(found);
  EXPECT_EQ(std::tuple(found->id, found->slope, found->rest.str()), std::tuple(low.id, -1, "19"));
  atlas::Body copied = cpu::assume(body, low.id, true), constant = cpu::assume(body, low.id, false);
  ASSERT_EQ(copied.instrs.size(), 2u);  // a load without a guard, a store
  EXPECT_EQ(copied.instrs[0].args[0], atlas::no_value);
  ASSERT_EQ(constant.instrs.size(), 2u);
  EXPECT_EQ(constant.instrs[0].code, atlas::Code::constant);
  EXPECT_FALSE(cpu::first_comparison(copied, 0));
}

// One assumption decides the comparisons that follow from it: rows of a reflected image are three.
TEST(Ranges, WhatFollowsFromAnAssumption) {
  Points t({Expr(66)});
  t.p.buffers = {{DType::f32, Access::write, Expr(66)}};
  BodyBuilder b = t.body();
  auto at_least = [&](int64_t n) { return b.le(b.integer(DType::i64, n), b.index(t.i[0])); };
  Val beyond = at_least(65), within = at_least(1), before = b.lt(b.index(t.i[0]), b.integer(DType::i64, 65));
  auto number = [&](double x) { return b.number(DType::f32, x); };
  b.store(0, t.i[0], b.select(beyond, number(1), b.select(before, b.select(within, number(2), number(3)), number(4))));
  const atlas::Body& body = t.p.loop().stages[0].body;
  EXPECT_EQ(cpu::assume(body, beyond.id, true).instrs.size(), 2u);
  atlas::Body inner = cpu::assume(body, beyond.id, false);
  auto left = cpu::first_comparison(inner, 0);
  ASSERT_TRUE(left);
  EXPECT_EQ(cpu::assume(inner, left->id, true).instrs.size(), 2u);
  EXPECT_EQ(cpu::assume(inner, left->id, false).instrs.size(), 2u);
  expect_same(t.p);
}

// The second range of a second range begins behind the first one's end; where most points lie is taken apart first.
TEST(Ranges, RangesOfRanges) {
  Points t({Expr(18), Expr(60)});
  t.p.buffers = {{DType::f32, Access::write, Expr(18 * 60)}};
  BodyBuilder b = t.body();
  auto below = [&](const Expr& e, int64_t n) { return b.lt(b.index(e), b.integer(DType::i64, n)); };
  auto number = [&](int64_t x) { return b.number(DType::f32, static_cast<double>(x)); };
  Val few = below(t.i[0], 1), rare = number(0);
  for (int64_t n = 32; n > 20; --n) rare = b.select(below(t.i[1], n), number(n), rare);
  Val inner = b.select(below(t.i[1], 10), number(1), b.select(below(t.i[1], 19), number(2), number(3)));
  b.store(0, t.i[0] * Expr(60) + t.i[1], b.select(few, rare, inner));
  double masked = 0;
  for (const cpu::Range& r : cpu::ranges_of(t.p.loop().stages[0].body, t.p.loop().axes, 1, 8))
    if (!r.split && cpu::first_comparison(r.body, 1)) masked += r.share;
  EXPECT_LT(masked, 0.1);
  expect_same(t.p);
}

}  // namespace
}  // namespace hologram::test
