// tests/support/programs/scan_test.cpp: scans along rows against the interpreter.
#include "atlas/programs.h"
#include "base/error.h"
#include "support/differential.h"

namespace hologram::test {
namespace {

using ir::Op;

TEST(Scan, EveryTypeAndLength) {
  for (DType type : {DType::f32, DType::f64, DType::i64, DType::i8, DType::u32, DType::b8})
    for (Op op : {Op::reduce_sum, Op::reduce_prod, Op::reduce_max, Op::reduce_min}) {
      bool sums = op == Op::reduce_sum || op == Op::reduce_prod;
      if (type == DType::b8 ? sums : type != DType::f32 && op == Op::reduce_prod) continue;
      if (type != DType::f32 && op == Op::reduce_min) continue;
      atlas::Program p = row_scan(op, type);
      for (int64_t n : {3, 16, 203}) {
        SCOPED_TRACE(n);
        expect_same(p, {.symbols = {4, n}, .seed = static_cast<uint64_t>(n), .chunks = {0, 1}});
      }
    }
}

// Two running accumulators, one of rounded operands, and a known number of elements.
TEST(Scan, SeveralAccumulatorsOfKnownRows) {
  for (int64_t length : {2, 5, 16, 100}) {
    SCOPED_TRACE(length);
    Expr m(3), n(length);
    atlas::Program p;
    p.buffers = {{DType::bf16, Access::read, m * n}, {DType::bf16, Access::write, m * n}, {DType::f32, Access::write, m * n}};
    p.loop().stages.push_back({atlas::StageKind::scan, {}, {}, {}});
    auto i = add_axes(p.loop(), {m}, {n});
    p.loop().lane_axis = 1;
    atlas::Stage& s = p.loop().stages[0];
    s.running = {{Op::reduce_sum, DType::f32}, {Op::reduce_max, DType::f32}};
    BodyBuilder b(s.body);
    Expr at = i[0] * n + i[1];
    Val x = b.cast(b.load(0, DType::bf16, at), DType::f32);
    Val sum = b.accumulate(Op::reduce_sum, 0, x);
    b.store(1, at, b.cast(sum, DType::bf16));
    b.store(2, at, b.accumulate(Op::reduce_max, 1, b.op(Op::abs, b.sub(sum, x))));
    expect_same(p);
  }
}

// The carry of float32 sums is wider: a long row of ones and small numbers stays exact.
TEST(Scan, LongSumsKeepTheirBits) {
  constexpr int64_t n = 1 << 17;
  std::vector<float> x(n), out(n);
  for (int64_t i = 0; i < n; ++i) x[static_cast<size_t>(i)] = i % 16 ? 0.0f : 1.0f + 0x1p-20f;
  run(row_scan(Op::reduce_sum, DType::f32), {x.data(), out.data()}, {1, n});
  EXPECT_EQ(out.back(), static_cast<float>((1 + 0x1p-20) * (n / 16)));
}

TEST(Scan, VerifierKeepsItsRules) {
  auto refused = [](const std::function<void(atlas::Program&)>& change) {
    atlas::Program p = row_scan(Op::reduce_sum, DType::f32);
    change(p);
    EXPECT_THROW(atlas::verify(p), Error);
  };
  refused([](atlas::Program& p) { p.loop().lane_axis = 0; });
  refused([](atlas::Program& p) { p.loop().stages.push_back(p.loop().stages[0]); });
  refused([](atlas::Program& p) {
    p.loop().stages[0].body.instrs.pop_back();
    p.loop().stages[0].body.instrs.pop_back();
  });
  refused([](atlas::Program& p) {
    p.buffers[1].access = Access::read_write;
    p.loop().stages[0].body.instrs[0].buffer = 1;
  });
  EXPECT_NO_THROW(atlas::verify(row_scan(Op::reduce_sum, DType::f32)));
}

}  // namespace
}  // namespace hologram::test
