// tests/atlas/builder_test.cpp: hash-consing, folding and the operand types of bodies.
#include "atlas/programs.h"
#include "base/error.h"
#include "ir/scalar.h"
#include "support/test.h"

namespace hologram::test {
namespace {

TEST(Builder, SameValueOnce) {
  atlas::Body body;
  BodyBuilder b(body);
  Val x = b.load(0, DType::f32, Expr(3)), y = b.load(0, DType::f32, Expr(3));
  EXPECT_EQ(x.id, y.id);
  EXPECT_EQ(b.add(x, y).id, b.add(x, x).id);
  EXPECT_NE(b.sub(x, b.number(DType::f32, 1)).id, b.sub(x, b.number(DType::f32, 2)).id);
  EXPECT_EQ(body.instrs.size(), 6u);
}

TEST(Builder, LoadsEndAtStores) {
  atlas::Body body;
  BodyBuilder b(body);
  Val x = b.load(0, DType::f32, Expr(0)), other = b.load(1, DType::f32, Expr(0));
  b.store(0, Expr(0), other);
  EXPECT_NE(b.load(0, DType::f32, Expr(0)).id, x.id);
  EXPECT_EQ(b.load(1, DType::f32, Expr(0)).id, other.id);
  BodyBuilder again(body);
  EXPECT_EQ(again.load(1, DType::f32, Expr(0)).id, other.id);
  EXPECT_NE(again.load(0, DType::f32, Expr(0)).id, x.id);
}

TEST(Builder, FoldsExactArithmetic) {
  atlas::Body body;
  BodyBuilder b(body);
  Val x = b.add(b.number(DType::f32, 0.1), b.number(DType::f32, 0.2));
  ASSERT_EQ(body.instrs[x.id].code, atlas::Code::constant);
  EXPECT_EQ(body.instrs[x.id].bits, std::bit_cast<uint32_t>(0.1f + 0.2f));
  Val t = b.lt(b.integer(DType::i32, -1), b.integer(DType::i32, 1));
  EXPECT_EQ(t.type, DType::b8);
  EXPECT_EQ(body.instrs[t.id].bits, 1u);
  Val y = b.load(0, DType::f32, Expr(0));
  EXPECT_EQ(b.select(t, y, x).id, y.id);
  EXPECT_EQ(b.cast(y, DType::f32).id, y.id);
  EXPECT_EQ(body.instrs[b.index(Expr(7)).id].code, atlas::Code::constant);
  Val q = b.div(b.integer(DType::i32, 1), b.integer(DType::i32, 0));  // sets the sticky error
  EXPECT_EQ(body.instrs[q.id].code, atlas::Code::arithmetic);
  Val h = b.cast(b.load(1, DType::bf16, Expr(0)), DType::f32), m = b.op(Op::max, h, b.number(DType::f32, 2)), p = b.mul(h, m);
  auto rounded = [&](Val v) { return b.cast(b.cast(v, DType::bf16), DType::f32).id; };
  EXPECT_EQ(rounded(m), m.id);
  for (Val v : {p, b.op(Op::sign, p), b.op(Op::max, h, b.number(DType::f32, 0.1))})  // a NaN's sign is that NaN
    EXPECT_NE(rounded(v), v.id);
}

TEST(Builder, FinishRepeatsAnEarlierValue) {
  atlas::Body body;
  BodyBuilder b(body);
  Val x = b.load(0, DType::f32, Expr(0));
  b.load(1, DType::f32, Expr(0));
  b.finish(x);
  EXPECT_EQ(body.instrs.back(), body.instrs[x.id]);
  size_t size = body.instrs.size();
  b.finish({static_cast<atlas::ValueId>(size - 1), DType::f32});
  EXPECT_EQ(body.instrs.size(), size);
}

TEST(Builder, RejectsWrongTypes) {
  atlas::Body body;
  BodyBuilder b(body);
  Val x = b.load(0, DType::f32, Expr(0)), h = b.load(1, DType::bf16, Expr(0)), t = b.load(2, DType::b8, Expr(0));
  EXPECT_THROW(b.add(x, h), Error);
  EXPECT_THROW(b.add(h, h), Error);  // storage type
  EXPECT_THROW(b.sub(t, t), Error);
  EXPECT_THROW(b.op(Op::sqrt, t), Error);
  EXPECT_THROW(b.op(Op::bit_and, x, x), Error);
  EXPECT_THROW(b.select(x, x, x), Error);
  EXPECT_THROW(b.bitcast(x, DType::f64), Error);
  EXPECT_THROW(b.op(Op::reduce_sum, x), Error);
  EXPECT_NO_THROW(b.select(t, h, h));
  EXPECT_EQ(b.cast(h, DType::f32).type, DType::f32);
}

}  // namespace
}  // namespace hologram::test
