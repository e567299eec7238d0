// tests/support/programs/reduce_test.cpp: reductions of many lengths, along rows and down columns, against the interpreter.
#include "support/differential.h"

namespace hologram::test {
namespace {

using ir::Op;

struct Case {
  std::vector<int64_t> parallel, rows;
  int lane_axis;
  bool symbolic = false;
  DType storage = DType::f32, type = DType::f32;
  std::vector<Op> ops{Op::reduce_sum};
  bool tree = false;
  bool alone = false;  // no second stage
};

// out_k[p] = op_k over rows of f(x[p, r]); with several stages the second one uses the first one's result.
atlas::Program make(const Case& c) {
  atlas::Program p;
  std::vector<Expr> parallel, rows;
  auto dimension = [&](int64_t n) { return c.symbolic ? Expr::symbol(p.num_symbols++) : Expr(n); };
  for (int64_t n : c.parallel) parallel.push_back(dimension(n));
  for (int64_t n : c.rows) rows.push_back(dimension(n));
  auto& b = p.loop();
  std::vector<Expr> i = add_axes(b, parallel, rows);
  b.lane_axis = c.lane_axis;
  // Column reductions read with the lanes contiguous: rows outermost in memory.
  bool columns = c.lane_axis == b.parallel_rank - 1;
  Expr offset(0), out(0), size(1), outs(1);
  auto append = [&](size_t axis) {
    offset = offset * b.axes[axis].extent + i[axis];
    size *= b.axes[axis].extent;
  };
  auto rank = static_cast<size_t>(b.parallel_rank);
  if (columns)
    for (size_t a = rank; a < b.axes.size(); ++a) append(a);
  for (size_t a = 0; a < rank; ++a) append(a);
  if (!columns)
    for (size_t a = rank; a < b.axes.size(); ++a) append(a);
  for (size_t a = 0; a < rank; ++a) {
    out = out * b.axes[a].extent + i[a];
    outs *= b.axes[a].extent;
  }
  p.buffers.push_back({c.storage, Access::read, size});
  b.stages.resize(3);
  b.stages[0].kind = atlas::StageKind::row;
  BodyBuilder first(b.stages[0].body);
  Val x = first.load(0, c.storage, offset);
  if (c.storage != c.type) x = first.cast(x, c.type);
  for (Op op : c.ops) b.stages[0].reductions.push_back({op, c.type, x.id, c.tree});
  // A second row stage that stores and reduces with what the first found.
  b.stages[1].kind = atlas::StageKind::row;
  bool index = ir::info(c.ops[0]).kind == ir::OpKind::reduce_index;
  p.buffers.push_back({c.type, Access::write, size});
  BodyBuilder body(b.stages[1].body);
  Val y = body.load(0, c.storage, offset);
  if (c.storage != c.type) y = body.cast(y, c.type);
  Val a = body.accumulator(0, index ? DType::i64 : c.type);
  if (index) a = body.cast(a, c.type);
  Val z = body.op(c.type == DType::b8 ? Op::bit_xor : Op::add, y, a);
  body.store(1, offset, z);
  Op again = c.type == DType::b8 ? Op::reduce_max : Op::reduce_sum;
  b.stages[1].reductions.push_back({again, c.type, z.id, false});
  if (c.alone) b.stages.erase(b.stages.begin() + 1);
  b.stages.back().kind = atlas::StageKind::point;
  BodyBuilder last(b.stages.back().body);
  for (size_t k = 0; k < c.ops.size() + !c.alone; ++k) {
    bool position = k < c.ops.size() && ir::info(c.ops[k]).kind == ir::OpKind::reduce_index;
    DType t = position ? DType::i64 : c.type;
    p.buffers.push_back({t, Access::write, outs});
    last.store(static_cast<int>(p.buffers.size()) - 1, out, last.accumulator(static_cast<int>(k), t));
  }
  return p;
}

void check(const Case& c, int specials = 2, bool zeros = false) {
  SCOPED_TRACE(testing::Message() << "rows " << testing::PrintToString(c.rows) << ", points " << testing::PrintToString(c.parallel)
                                  << ", lane axis " << c.lane_axis << (c.symbolic ? ", symbolic, " : ", ") << name_of(c.storage) << " as "
                                  << name_of(c.type));
  std::vector<int64_t> sizes;
  for (const auto& axes : {c.parallel, c.rows})
    if (c.symbolic) sizes.insert(sizes.end(), axes.begin(), axes.end());
  auto negative = [&](int buffer, char* to, int64_t n) {
    for (int64_t i = 0, size = size_of(c.storage); zeros && buffer == 0 && i < n * size; ++i) to[i] = i % size == size - 1 ? '\x80' : 0;
  };
  expect_same(make(c), {.symbols = sizes, .specials = specials, .chunks = {0, 3}, .prepare = negative});
}

constexpr int64_t lengths[] = {1, 2, 7, 63, 64, 65, 100, 4095, 4096, 4097, 10000, 40000};

TEST(Reduce, SumsOfManyLengthsAlongRows) {
  for (int64_t n : lengths)
    for (bool symbolic : {false, true}) check({{2}, {n}, 1, symbolic}, 0);
  check({{2}, {0}, 1, true}, 0);
  check({{2}, {0}, 1, false}, 0);
}

TEST(Reduce, SumsOfManyLengthsDownColumns) {
  for (int64_t n : lengths) check({{21}, {n}, 0, n % 2 == 0}, 0);
  check({{21}, {0}, 0, true}, 0);
}

// From 128 rows on (AVX2: 32), columns take the elements of one partial after the other.
TEST(Reduce, ColumnsByPartial) {
  for (int64_t n : {127, 128, 129, 191, 4160, 8200})
    for (bool symbolic : {false, true}) check({{70}, {n}, 0, symbolic, DType::f32, DType::f32, {Op::reduce_sum, Op::reduce_max}}, 0);
  for (int64_t n : {32, 50, 130}) check({{2, n == 130 ? 1100 : 300}, {n}, 1, false}, 1);
  check({{2120}, {131}, 0, false}, 0);  // two blocks of columns, and what is left
}

// From 16 to 256 known rows of 16 columns or more, eight partials go together.
TEST(Reduce, ColumnsByEightPartials) {
  for (int64_t n : {15, 16, 17, 20, 24, 25, 63, 64, 65, 100, 129, 192, 255, 256, 257}) {
    for (int64_t columns : {16, 75, 300})
      check({{2, columns}, {n}, 1, false, DType::f32, DType::f32, {Op::reduce_sum}, false, true}, 0, columns == 75);
    for (DType t : {DType::b8, DType::u8, DType::i64, DType::f64})
      check({{2, 40}, {n}, 1, false, t, t, {t == DType::f64 ? Op::reduce_prod : Op::reduce_max}, false, true}, 3);
    for (DType t : {DType::bf16, DType::f16}) check({{37}, {n}, 0, false, t, DType::f32, {Op::reduce_sum}, false, true}, n % 2);
  }
}

TEST(Reduce, SeveralRowAxes) {
  for (auto rows : std::vector<std::vector<int64_t>>{{3, 64}, {33, 192}, {70, 64}, {5, 7}, {100, 49}, {2, 3, 5}, {9, 1000}, {1, 1}})
    for (bool symbolic : {false, true}) {
      check({{2, 2}, rows, 1 + static_cast<int>(rows.size()), symbolic}, 0);
      check({{2, 37}, rows, 1, symbolic}, 0);
      check({{3}, rows, -1, symbolic}, 0);
    }
}

TEST(Reduce, EveryOpOnEveryType) {
  constexpr DType types[] = {DType::b8,  DType::u8,  DType::i8,  DType::i16, DType::i32, DType::i64,
                             DType::f32, DType::f64, DType::u16, DType::u32, DType::u64};
  for (DType t : types)
    for (int lane_axis : {0, 1}) {
      std::vector<Op> ops{Op::reduce_max, Op::reduce_min};
      if (t != DType::b8) ops.insert(ops.begin(), {Op::reduce_sum, Op::reduce_prod, Op::reduce_argmax, Op::reduce_argmin});
      check({{19}, {150}, lane_axis, false, t, t, ops}, 3);
    }
  for (DType t : {DType::bf16, DType::f16})
    for (int lane_axis : {0, 1}) check({{19}, {150}, lane_axis, false, t, DType::f32, {Op::reduce_sum, Op::reduce_max}}, 1);
}

// As many as would not fit into shared memory beside each other.
TEST(Reduce, ManyDownColumns) {
  std::vector<Op> ops;
  for (int n = 0; n < 13; ++n) ops.insert(ops.end(), {Op::reduce_sum, Op::reduce_max});
  check({{19}, {20}, 0, false, DType::f64, DType::f64, ops}, 0);
}

TEST(Reduce, ArgmaxAlone) {
  for (int64_t n : {1, 5, 64, 1000, 5000})
    for (int lane_axis : {0, 1})
      for (int specials : {0, 4, 16}) check({{17}, {n}, lane_axis, false, DType::f32, DType::f32, {Op::reduce_argmax}}, specials);
}

TEST(Reduce, TreesOfGivenBlocks) {
  for (int64_t n : {1, 2, 3, 4, 7, 13, 64, 100})
    for (int lane_axis : {0, 1}) check({{5}, {n}, lane_axis, false, DType::f32, DType::f32, {Op::reduce_sum}, true}, 0);
}

}  // namespace
}  // namespace hologram::test
