// tests/support/programs/loop_test.cpp: loop blocks of many shapes against the interpreter.
#include "atlas/programs.h"
#include "support/differential.h"

namespace hologram::test {
namespace {

TEST(Loop, PointsOfEveryRankAndChunk) {
  const std::vector<int64_t> sizes[] = {{1},    {5},          {16},    {1000},     {3, 17},       {4, 64},    {2, 3, 50},
                                        {7, 1}, {2, 2, 2, 9}, {9, 16}, {3, 5, 32}, {2, 3, 7, 64}, {2, 70, 32}};
  for (auto shape : sizes)
    for (bool symbolic : {false, true})
      for (bool lanes : {true, false}) {
        std::vector<Expr> extents;
        for (int64_t n : shape) extents.push_back(symbolic ? Expr::symbol(static_cast<int>(extents.size())) : Expr(n));
        Points t(extents, symbolic ? static_cast<int>(extents.size()) : 0);
        const std::vector<Expr>& i = t.i;
        if (!lanes) t.p.loop().lane_axis = -1;
        Shape strides = contiguous_strides(extents);
        Expr offset(0), size = numel(extents);
        for (size_t a = 0; a < i.size(); ++a) offset += i[a] * strides[a];
        t.p.buffers = {{DType::f32, Access::read, size},
                       {DType::f32, Access::read, extents.back()},
                       {DType::bf16, Access::read, size},
                       {DType::f32, Access::write, size},
                       {DType::i64, Access::read_write, size}};
        BodyBuilder b = t.body();
        Val x = b.add(b.load(0, DType::f32, offset), b.load(1, DType::f32, i.back()));
        Val y = b.cast(b.load(2, DType::bf16, offset), DType::f32);
        b.store(3, offset, b.op(Op::max, b.mul(x, y), x));
        b.store(4, offset, b.add(b.load(4, DType::i64, offset), b.index(offset * Expr(3) + Expr(1))));
        expect_same(t.p, {.symbols = symbolic ? shape : std::vector<int64_t>{}, .chunks = {0, 1, 13}});
      }
}

TEST(Loop, ElementaryFunctions) {
  Expr n(3001);
  Points t({n});
  BodyBuilder b = t.body();
  t.p.buffers = {{DType::f32, Access::read, n}};
  Val x = b.load(0, DType::f32, t.i[0]);
  int buffer = 1;
  for (Op op : {Op::exp, Op::log, Op::tanh, Op::gelu, Op::sigmoid, Op::sin, Op::erf, Op::rsqrt}) {
    t.p.buffers.push_back({DType::f32, Access::write, n});
    b.store(buffer++, t.i[0], b.op(op, x));
  }
  expect_same(t.p);
}

// Everything that index arithmetic can say about the lane axis.
TEST(Loop, IndexArithmeticInLanes) {
  for (bool symbolic : {false, true}) {
    Expr n = symbolic ? Expr::symbol(0) : Expr(210), d = symbolic ? Expr::symbol(1) : Expr(7);
    Points t({Expr(3), n}, symbolic ? 2 : 0);
    atlas::Program& p = t.p;
    const std::vector<Expr>& i = t.i;
    Expr j = i[1], at = i[0] * n + j, quotient = floor_div(j, d), rest = mod(j, d);
    std::vector<Expr> offsets{Expr(0), i[0], j, n - Expr(1) - j, j * Expr(3), quotient, rest, quotient * Expr(2) + rest * Expr(5), at};
    for (const Expr& e : {min(j, Expr(11)), max(j, Expr(100)) - Expr(100), mod(at, Expr(13)), floor_div(at, Expr(6))}) offsets.push_back(e);
    BodyBuilder b = t.body();
    Expr size = n * Expr(8);
    int buffer = 0;
    for (DType type : {DType::f32, DType::i16, DType::f64, DType::b8, DType::f16}) {
      int source = buffer++;
      p.buffers.push_back({type, Access::read, size});
      for (const Expr& e : offsets) {
        p.buffers.push_back({type, Access::write, n * Expr(3)});
        b.store(buffer++, at, b.load(source, type, e));
      }
    }
    p.buffers.push_back({DType::i64, Access::write, n * Expr(3)});
    b.store(buffer, n * Expr(3) - Expr(1) - at, b.index(floor_div(j * Expr(5), Expr(3)) - mod(j, d) - Expr(40)));
    expect_same(p, {.symbols = symbolic ? std::vector<int64_t>{210, 7} : std::vector<int64_t>{}, .chunks = {0, 50}});
  }
}

TEST(Loop, GuardsOfLoadsAndStores) {
  Expr n(77), m(5);
  Points t({m, n});
  const std::vector<Expr>& i = t.i;
  t.p.buffers = {{DType::f32, Access::read, m * Expr(60)},
                 {DType::f32, Access::write, m * n},
                 {DType::u8, Access::read_write, m * n},
                 {DType::f32, Access::read, Expr(4)}};
  BodyBuilder b = t.body();
  Val column = b.index(i[1] - Expr(9));
  Val inside = b.op(Op::bit_and, b.le(b.integer(DType::i64, 0), column), b.lt(column, b.integer(DType::i64, 60)));
  Val row = b.lt(b.index(i[0]), b.integer(DType::i64, 4));
  Val x = b.load(0, DType::f32, i[0] * Expr(60) + i[1] - Expr(9), inside);
  Val y = b.load(3, DType::f32, i[0], row);
  Val z = b.load(3, DType::f32, Expr(2), inside);
  b.store(1, i[0] * n + i[1], b.add(b.add(x, y), z));
  b.store(2, i[0] * n + i[1], b.integer(DType::u8, 9), inside);
  expect_same(t.p, {.chunks = {0, 20}});
}

// Lanes a few elements apart, backwards too, with guards that all lanes share and guards of their own.
TEST(Loop, PicksLanesThatLieApart) {
  for (int64_t n : {16, 77})
    for (DType type : {DType::f32, DType::u8}) {
      Expr m(3), width(n);
      Points t({m, width});
      const std::vector<Expr>& i = t.i;
      BodyBuilder b = t.body();
      Val row = b.lt(b.index(i[0]), b.integer(DType::i64, 2));
      Val lane = b.lt(b.index(mod(i[1], Expr(5))), b.integer(DType::i64, 3));
      for (int64_t step : {2, 3, 4, 5, -2, -3, -4})
        for (Val guard : {Val{}, row, lane}) {
          // The last lane's element, or the first one's, is the buffer's last one.
          t.p.buffers.push_back({type, Access::read, Expr((n * 3 - 1) * std::abs(step) + 1)});
          t.p.buffers.push_back({type, Access::write, m * width});
          int to = static_cast<int>(t.p.buffers.size()) - 1;
          Expr at = i[0] * width + i[1], from = step < 0 ? m * width - Expr(1) - at : at;
          b.store(to, at, b.load(to - 1, type, from * Expr(std::abs(step)), guard));
        }
      expect_same(t.p, {.chunks = {0, 20}});
    }
}

// Short runs along the last axis whose elements are read along the axis before it.
TEST(Loop, InterleavesWhatLiesApart) {
  for (int64_t run : {2, 3, 4})
    for (int64_t length : {16, 50}) {
      Expr n(run), m(length);
      Points t({Expr(2), m, n});
      const std::vector<Expr>& i = t.i;
      t.p.buffers = {{DType::f32, Access::read, Expr(2 * 4 * length + 8)},
                     {DType::f32, Access::read, Expr(2 * length + 8)},
                     {DType::f32, Access::write, Expr(2) * m * n}};
      BodyBuilder b = t.body();
      Val first = b.lt(b.index(i[2]), b.integer(DType::i64, 1));
      Val inner = b.lt(b.index(i[1]), b.integer(DType::i64, length - 1));
      Val x = b.load(0, DType::f32, (i[0] * m + i[1]) * Expr(3) + i[2]);
      Val y = b.load(1, DType::f32, i[0] * m + i[1] + floor_div(i[2] + Expr(1), Expr(2)), inner);
      b.store(2, (i[0] * m + i[1]) * n + i[2], b.select(first, x, b.mul(x, y)));
      expect_same(t.p, {.chunks = {0, 1}});
    }
}

TEST(Loop, GathersThroughClampedIndices) {
  for (bool wild : {false, true}) {
    Expr rows(50), tokens(37), width(19);
    Points t({tokens, width});
    const std::vector<Expr>& i = t.i;
    t.p.buffers = {{DType::i64, Access::read, tokens},
                   {DType::f32, Access::read, rows * width},
                   {DType::f32, Access::write, tokens * width},
                   {DType::i32, Access::read, width},
                   {DType::f32, Access::write, tokens * width}};
    BodyBuilder b = t.body();
    Val index = b.clamp_index(b.load(0, DType::i64, i[0]), rows);
    Expr v = Expr::value(static_cast<int>(index.id), rows);
    b.store(2, i[0] * width + i[1], b.load(1, DType::f32, v * width + i[1]));
    Val each = b.clamp_index(b.cast(b.load(3, DType::i32, i[1]), DType::i64), rows);
    Expr w = Expr::value(static_cast<int>(each.id), rows);
    b.store(4, i[0] * width + i[1], b.load(1, DType::f32, w * width + Expr(3)));
    Inputs inputs;
    inputs.prepare = [&](int buffer, char* data, int64_t n) {
      std::mt19937 random(3);
      int64_t range = wild ? 130 : 50;
      for (int64_t e = 0; e < n; ++e) {
        int64_t k = static_cast<int64_t>(random() % static_cast<uint32_t>(range)) - (wild ? 40 : 0);
        auto small = static_cast<int32_t>(k);
        if (buffer == 0) std::memcpy(data + 8 * e, &k, 8);
        if (buffer == 3) std::memcpy(data + 4 * e, &small, 4);
      }
    };
    expect_same(t.p, inputs);
  }
}

// Tails may divide by what is not there: no error may come of it.
TEST(Loop, DivisionErrorsAreOfLanesThatExist) {
  for (bool zero : {false, true}) {
    const atlas::Program p = elementwise(Op::div, DType::i32, 2, DType::i32, Expr(37));
    expect_same(p, {.prepare = [&](int buffer, char* data, int64_t count) {
                  if (buffer != 1) return;
                  for (int64_t e = 0; e < count; ++e) {
                    int32_t d = zero && e == 36 ? 0 : static_cast<int32_t>(e) + 1;
                    std::memcpy(data + 4 * e, &d, 4);
                  }
                }});
  }
}

// softmax: maximum, exponentials into scratch with their sum, quotient.
atlas::Program softmax(const Expr& points, const Expr& n, bool lanes_on_points, DType t, int symbols) {
  atlas::Program p;
  p.num_symbols = symbols;
  auto i = add_axes(p.loop(), {points}, {n});
  p.loop().lane_axis = lanes_on_points ? 0 : 1;
  Expr at = lanes_on_points ? i[1] * points + i[0] : i[0] * n + i[1];
  p.buffers = {{t, Access::read, points * n}, {t, Access::write, points * n}, {DType::f32, Access::scratch, n}};
  p.loop().stages.resize(3);
  for (auto& s : p.loop().stages) s.kind = atlas::StageKind::row;
  BodyBuilder a(p.loop().stages[0].body);
  Val x = a.cast(a.load(0, t, at), DType::f32);
  p.loop().stages[0].reductions.push_back({Op::reduce_max, DType::f32, x.id, false});
  BodyBuilder b(p.loop().stages[1].body);
  Val e = b.op(Op::exp, b.sub(b.cast(b.load(0, t, at), DType::f32), b.accumulator(0, DType::f32)));
  b.store(2, i[1], e);
  p.loop().stages[1].reductions.push_back({Op::reduce_sum, DType::f32, e.id, false});
  BodyBuilder c(p.loop().stages[2].body);
  c.store(1, at, c.cast(c.div(c.load(2, DType::f32, i[1]), c.accumulator(1, DType::f32)), t));
  return p;
}

TEST(Loop, SoftmaxWithScratch) {
  for (int64_t n : {1, 10, 64, 100, 5000, 30000})
    for (bool points : {false, true})
      for (DType t : {DType::f32, DType::bf16}) {
        if (n > 5000 && (points || t == DType::bf16)) continue;
        const int64_t rows = n > 1000 ? 7 : 21;
        expect_same(softmax(Expr(rows), Expr(n), points, t, 0), {.specials = 0, .chunks = {0, 5}});
        expect_same(softmax(Expr::symbol(0), Expr::symbol(1), points, t, 2), {.symbols = {rows, n}, .specials = 0, .chunks = {0, 5}});
      }
}

TEST(Loop, SerialStagesKeepRunningValues) {
  for (int lane_axis : {-1, 0, 1}) {
    atlas::Program p;
    Expr m(19), n(23);
    auto i = add_axes(p.loop(), {m}, {n});
    p.loop().lane_axis = lane_axis;
    p.buffers = {{DType::f32, Access::read, m * n},
                 {DType::f32, Access::write, m * n},
                 {DType::f32, Access::write, m * n},
                 {DType::f32, Access::write, m}};
    p.loop().stages.resize(2);
    p.loop().stages[0].kind = atlas::StageKind::serial_row;
    p.loop().stages[0].running = {{Op::reduce_sum, DType::f32}, {Op::reduce_max, DType::f32}};
    Expr at = lane_axis == 0 ? i[1] * m + i[0] : i[0] * n + i[1];
    BodyBuilder a(p.loop().stages[0].body);
    Val x = a.load(0, DType::f32, at);
    a.store(1, at, a.accumulate(Op::reduce_sum, 0, x));
    a.store(2, at, a.accumulate(Op::reduce_max, 1, x));
    p.loop().stages[1].kind = atlas::StageKind::point;
    BodyBuilder b(p.loop().stages[1].body);
    b.store(3, i[0], b.add(b.accumulator(0, DType::f32), b.accumulator(1, DType::f32)));
    expect_same(p, {.chunks = {0, 7}});
  }
}

TEST(Loop, RowsWhoseExtentFollowsTheirPoint) {
  for (int lane_axis : {-1, 1}) {
    atlas::Program p;
    Expr m(70);
    p.loop().axes.push_back({AxisKind::parallel, m});
    Expr i = Expr::axis(0, m);
    p.loop().axes.push_back({AxisKind::row, i + Expr(1)});
    Expr j = Expr::axis(1, i + Expr(1));
    p.loop().parallel_rank = 1;
    p.loop().lane_axis = lane_axis;
    p.buffers = {{DType::f32, Access::read, m * m}, {DType::f32, Access::write, m}};
    p.loop().stages.resize(2);
    p.loop().stages[0].kind = atlas::StageKind::row;
    BodyBuilder a(p.loop().stages[0].body);
    Val x = a.load(0, DType::f32, i * m + j);
    p.loop().stages[0].reductions.push_back({Op::reduce_sum, DType::f32, x.id, false});
    p.loop().stages[1].kind = atlas::StageKind::point;
    BodyBuilder b(p.loop().stages[1].body);
    b.store(1, i, b.accumulator(0, DType::f32));
    expect_same(p);
  }
}

// Random element-wise bodies with random index patterns.
TEST(Loop, RandomBodies) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    auto pick = [&](size_t n) { return random() % n; };
    Expr m(static_cast<int64_t>(1 + pick(4))), n(static_cast<int64_t>(1 + pick(80)));
    Points points({m, n});
    atlas::Program& p = points.p;
    const std::vector<Expr>& i = points.i;
    if (pick(3) == 0) p.loop().lane_axis = -1;
    BodyBuilder b = points.body();
    constexpr DType types[] = {DType::f32, DType::f32, DType::i32, DType::bf16, DType::i64, DType::u8, DType::f64, DType::b8};
    std::vector<Val> values;
    for (int k = 0; k < 4; ++k) {
      DType t = types[pick(8)];
      p.buffers.push_back({t, Access::read, m * n});
      Expr at = std::array{i[0] * n + i[1], i[1], i[0], (m - Expr(1) - i[0]) * n + (n - Expr(1) - i[1]), i[1] * m + i[0]}[pick(5)];
      values.push_back(b.load(k, t, at));
    }
    std::vector<Op> ops;
    for (int k = 0; k < ir::num_ops; ++k) {
      auto op = static_cast<Op>(k);
      if (ir::is_elementwise(op) && (ir::info(op).flags & ir::exact) && ir::info(op).kind != ir::OpKind::cast) ops.push_back(op);
    }
    for (int steps = 0; steps < 25; ++steps) {
      Op op = ops[pick(ops.size())];
      Val x = values[pick(values.size())];
      if (!atlas::may_compute(op, x.type)) {
        values.push_back(b.cast(x, types[pick(8)]));
        continue;
      }
      auto of = [&](DType t) {
        Val v = values[pick(values.size())];
        return v.type == t ? v : b.cast(v, t);
      };
      int arity = ir::info(op).arity;
      values.push_back(op == Op::select ? b.select(of(DType::b8), x, of(x.type))
                       : arity == 1     ? b.op(op, x)
                       : arity == 2     ? b.op(op, x, of(x.type))
                                        : b.op(op, x, of(x.type), of(x.type)));
    }
    for (size_t k = values.size() - 6; k < values.size(); ++k) {
      p.buffers.push_back({values[k].type, Access::write, m * n});
      b.store(static_cast<int>(p.buffers.size()) - 1, i[0] * n + i[1], values[k]);
    }
    expect_same(p, {.seed = seed, .chunks = {0, 11}});
  }
}

}  // namespace
}  // namespace hologram::test
