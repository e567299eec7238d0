// tests/support/programs/rows_test.cpp: kernels over rows whose stages overlap from row to row, scratch that
// lives in the output, and lines of few vectors.
#include "backend/cpu/loops/place_scratch.h"
#include "backend/cpu/loops/plan.h"
#include "codegen/differential.h"

namespace hologram::test {
namespace {

using ir::Op;

struct Softmax {
  std::vector<int64_t> points;
  int64_t columns;
  bool symbolic = false;
  bool masked = false;  // adds a row of one number per column, and scales by one per first axis
  Op first = Op::reduce_max;
  DType result = DType::f32;
};

// b0: x, b1: scratch, b2: result, b3: mask, b4: scale
atlas::Program make(const Softmax& c) {
  atlas::Program p;
  auto dimension = [&](int64_t n) { return c.symbolic ? Expr::symbol(p.num_symbols++) : Expr(n); };
  std::vector<Expr> points;
  Expr n(c.columns), position(0), count(1);
  for (int64_t m : c.points) points.push_back(dimension(m));
  std::vector<Expr> i = add_axes(p.loop(), points, {n});
  for (size_t a = 0; a < i.size(); ++a) {
    position = position * p.loop().axes[a].extent + i[a];
    count *= p.loop().axes[a].extent;
  }
  p.loop().lane_axis = static_cast<int>(i.size()) - 1;
  p.buffers = {{DType::f32, Access::read, count}, {DType::f32, Access::scratch, n}, {c.result, Access::write, count}};
  if (c.masked) {
    p.buffers.push_back({DType::f32, Access::read, n});
    p.buffers.push_back({DType::f32, Access::read, points[0]});
  }
  p.loop().stages.resize(3);
  for (auto& s : p.loop().stages) s.kind = atlas::StageKind::row;
  auto element = [&](BodyBuilder& b) {
    Val x = b.load(0, DType::f32, position);
    if (!c.masked) return x;
    return b.add(b.mul(x, b.load(4, DType::f32, i[0])), b.load(3, DType::f32, i.back()));
  };
  BodyBuilder one(p.loop().stages[0].body), two(p.loop().stages[1].body), three(p.loop().stages[2].body);
  p.loop().stages[0].reductions = {{c.first, DType::f32, element(one).id}};
  Val e = two.op(Op::exp, two.sub(element(two), two.accumulator(0, DType::f32)));
  two.store(1, i.back(), e);
  p.loop().stages[1].reductions = {{Op::reduce_sum, DType::f32, e.id}};
  Val quotient = three.div(three.load(1, DType::f32, i.back()), three.accumulator(1, DType::f32));
  three.store(2, position, c.result == DType::f32 ? quotient : three.cast(quotient, c.result));
  return p;
}

void check(const Softmax& c, int specials = 1) {
  SCOPED_TRACE(c.columns);
  expect_same(make(c), {.symbols = c.symbolic ? c.points : std::vector<int64_t>{}, .specials = specials, .chunks = {0, 7}});
}

bool carried(const atlas::Program& p) { return cpu::plan_loop(p, cpu::generic_target(cpu::Isa::avx512)).carried; }

TEST(Rows, SoftmaxOfManyLengths) {
  for (int64_t n : {1, 63, 64, 130, 4096, 8300}) check({{19}, n});
  check({{19}, 0});
}

TEST(Rows, SoftmaxOfFewAndOfSymbolicRows) {
  for (bool masked : {false, true}) {
    check({{3}, 200, false, masked});
    check({{1}, 200, true, masked});
    check({{21}, 200, true, masked});
    check({{4, 5}, 333, false, masked});
    check({{4, 5}, 333, true, masked});
    check({{2, 1, 9}, 70, false, masked});
  }
}

TEST(Rows, SumsAndMinimaAreCarriedToo) {
  for (Op first : {Op::reduce_min, Op::reduce_sum, Op::reduce_prod})
    for (int64_t n : {100, 4160}) check({{17}, n, false, false, first}, 0);
}

TEST(Rows, NarrowResultsKeepTheirScratch) {
  check({{18}, 300, false, false, Op::reduce_max, DType::bf16});
  check({{18}, 300, false, false, Op::reduce_max, DType::f64});
}

TEST(Rows, CarriesWhereSecondStagesAlsoReduce) {
  EXPECT_TRUE(carried(make({{19}, 100})));
  EXPECT_TRUE(carried(make({{4, 5}, 100, false, true})));
  EXPECT_TRUE(carried(make({{19}, 100, true})));
  EXPECT_FALSE(carried(make({{3}, 100})));  // too few rows
  atlas::Program stored = make({{19}, 100});
  stored.buffers.push_back({DType::f32, Access::write, Expr(1900)});
  BodyBuilder b(stored.loop().stages[0].body);
  b.store(3, Expr(100) * Expr::axis(0, Expr(19)) + Expr::axis(1, Expr(100)), b.load(0, DType::f32, Expr::axis(1, Expr(100))));
  EXPECT_FALSE(carried(stored));  // would be stored twice
}

// b1 = b0 / sqrt(the sum of its squares), row by row
atlas::Program scaled_rows(int64_t points, int64_t columns, bool symbolic) {
  atlas::Program p;
  Expr count = symbolic ? Expr::symbol(p.num_symbols++) : Expr(points), n(columns);
  const std::vector<Expr> i = add_axes(p.loop(), {count}, {n});
  p.loop().lane_axis = 1;
  p.buffers = {{DType::f32, Access::read, count * n}, {DType::f32, Access::write, count * n}};
  p.loop().stages.resize(2);
  for (auto& s : p.loop().stages) s.kind = atlas::StageKind::row;
  BodyBuilder one(p.loop().stages[0].body), two(p.loop().stages[1].body);
  Val x = one.load(0, DType::f32, i[0] * n + i[1]);
  p.loop().stages[0].reductions = {{Op::reduce_sum, DType::f32, one.mul(x, x).id}};
  two.store(1, i[0] * n + i[1], two.mul(two.load(0, DType::f32, i[0] * n + i[1]), two.op(Op::rsqrt, two.accumulator(0, DType::f32))));
  return p;
}

TEST(Rows, LastStagesThatDoNotReduceCarryToo) {
  for (bool symbolic : {false, true})
    for (int64_t n : {1, 63, 64, 130, 4160}) {
      atlas::Program p = scaled_rows(19, n, symbolic);
      EXPECT_EQ(carried(p), n > 1);
      expect_same(p, {.symbols = std::vector<int64_t>(symbolic, 19), .chunks = {0, 7}});
    }
  atlas::Program busy = scaled_rows(19, 130, false);
  atlas::Body& body = busy.loop().stages[1].body;
  atlas::Instr last = body.instrs.back();
  body.instrs.pop_back();
  for (int n = 0; n < 2; ++n)
    last.args[0] =
        body.add({.code = atlas::Code::arithmetic, .op = Op::exp, .args = {last.args[0], atlas::no_value, atlas::no_value}, .expr = {}});
  body.add(last);
  EXPECT_FALSE(carried(busy));  // computes for longer than memory takes
}

TEST(Rows, ExponentialsGoFourVectorsAtATimeOnAvx2) {
  const atlas::Program p = make({{19}, 200});
  const cpu::Target target = cpu::generic_target(cpu::Isa::avx2);
  for (size_t n : {0, 1, 2}) EXPECT_EQ(cpu::vectors_together(p.nest().stages[n], cpu::plan_loop(p, target), target), n == 1 ? 4 : 1);
}

// Points, rows and columns of bfloat16 numbers, which AVX2 takes as even and odd ones: b3 = (b2 ? b0 + b1 : b1) * b0 * what was reduced,
// b4 = b0 < b1.
TEST(Rows, EveryBfloat16NumberComesBackToItsPlace) {
  enum Kind { points, rows, columns };
  for (Kind kind : {points, rows, columns})
    for (int64_t n : {32, 40, 79, 200, 4160}) {
      SCOPED_TRACE(n);
      atlas::Program p;
      const std::vector<Expr> i = kind == points ? add_axes(p.loop(), {Expr(3), Expr(n)}, {})
                                  : kind == rows ? add_axes(p.loop(), {Expr(3)}, {Expr(n)})
                                                 : add_axes(p.loop(), {Expr(n)}, {Expr(70)});
      const Expr at = kind == columns ? i[1] * n + i[0] : i[0] * n + i[1], count(kind == columns ? 70 * n : 3 * n);
      p.loop().lane_axis = kind == columns ? 0 : 1;
      for (DType t : {DType::bf16, DType::bf16, DType::b8, DType::bf16, DType::b8}) p.buffers.push_back({t, Access::read, count});
      p.buffers[3].access = p.buffers[4].access = Access::write;
      p.loop().stages.resize(kind == points ? 1 : 2);
      for (auto& s : p.loop().stages) s.kind = kind == points ? atlas::StageKind::point : atlas::StageKind::row;
      auto load = [&](BodyBuilder& b, int k) { return b.cast(b.load(k, DType::bf16, at), DType::f32); };
      if (kind != points) {
        BodyBuilder b(p.loop().stages[0].body);
        Val x = load(b, 0), y = load(b, 1);
        p.loop().stages[0].reductions = {{Op::reduce_sum, DType::f32, b.mul(x, y).id}, {Op::reduce_max, DType::f32, b.op(Op::neg, x).id}};
      }
      BodyBuilder b(p.loop().stages.back().body);
      Val x = load(b, 0), y = load(b, 1), sum = b.cast(b.add(x, y), DType::bf16);
      Val r = b.cast(b.op(Op::select, b.load(2, DType::b8, at), sum, b.load(1, DType::bf16, at)), DType::f32);
      r = b.cast(b.cast(b.mul(r, x), DType::bf16), DType::f32);
      for (int a = 0; kind != points && a < 2; ++a) r = b.mul(r, b.accumulator(a, DType::f32));
      b.store(3, at, b.cast(r, DType::bf16));
      b.store(4, at, b.op(Op::lt, x, y));
      EXPECT_EQ(cpu::plan_loop(p, cpu::generic_target(cpu::Isa::avx2)).alternate, n != 40);
      for (int specials : {0, 1, 4}) expect_same(p, {.specials = specials, .chunks = {0, 7}});
    }
}

TEST(Rows, SumsTakeTwoRowsByTurnsOnAvx2) {
  for (int64_t n : {1000, 1024, 1200, 5000}) {
    atlas::Program p = scaled_rows(19, n, true);
    p.buffers[1].extent = p.loop().axes[0].extent;
    p.loop().stages[1] = {atlas::StageKind::point, {}, {}, {}};
    BodyBuilder b(p.loop().stages[1].body);
    b.store(1, Expr::axis(0, p.loop().axes[0].extent), b.accumulator(0, DType::f32));
    EXPECT_EQ(cpu::plan_loop(p, cpu::generic_target(cpu::Isa::avx2)).two_rows, n >= 1024);
    expect_same(p, {.symbols = {19}, .chunks = {0, 7}});
  }
}

// The exponential of x - max(x) needs no bound above, that of any other difference does.
TEST(Rows, ExponentialsKnownToBeAtMostOneAreNotBounded) {
#if defined(__x86_64__)
  auto bounded = [](const atlas::Program& p, cpu::Isa isa) {
    return cpu::dump_asm(p, cpu::generic_target(isa)).find("vminps") != std::string::npos;
  };
  atlas::Program other = make({{19}, 200});  // the maximum of other numbers
  BodyBuilder b(other.loop().stages[0].body);
  other.loop().stages[0].reductions[0].value =
      b.op(Op::neg, b.load(0, DType::f32, Expr(200) * Expr::axis(0, Expr(19)) + Expr::axis(1, Expr(200)))).id;
  for (cpu::Isa isa : {cpu::Isa::avx512, cpu::Isa::avx2}) {
    EXPECT_FALSE(bounded(make({{19}, 200}), isa));
    EXPECT_FALSE(bounded(make({{21}, 200, true, true}), isa));
    EXPECT_TRUE(bounded(make({{19}, 200, false, false, Op::reduce_sum}), isa));
    EXPECT_TRUE(bounded(other, isa));
  }
  expect_same(other, Inputs{});
#endif
}

// b0: numbers, b1: the table, b2: each row that is taken, less its mean
atlas::Program rows_by_number(int64_t table_rows, bool symbolic) {
  atlas::Program p;
  p.num_symbols = symbolic;
  Expr count = symbolic ? Expr::symbol(0) : Expr(21), rows(table_rows);
  std::vector<Expr> i = add_axes(p.loop(), {Expr(2), count}, {Expr(64)});
  p.loop().lane_axis = 2;
  p.buffers = {{DType::i64, Access::read, Expr(2) * count},
               {DType::f32, Access::read, rows * 64},
               {DType::f32, Access::write, Expr(2) * count * 64}};
  p.loop().stages.resize(2);
  for (auto& s : p.loop().stages) s.kind = atlas::StageKind::row;
  BodyBuilder one(p.loop().stages[0].body), two(p.loop().stages[1].body);
  auto taken = [&](BodyBuilder& b) {
    Val number = b.clamp_index(b.load(0, DType::i64, i[0] * count + i[1]), rows);
    Expr row = Expr::value(static_cast<int>(number.id), rows);
    return b.load(1, DType::f32, row * 64 + i[2]);
  };
  p.loop().stages[0].reductions = {{Op::reduce_sum, DType::f32, taken(one).id}};
  Val mean = two.div(two.accumulator(0, DType::f32), two.number(DType::f32, 64));
  two.store(2, (i[0] * count + i[1]) * 64 + i[2], two.sub(taken(two), mean));
  return p;
}

TEST(Rows, RowsOfALargeTableAreFetchedBeforeTheirTurn) {
  for (bool symbolic : {false, true})
    for (int64_t beyond : {0, 1}) {  // a number behind the table is an error of the last point
      Inputs inputs{.chunks = {0, 5}};
      if (symbolic) inputs.symbols = {21};
      inputs.prepare = [&](int buffer, char* data, int64_t n) {
        std::mt19937 random(7);
        for (int64_t k = 0; buffer == 0 && k < n; ++k)
          reinterpret_cast<int64_t*>(data)[k] = k + beyond == n ? 4096 - 1 + beyond : static_cast<int64_t>(random() % 4096);
      };
      expect_same(rows_by_number(4096, symbolic), inputs);
    }
#if defined(__x86_64__)
  auto fetches = [](int64_t table_rows) {
    std::string text = cpu::dump_asm(rows_by_number(table_rows, false), cpu::generic_target(cpu::Isa::avx2));
    return text.find("prefetcht1") != std::string::npos;
  };
  EXPECT_TRUE(fetches(4096));
  EXPECT_FALSE(fetches(64));  // stays in the caches
#endif
}

// The number of the row is what the kernel itself computes just before.
TEST(Rows, RowsThatAReductionFindsAreNotFetched) {
  atlas::Program p = rows_by_number(4096, false);
  Expr count(21), rows(4096);
  std::vector<Expr> i;
  for (int a = 0; a < 3; ++a) i.push_back(Expr::axis(a, p.loop().axes[static_cast<size_t>(a)].extent));
  p.buffers[0] = {DType::i64, Access::read, Expr(2) * count * 64};
  p.loop().stages[0].body = {};
  p.loop().stages[1].body = {};
  BodyBuilder one(p.loop().stages[0].body), two(p.loop().stages[1].body);
  Val number = one.load(0, DType::i64, (i[0] * count + i[1]) * 64 + i[2]);
  p.loop().stages[0].reductions = {{Op::reduce_max, DType::i64, number.id}};
  Val largest = two.clamp_index(two.accumulator(0, DType::i64), rows);
  Expr row = Expr::value(static_cast<int>(largest.id), rows);
  two.store(2, (i[0] * count + i[1]) * 64 + i[2], two.load(1, DType::f32, row * 64 + i[2]));
  expect_same(p, {.prepare = [&](int buffer, char* data, int64_t n) {
                for (int64_t k = 0; buffer == 0 && k < n; ++k) reinterpret_cast<int64_t*>(data)[k] = (k * 37) % 4096;
              }});
}

TEST(Rows, ScratchMovesIntoTheOutput) {
  atlas::Program p = make({{4, 5}, 100, false, true}), before = p;
  cpu::place_scratch(p);
  atlas::verify(p);
  ASSERT_EQ(p.buffers.size(), before.buffers.size() - 1);
  EXPECT_EQ(p.buffers[1].access, Access::read_write);
  for (const auto& b : p.buffers) EXPECT_NE(b.access, Access::scratch);
}

TEST(Rows, ScratchStaysWhereTheOutputCannotHoldIt) {
  auto stays = [](const char* why, const std::function<void(atlas::Program&)>& edit, DType result = DType::f32) {
    atlas::Program p = make({{18}, 100, false, false, Op::reduce_max, result});
    edit(p);
    atlas::Program placed = p;
    cpu::place_scratch(placed);
    EXPECT_EQ(placed, p) << why;
    expect_same(p, {.chunks = {0, 3}});
  };
  const Expr i = Expr::axis(0, Expr(18)), j = Expr::axis(1, Expr(100)), at = Expr(100) * i + j;
  stays(
      "another type", [](atlas::Program&) {}, DType::f64);
  stays("other elements are read while results are written", [&](atlas::Program& p) {
    BodyBuilder b(p.loop().stages[2].body);
    p.buffers.push_back({DType::f32, Access::write, Expr(1800)});
    b.store(3, at, b.load(1, DType::f32, Expr(99) - j));
  });
  stays("read after the results were written", [&](atlas::Program& p) {
    atlas::Stage again = p.loop().stages[2];
    p.buffers.push_back({DType::f64, Access::write, Expr(1800)});
    again.body = {};
    BodyBuilder b(again.body);
    b.store(3, at, b.cast(b.load(1, DType::f32, j), DType::f64));
    p.loop().stages.push_back(again);
  });
  stays("results in another order", [&](atlas::Program& p) {
    for (atlas::Instr& k : p.loop().stages[2].body.instrs)
      if (k.code == atlas::Code::store) k.expr = Expr(100) * i + Expr(99) - j;
  });
  stays("an output that is read", [](atlas::Program& p) { p.buffers[2].access = Access::read_write; });
}

// out[p, q, r, i] = x[p, r, q, i] + bias[i]
atlas::Program lines(int64_t many, int64_t middle, int64_t few, int64_t line) {
  Points t({Expr(many), Expr(middle), Expr(few), Expr(line)});
  const std::vector<Expr>& i = t.i;
  const Expr size(many * middle * few * line);
  t.p.buffers = {{DType::f32, Access::read, size}, {DType::f32, Access::read, Expr(line)}, {DType::f32, Access::write, size}};
  BodyBuilder b = t.body();
  Val x = b.load(0, DType::f32, ((i[0] * Expr(few) + i[2]) * Expr(middle) + i[1]) * Expr(line) + i[3]);
  b.store(2, ((i[0] * Expr(middle) + i[1]) * Expr(few) + i[2]) * Expr(line) + i[3], b.add(x, b.load(1, DType::f32, i[3])));
  return t.p;
}

TEST(Rows, LinesOfFewVectorsAreWalkedInBlocks) {
  const cpu::Target target = cpu::generic_target(cpu::Isa::avx512);
  auto units = [&](const atlas::Program& p) { return cpu::launch_of(p, target).total.constant_value(); };
  EXPECT_EQ(units(lines(3, 5, 16, 32)), 3 * 5);       // of 16 lines
  EXPECT_EQ(units(lines(3, 5, 70, 32)), 3 * 5 * 70);  // of one
  EXPECT_EQ(units(lines(3, 5, 4, 64)), 3 * 5);
  EXPECT_EQ(units(lines(3, 5, 4, 80)), 3 * 5 * 4 * 80);  // too long: points
  EXPECT_EQ(units(lines(3, 5, 4, 24)), 3 * 5 * 4 * 24);  // half a vector is left
  for (auto [few, line] : {std::pair<int64_t, int64_t>{16, 32}, {70, 32}, {4, 64}, {3, 16}, {3, 8}})
    expect_same(lines(3, 5, few, line), {.chunks = {0, 1, 7}});
}

// The last stage waits for the next point's second one, but where running it twice would show.
TEST(Rows, LastStagesTrailWhereTheirResultsAreWrittenAnew) {
  auto placed = [](Softmax c) {
    atlas::Program p = make(c);
    cpu::place_scratch(p);
    return p;
  };
  auto trails = [](const atlas::Program& p) { return cpu::plan_loop(p, cpu::generic_target(cpu::Isa::avx512)).trailing; };
  EXPECT_TRUE(trails(placed({{19}, 1000})));
  EXPECT_TRUE(trails(placed({{5, 7}, 333, false, true})));
  EXPECT_FALSE(trails(placed({{19}, 1000, false, false, Op::reduce_max, DType::bf16})));  // scratch stays
  EXPECT_FALSE(trails(placed({{19}, 20000})));
  atlas::Program added = placed({{19}, 200}), over = added;  // b2 += softmax, where nothing else writes it
  const int result = 1, sum = 2;
  for (atlas::Program* p : {&added, &over}) {
    BodyBuilder b(p->loop().stages[2].body);
    const Expr at = p->loop().stages[2].body.instrs.back().expr;
    p->buffers.push_back({DType::f32, p == &added ? Access::read_write : Access::write, p->buffers[result].extent});
    Val scaled = b.mul(b.load(result, DType::f32, at), b.op(Op::rsqrt, b.accumulator(1, DType::f32)));  // the root once a row
    b.store(sum, at, p == &added ? b.add(scaled, b.load(sum, DType::f32, at)) : scaled);
  }
  atlas::Program beside = placed({{19}, 200});  // whose last stage alone reads b2, and no stage computes much
  for (auto& i : beside.loop().stages[1].body.instrs)
    if (i.op == Op::exp) i.op = Op::abs;
  const Expr at = beside.loop().stages[2].body.instrs.back().expr, extent = beside.buffers[result].extent;
  beside.buffers.insert(beside.buffers.end(), {{DType::f32, Access::read, extent}, {DType::f32, Access::write, extent}});
  BodyBuilder b(beside.loop().stages[2].body);
  b.store(3, at, b.add(b.load(2, DType::f32, at), b.load(result, DType::f32, at)));
  EXPECT_FALSE(trails(added));
  for (const atlas::Program& p : {over, beside}) EXPECT_TRUE(trails(p));
  for (const atlas::Program& p : {added, over, beside}) expect_same(p, {.chunks = {0, 7}});
}

// b2 = b0 * (b1[0] or, in double precision, its square root), one number for all points.
atlas::Program scaled(int64_t n, bool rooted) {
  Points t({Expr(n)});
  t.p.buffers = {{DType::f32, Access::read, Expr(n)}, {DType::f32, Access::read, Expr(1)}, {DType::f32, Access::write, Expr(n)}};
  BodyBuilder b = t.body();
  Val factor = b.load(1, DType::f32, Expr(0));
  if (rooted) factor = b.cast(b.op(Op::sqrt, b.op(Op::exp, b.cast(factor, DType::f64))), DType::f32);
  b.store(2, t.i[0], b.mul(b.load(0, DType::f32, t.i[0]), factor));
  return t.p;
}

TEST(Rows, WhatPointsShareTakesNoneOfTheirTime) {
  const cpu::Target target = cpu::generic_target(cpu::Isa::avx512);
  const cpu::LoopPlan plain = cpu::plan_loop(scaled(1000, false), target), shared = cpu::plan_loop(scaled(1000, true), target);
  EXPECT_EQ(shared.lanes, plain.lanes);  // not halved by one number's type
  EXPECT_EQ(shared.unroll, plain.unroll);
  auto work = [&](bool rooted) { return cpu::launch_of(scaled(1000, rooted), target).unit_work.constant_value(); };
  EXPECT_EQ(work(true), work(false));
  expect_same(scaled(333, true), {.chunks = {0, 7}});
}

// Sums that all take an element which their lanes share fill two registers of 16 with each step, if both hold them.
TEST(Rows, LanesThatShareElementsFillTwoRegisters) {
  auto sums = [](int64_t n, int64_t lanes) {
    atlas::Program p;
    std::vector<Expr> i = add_axes(p.loop(), {Expr(lanes)}, {Expr(3)});
    p.loop().lane_axis = 0;
    for (int64_t size : {3 * n, lanes, 3 * n * lanes}) p.buffers.push_back({DType::f32, Access::read, Expr(size)});
    p.buffers[2].access = Access::write;
    p.loop().stages.push_back({atlas::StageKind::serial_row, {}, {}, {}});
    BodyBuilder b(p.loop().stages[0].body);
    Val w = b.load(1, DType::f32, i[0]);
    for (int64_t k = 0; k < n; ++k)
      b.store(2, (i[1] * n + k) * lanes + i[0], b.fma(b.load(0, DType::f32, i[1] * n + k), w, b.number(DType::f32, 1)));
    return p;
  };
  auto vectors = [](const atlas::Program& p, cpu::Isa isa) { return cpu::plan_loop(p, cpu::generic_target(isa)).vectors; };
  EXPECT_EQ(vectors(sums(4, 48), cpu::Isa::avx2), 2);
  EXPECT_EQ(vectors(sums(4, 40), cpu::Isa::avx2), 1);  // half a step would be left over
  EXPECT_EQ(vectors(sums(8, 48), cpu::Isa::avx2), 1);
  EXPECT_EQ(vectors(sums(4, 48), cpu::Isa::avx512), 1);
  expect_same(sums(4, 48), {.chunks = {0, 7}});
}

}  // namespace
}  // namespace hologram::test
