// tests/runtime/strips_test.cpp: how routines without a compiler cut a program into units.
#include "strips/routine.h"
#include "support/differential.h"
#include "support/test.h"

namespace hologram::test {
namespace {

// out[i, j] = x[j, i], where i < `inside`.
atlas::Program turned(int64_t rows, int64_t lanes, int64_t inside) {
  atlas::Program p;
  p.loop().stages.push_back({atlas::StageKind::point, {}, {}, {}});
  auto i = add_axes(p.loop(), {Expr(rows), Expr(lanes)}, {});
  p.loop().lane_axis = 1;
  p.buffers = {{DType::f32, Access::read, Expr(rows * lanes)}, {DType::f32, Access::write, Expr(rows * lanes)}};
  BodyBuilder b(p.loop().stages[0].body);
  Val guard = inside < rows ? b.lt(b.index(i[0]), b.integer(DType::i64, inside)) : Val{};
  b.store(1, i[0] * Expr(lanes) + i[1], b.load(0, DType::f32, i[1] * Expr(rows) + i[0], guard));
  return p;
}

int64_t units(const atlas::Program& p) {
  const strips::Vectors* vectors = strips::avx2_vectors();
  return vectors ? strips::routine_of(p, *vectors)->total.constant_value() : -1;
}

TEST(Strips, TakeShortRowsTogether) {
  if (!strips::avx2_vectors()) GTEST_SKIP() << "no loops for this architecture";
  EXPECT_EQ(units(turned(100, 32, 100)), 13);  // 8 rows each
  EXPECT_EQ(units(turned(100, 200, 100)), 100);
  EXPECT_EQ(units(turned(100, 32, 99)), 100);  // one of the rows differs
}

}  // namespace
}  // namespace hologram::test
