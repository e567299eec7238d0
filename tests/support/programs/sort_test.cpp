// tests/support/programs/sort_test.cpp: sort blocks against the interpreter.
#include "atlas/programs.h"
#include "support/differential.h"

namespace hologram::test {
namespace {

class Sort : public testing::TestWithParam<DType> {};

// Rows of many lengths, special values among them, whole and only some of their places.
TEST_P(Sort, RowsOfEveryLength) {
  for (bool descending : {false, true})
    for (auto [n, count] : std::vector<std::pair<int64_t, int64_t>>{
             {0, 0}, {1, 1}, {17, 17}, {31, 9}, {33, 33}, {65, 8}, {128, 128}, {129, 2}, {300, 300}, {300, 75}, {5000, 7}, {4200, 100}})
      for (auto [specials, first] : std::vector<std::pair<int, int64_t>>{{1, 0}, {16, 0}, {16, (n - count) / 2}}) {
        if (n > 1000 && descending == (specials == 1)) continue;
        SCOPED_TRACE(n);
        atlas::Program p = row_order(GetParam(), descending, static_cast<int>(first));
        const std::vector<int64_t> symbols = {n > 1000 ? 1 : 3, n, count};
        expect_same(p, {.symbols = symbols, .seed = static_cast<uint64_t>(n + count), .specials = specials, .chunks = {0, 1}});
      }
}

INSTANTIATE_TEST_SUITE_P(Types, Sort, testing::Values(DType::f32, DType::f64, DType::i64, DType::u32, DType::i16, DType::u8, DType::b8));

// Equal keys keep their order; keys come through a body, and down columns.
TEST(SortBlocks, EqualKeysDownColumns) {
  Expr n(4500), m(2);
  atlas::Program p;
  p.buffers = {{DType::i32, Access::read, n * m}, {DType::i64, Access::write, n * m}};
  atlas::SortBlock& b = p.block.emplace<atlas::SortBlock>();
  b.axes = {{AxisKind::parallel, m}, {AxisKind::row, n}, {AxisKind::parallel, n}};
  b.batch_rank = 1;
  b.key_type = DType::i32;
  BodyBuilder key(b.key), out(b.epilogue);
  Val x = key.load(0, DType::i32, Expr::axis(1, n) * m + Expr::axis(0, m));
  key.finish(key.op(ir::Op::bit_and, x, key.integer(DType::i32, 7)));
  Val at = out.accumulator(0, DType::i64);
  out.store(1, Expr::axis(2, n) * m + Expr::axis(0, m), out.mul(at, out.integer(DType::i64, -2)));
  expect_same(p);
}

}  // namespace
}  // namespace hologram::test
