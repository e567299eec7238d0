// tests/schedule/plan_test.cpp: which operations share a kernel, and where buffers live
#include "schedule/plan.h"
#include "support/machine.h"
#include "support/test.h"

namespace hologram::schedule {
namespace {

using atlas::Access;
using ir::Graph;
using ir::Op;
using ir::Value;

class PlanTest : public testing::Test {
 protected:
  Value input(Shape shape, DType t = DType::f32) { return g.parameter(next_++, t, shape, contiguous_strides(shape)); }
  /// Parameters from number 100 on are weights.
  Value weight(Shape shape) { return g.parameter(next_weight_++, DType::f32, shape, contiguous_strides(shape)); }
  void output(Value v) { g.outputs.push_back({v, contiguous_strides(v->shape), -1}); }
  Value keep(Value reduced, const Shape& full, size_t axis) {
    Shape unit = full;
    unit[axis] = 1;
    return g.broadcast(g.reshape(reduced, unit), full);
  }
  Value dot(Value a, Value b) { return g.make(Op::dot_general, {a, b}, {{0}, {}, 0, ""}); }
  Value add(Value a, Value b) { return g.binary(Op::add, a, g.broadcast(b, a->shape)); }
  Value softmax(Value x, size_t axis) {
    auto a = static_cast<int64_t>(axis);
    Value e = g.unary(Op::exp, g.binary(Op::sub, x, keep(g.reduce(Op::reduce_max, x, {a}), x->shape, axis)));
    return g.binary(Op::div, e, keep(g.reduce(Op::reduce_sum, e, {a}), x->shape, axis));
  }
  Value layer_norm(Value x, const Expr& n) {
    size_t axis = x->shape.size() - 1;
    auto a = static_cast<int64_t>(axis);
    Shape outer(x->shape.begin(), x->shape.end() - 1);
    Value count = g.number(DType::f32, static_cast<double>(n.constant_value()), outer);
    Value d = g.binary(Op::sub, x, keep(g.binary(Op::div, g.reduce(Op::reduce_sum, x, {a}), count), x->shape, axis));
    Value var = g.binary(Op::div, g.reduce(Op::reduce_sum, g.binary(Op::mul, d, d), {a}), count);
    Value r = g.unary(Op::rsqrt, g.binary(Op::add, var, g.number(DType::f32, 1e-5, outer)));
    Value y = g.binary(Op::mul, g.binary(Op::mul, d, keep(r, x->shape, axis)), g.broadcast(weight({n}), x->shape));
    return add(y, weight({n}));
  }
  test::PanelMachine machine{32};
  Plan plan() {
    Options o;
    o.machine = &machine;
    o.is_static = [](int i) { return i >= 100; };
    ir::verify(g);
    Plan p = make_plan(g, o);
    EXPECT_EQ(p.fingerprints.size(), p.programs.size());
    for (size_t k = 0; k < p.programs.size(); ++k) {
      atlas::verify(p.programs[k]);
      EXPECT_EQ(p.fingerprints[k], atlas::fingerprint(p.programs[k]));
    }
    return p;
  }
  static int runs(const Plan& p) {  // kernels of a steady-state call
    int n = 0;
    for (const Step& s : p.steps) n += s.kind == StepKind::kernel && s.cached < 0;
    return n;
  }

  Graph g;

 private:
  int next_ = 0, next_weight_ = 100;
};

TEST_F(PlanTest, ElementWiseChainsAreOneKernelOverOneAxis) {
  Value x = input({64, 100}), y = g.unary(Op::tanh, g.binary(Op::mul, x, x));
  output(g.binary(Op::add, y, g.unary(Op::exp, x)));
  Plan p = plan();
  ASSERT_EQ(runs(p), 1);
  EXPECT_EQ(p.programs[0].loop().axes.size(), 1u);
  EXPECT_EQ(p.programs[0].loop().axes[0].extent, Expr(6400));
}

// Rows of images without their first token: a division would be one for each tap of a filter.
TEST_F(PlanTest, CoordinatesBehindPaddingAreNotDivided) {
  Value x = g.slice(input({2, 17, 8}), {0, 1, 0}, {2, 16, 8}, {1, 1, 1});
  x = g.reshape(g.reshape(x, {32, 8}), {2, 4, 4, 8});
  output(g.pad(x, {0, 1, 1, 0}, {2, 6, 6, 8}, 0));
  Plan p = plan();
  ASSERT_EQ(runs(p), 1);
  int loads = 0;
  for (const auto& i : p.programs[0].loop().stages[0].body.instrs) {
    if (i.code != atlas::Code::load) continue;
    ++loads;
    EXPECT_FALSE(i.expr.any_atom([](const Atom& a) { return a.kind == Atom::Kind::floor_div || a.kind == Atom::Kind::mod; }))
        << i.expr.str();
  }
  EXPECT_EQ(loads, 1);
}

// Many long rows, too.
TEST_F(PlanTest, SoftmaxIsOneKernelAndComputesItsExponentialsOnce) {
  for (const Shape& shape : {Shape{8, 128}, Shape{64, 50257}}) {
    g.outputs.clear();
    output(softmax(input(shape), 1));
    Plan p = plan();
    ASSERT_EQ(runs(p), 1);
    int exponentials = 0;
    for (const auto& stage : p.programs[0].loop().stages)
      for (const auto& i : stage.body.instrs) exponentials += i.code == atlas::Code::arithmetic && i.op == Op::exp;
    EXPECT_EQ(exponentials, 1);
  }
}

TEST_F(PlanTest, SoftmaxOverAnOuterAxisRunsItsLanesAlongTheInnerOne) {
  output(softmax(input({8, 64, 256}), 1));
  Plan p = plan();
  ASSERT_EQ(runs(p), 1);
  const auto& loop = p.programs[0].loop();
  EXPECT_EQ(loop.lane_axis, loop.parallel_rank - 1);
}

// Lanes run along points where rows are shorter than a vector and points lie near each other.
TEST_F(PlanTest, SumsOfSmallSquaresRunTheirLanesAlongPoints) {
  struct Case {
    Shape shape;
    std::vector<int64_t> axes;
    bool points;
  };
  const std::vector<Case> cases{
      {{64, 56, 2, 56, 2}, {2, 4}, true}, {{64, 56, 4, 56, 4}, {2, 4}, true},  {{64, 56, 2}, {2}, true},
      {{64, 56, 4}, {2}, false},          {{64, 56, 2, 56, 8}, {2, 4}, false}, {{64, 56, 2, 8, 2}, {2, 4}, false}};
  for (const Case& c : cases) output(g.reduce(Op::reduce_sum, input(c.shape), c.axes));
  Plan p = plan();
  for (const Step& s : p.steps) {
    const auto& loop = p.programs[static_cast<size_t>(s.program)].loop();
    auto from = static_cast<size_t>(s.buffers[0]);
    ASSERT_LT(from, cases.size());
    EXPECT_EQ(loop.lane_axis == loop.parallel_rank - 1, cases[from].points) << from;
  }
}

TEST_F(PlanTest, AddAndLayerNormAreOneKernelWithTwoResults) {
  Value x = g.binary(Op::add, input({4, 128, 768}), input({4, 128, 768}));
  output(layer_norm(x, 768));
  output(x);
  EXPECT_EQ(runs(plan()), 1);
}

TEST_F(PlanTest, AProductTakesBiasActivationAndResidualAndPacksItsWeightOnce) {
  Value x = input({64, 256}), w = weight({512, 256}), h = g.unary(Op::gelu, add(dot(x, g.permute(w, {1, 0})), weight({512})));
  output(g.binary(Op::add, h, input({64, 512})));
  Plan p = plan();
  EXPECT_EQ(runs(p), 1);
  ASSERT_EQ(p.cache.size(), 1u);
  EXPECT_EQ(p.cache[0].parameters, std::vector<int>{100});
}

TEST_F(PlanTest, ACheapActivationBetweenProductsIsTheFirstOnesEpilogue) {
  Value h = dot(input({64, 256}), weight({256, 512}));
  output(dot(g.binary(Op::max, h, g.number(DType::f32, 0, h->shape)), weight({512, 64})));
  Plan p = plan();
  EXPECT_EQ(runs(p), 2);
  EXPECT_EQ(p.programs[static_cast<size_t>(p.steps.back().program)].product().lhs.instrs.size(), 1u);
}

TEST_F(PlanTest, AProductFinishesTheGatesOfAUnitTogether) {
  Value y = add(dot(input({16, 64}), g.permute(weight({192, 64}), {1, 0})), weight({192}));
  auto gate = [&](int64_t i) { return g.slice(y, {0, 64 * i}, {16, 64}, {1, 1}); };
  Value state = g.binary(Op::mul, g.unary(Op::sigmoid, gate(0)), g.unary(Op::tanh, gate(2)));
  output(state);
  output(g.binary(Op::mul, g.unary(Op::sigmoid, gate(1)), g.unary(Op::tanh, state)));
  Plan p = plan();
  EXPECT_EQ(runs(p), 1);
  ASSERT_EQ(p.programs.size(), 2u);  // what packs the weight, and the product
  const atlas::ProductBlock& b = p.programs[1].product();
  EXPECT_EQ(b.parts, 3);
  EXPECT_TRUE(b.axes.back().extent.is(64));
}

TEST_F(PlanTest, AProductWhoseColumnsAreReadByOthersTooIsWhole) {
  Value y = dot(input({16, 64}), g.permute(weight({128, 64}), {1, 0}));
  Value left = g.slice(y, {0, 0}, {16, 64}, {1, 1}), right = g.slice(y, {0, 64}, {16, 64}, {1, 1});
  output(g.binary(Op::mul, left, right));
  output(g.reduce(Op::reduce_sum, y, {1}));
  int products = 0;
  for (const atlas::Program& p : plan().programs) {
    if (p.kind() != atlas::BlockKind::product) continue;
    ++products;
    EXPECT_EQ(p.product().parts, 1);
  }
  EXPECT_EQ(products, 1);
}

TEST_F(PlanTest, ALayerNormBehindAProductIsItsTail) {
  Value x = input({2, 1024, 64}), w = weight({128, 64});
  Value y = g.reshape(dot(g.reshape(x, {2048, 64}), g.permute(w, {1, 0})), {2, 1024, 128});
  output(layer_norm(g.binary(Op::add, add(y, weight({128})), input({2, 1024, 128})), 128));
  Plan p = plan();
  EXPECT_EQ(runs(p), 1);
  ASSERT_TRUE(p.programs.back().has_tail());
  // The sums lie where the norm goes: beside it there are only the inputs.
  int written = 0;
  for (const atlas::Buffer& b : p.programs.back().buffers) written += b.access == Access::write || b.access == Access::read_write;
  EXPECT_EQ(written, 1);
}

TEST_F(PlanTest, WhatATailReadsStaysForOthers) {
  Value x = input({2048, 64}), sum = add(dot(x, g.permute(weight({128, 64}), {1, 0})), input({2048, 128}));
  Value norm = layer_norm(sum, 128);
  output(dot(norm, g.permute(weight({64, 128}), {1, 0})));
  output(sum);
  Plan p = plan();
  EXPECT_EQ(runs(p), 2);
}

TEST_F(PlanTest, ATailNeedsRowsAndWeights) {
  auto tails = [&](Value y) {
    output(layer_norm(y, 128));
    int n = 0;
    for (const atlas::Program& p : plan().programs) n += p.has_tail();
    return n;
  };
  EXPECT_EQ(tails(dot(input({8, 64}), weight({64, 128}))), 0);    // few rows
  EXPECT_EQ(tails(dot(input({2048, 64}), input({64, 128}))), 0);  // panels of each call
  EXPECT_EQ(tails(dot(input({2048, 64}), weight({64, 128}))), 1);
  Value turned = layer_norm(dot(input({2048, 32}), weight({32, 96})), 96);
  g.outputs = {{turned, {1, 2048}, -1}};  // columns lie apart
  for (const atlas::Program& p : plan().programs) EXPECT_FALSE(p.has_tail());
}

// In words of a column where a machine takes them and numbers have a scale of their segment.
TEST_F(PlanTest, WeightsOfFewBitsAreKeptAsTheyAre) {
  Value x = input({4, 256}), q = g.parameter(200, DType::i8, {128, 256}, {256, 1}), number = g.cast(q, DType::f32);
  auto layout = [&](Value value, const Shape& scale, int words) {
    machine.words = words;
    g.outputs.clear();
    output(dot(x, g.permute(g.binary(Op::mul, value, g.broadcast(weight(scale), q->shape)), {1, 0})));
    Plan p = plan();
    EXPECT_EQ(runs(p), 1);
    auto kept = std::ranges::find_if(p.slots, [](const Slot& s) { return s.kind == SlotKind::cached && s.dtype == DType::i8; });
    return kept == p.slots.end() ? Shape{} : kept->shape;
  };
  const Shape bytes{2, 256, 64}, words{4, 2, 64, 16, 4};
  EXPECT_EQ(layout(number, {128, 1}, 0), bytes);
  EXPECT_EQ(layout(number, {128, 1}, 32), words);
  EXPECT_EQ(layout(g.binary(Op::sub, number, g.broadcast(weight({128, 1}), q->shape)), {128, 1}, 32), words);
  EXPECT_EQ(layout(number, {1, 256}, 32), bytes);
  EXPECT_EQ(layout(g.binary(Op::mul, number, number), {128, 1}, 32), bytes);
}

TEST_F(PlanTest, SumsOfWeightsAreKeptWhereOneRowReadsThem) {
  for (int64_t rows : {1, 4}) {
    g.outputs.clear();
    Value w = weight({64, 128}), y = dot(input({rows, 64}), w);
    output(add(y, g.reshape(g.reduce(Op::reduce_sum, w, {0}), {1, 128})));
    EXPECT_EQ(runs(plan()), 1) << rows;
  }
}

TEST_F(PlanTest, HeadsAreSplitInTheProductsEpilogue) {
  Value q = add(dot(input({1024, 384}), g.permute(weight({384, 384}), {1, 0})), weight({384}));
  output(g.permute(g.reshape(q, {8, 128, 12, 32}), {0, 2, 1, 3}));
  EXPECT_EQ(runs(plan()), 1);
}

// convolution + batch norm of a channels-first image, as the PyTorch front end writes it.
TEST_F(PlanTest, AConvolutionTakesNormAndResidualAndKeepsItsChannelsDensest) {
  auto conv = [&](Value x, int64_t into, int64_t out) {
    x = g.pad(g.permute(x, {0, 2, 3, 1}), {0, 1, 1, 0}, {2, 10, 10, into}, 0);
    x = g.make(Op::window, {x}, {.ints = {1, 1, 1}}, {}, Shape{2, 8, 10, into, 3});
    x = g.make(Op::window, {x}, {.ints = {2, 1, 1}}, {}, Shape{2, 8, 8, into, 3, 3});
    x = g.reshape(g.permute(x, {0, 1, 2, 4, 5, 3}), {128, 9 * into});
    Value w = g.reshape(g.permute(weight({out, into, 3, 3}), {2, 3, 1, 0}), {9 * into, out});
    Value y = g.permute(g.reshape(dot(x, w), {2, 8, 8, out}), {0, 3, 1, 2});
    auto channel = [&](Value v) { return g.broadcast(g.reshape(v, {1, out, 1, 1}), y->shape); };
    Value eps = g.number(DType::f32, 1e-5, {out}), scale = g.unary(Op::rsqrt, g.binary(Op::add, weight({out}), eps));
    y = g.binary(Op::mul, g.binary(Op::sub, y, channel(weight({out}))), channel(scale));
    return g.binary(Op::add, y, channel(weight({out})));
  };
  auto relu = [&](Value v) { return g.binary(Op::max, v, g.number(DType::f32, 0, v->shape)); };
  Value x = input({2, 16, 8, 8}), y = relu(conv(x, 16, 32)), z = relu(conv(y, 32, 32));
  output(relu(g.binary(Op::add, conv(z, 32, 32), y)));
  Plan p = plan();
  // The image is laid out channels last, then one kernel for each convolution.
  EXPECT_EQ(runs(p), 4);
  EXPECT_EQ(p.cache.size(), 6u);  // three packed weights, three scales
  int dense = 0;
  for (const Slot& s : p.slots)
    if (s.kind == SlotKind::arena && s.shape.size() == 4 && s.shape[1] == Expr(32)) {
      EXPECT_EQ(s.strides, (Shape{2048, 1, 256, 32}));
      ++dense;
    }
  EXPECT_EQ(dense, 2);
}

TEST_F(PlanTest, LoopsKeepTheLayoutOfWhatTheyRead) {
  // exp of a channels-last image, read at two lines by what comes next.
  Value x = g.unary(Op::exp, g.permute(input({2, 8, 8, 32}), {0, 3, 1, 2}));
  auto lines = [&](int64_t first) { return g.slice(x, {0, 0, first, 0}, {2, 32, 7, 8}, {1, 1, 1, 1}); };
  output(g.binary(Op::add, lines(0), lines(1)));
  Plan p = plan();
  EXPECT_EQ(runs(p), 2);
  for (const Slot& s : p.slots)
    if (s.kind == SlotKind::arena) {
      EXPECT_EQ(s.strides, (Shape{2048, 1, 256, 32}));
    }
}

TEST_F(PlanTest, ShortAxesMergeIntoTheLanesOfALaidOutImage) {
  // Channels in groups of 4: all of them are lanes.
  Value x = g.reshape(g.permute(input({1, 64, 8, 8}), {0, 2, 3, 1}), {1, 8, 8, 16, 4});
  output(g.pad(x, {0, 1, 1, 0, 0}, {1, 10, 10, 16, 4}, 0));
  EXPECT_EQ(plan().programs[0].loop().axes.back().extent, Expr(64));
}

TEST_F(PlanTest, ShortRunsAreCutOffALineThatIsReadByTheirNumber) {
  // x[:, i // 2]
  Value x = g.broadcast(g.reshape(input({8, 100}), {8, 100, 1}), {8, 100, 2});
  output(g.reshape(x, {8, 200}));
  Plan p = plan();
  const auto& axes = p.programs[0].loop().axes;
  ASSERT_EQ(axes.size(), 2u);  // all lines at once, runs
  EXPECT_EQ(axes[1].extent, Expr(2));
}

TEST_F(PlanTest, LongSumsRunTheirBlocksInParallel) {
  output(g.reduce(Op::reduce_sum, input({2048, 2048}), {0, 1}));
  Plan p = plan();
  ASSERT_EQ(p.steps.size(), 2u);
  EXPECT_EQ(p.programs[0].loop().axes[0].extent, Expr(1024));
  EXPECT_TRUE(p.programs[1].loop().stages[0].reductions[0].tree);
}

TEST_F(PlanTest, SumsOfChannelsThatLieDensestRunTheirBlocksInParallel) {
  // [n, c, h, w] summed to [c]; the second image lies channels last.
  Shape shape{4, 96, 56, 56};
  Value planes = input(shape), pixels = g.permute(input({4, 56, 56, 96}), {0, 3, 1, 2});
  output(g.reduce(Op::reduce_sum, planes, {0, 2, 3}));
  EXPECT_EQ(plan().steps.size(), 1u);
  output(g.reduce(Op::reduce_sum, g.unary(Op::abs, pixels), {0, 2, 3}));
  EXPECT_EQ(plan().steps.size(), 3u);
}

TEST_F(PlanTest, TapsOfAWeightAreWalkedBesideTheLanesThatGatherThem) {
  // [into, out, 3, 3] as [taps reversed, into, out]: a tap at a time would read all of it nine times.
  Value w = g.make(Op::flip, {input({64, 128, 3, 3})}, {{2, 3}, {}, 0, ""});
  output(g.permute(w, {2, 3, 0, 1}));
  Plan p = plan();
  ASSERT_EQ(p.steps.size(), 1u);
  const auto& axes = p.programs[0].loop().axes;
  ASSERT_EQ(axes.size(), 3u);
  EXPECT_EQ(axes[0].extent, Expr(64));
  EXPECT_EQ(axes[1].extent, Expr(9));
  EXPECT_EQ(axes[2].extent, Expr(128));
}

TEST_F(PlanTest, EqualLayersShareTheirPrograms) {
  Value x = input({32, 64});
  for (int i = 0; i < 4; ++i) x = layer_norm(g.binary(Op::add, dot(x, g.permute(weight({64, 64}), {1, 0})), x), 64);
  output(x);
  Plan p = plan();
  EXPECT_EQ(runs(p), 8);
  EXPECT_EQ(p.programs.size(), 3u);  // packing, product, norm
}

TEST_F(PlanTest, SymbolicSizesGiveTheSameKernels) {
  g.num_symbols = 1;
  Expr n = Expr::symbol(0);
  Value x = g.binary(Op::add, input({4, n, 384}), input({4, n, 384}));
  output(layer_norm(x, 384));
  Plan p = plan();
  EXPECT_EQ(runs(p), 1);
  ASSERT_EQ(p.steps[0].symbols.size(), 1u);
  EXPECT_EQ(p.steps[0].symbols[0], n);
}

TEST_F(PlanTest, AStaticCacheIsUpdatedInPlace) {
  Value cache = input({2, 128, 64}), at = input({1}, DType::i64), rows = input({2, 1, 64});
  Value updated = g.make(Op::scatter, {cache, at, rows}, {{1, 0}, {}, 0, ""});
  g.outputs.push_back({updated, {}, 0});
  output(g.reduce(Op::reduce_max, updated, {1}));
  Plan p = plan();
  ASSERT_EQ(p.steps.size(), 2u);  // no copy of the cache
  EXPECT_EQ(p.steps[0].name, "scatter");
  EXPECT_EQ(p.steps[1].buffers[0], p.outputs[0].slot);  // the maximum reads the parameter itself
}

// Two steps of an optimizer: counts first, then the updates, which need nothing of each other.
TEST_F(PlanTest, UpdatesOfParametersRunTogether) {
  for (int n : {500, 6000}) {
    Value parameter = input({n}), count = input({}), gradient = input({n}), next = g.binary(Op::add, count, g.number(DType::f32, 1));
    Value rate = g.broadcast(g.unary(Op::sqrt, next), {n});
    const auto first = static_cast<int>(parameter->attrs.ints[0]);
    g.outputs.push_back({g.binary(Op::sub, parameter, g.binary(Op::mul, gradient, rate)), {}, first});
    g.outputs.push_back({next, {}, first + 1});
  }
  Plan p = plan();
  ASSERT_EQ(p.steps.size(), 4u);
  for (const schedule::Step& s : p.steps) EXPECT_GE(s.group, 0);
  EXPECT_EQ(p.steps[0].group, p.steps[1].group);
  EXPECT_EQ(p.steps[2].group, p.steps[3].group);
  EXPECT_NE(p.steps[0].group, p.steps[2].group);
}

// What one step writes the next one reads: none runs beside another.
TEST_F(PlanTest, StepsThatNeedEachOtherAreNoGroup) {
  Value x = input({64, 4096}), y = x;
  for (int i = 0; i < 3; ++i) {
    Value sum = g.reduce(Op::reduce_sum, y, {0});
    y = g.binary(Op::mul, y, g.broadcast(sum, {64, 4096}));
  }
  output(g.reduce(Op::reduce_sum, y, {0, 1}));
  for (const schedule::Step& s : plan().steps) EXPECT_EQ(s.group, -1);
}

// Points with indices of their own are independent; what lies apart in memory is not taken by lanes.
TEST_F(PlanTest, AScatterAlongRowsTakesRowsInParallel) {
  Value x = input({64, 256}), at = input({64, 256}, DType::i64), updates = input({64, 256});
  output(g.make(Op::scatter, {x, at, updates}, {{1, 1, 1}, {}, 0, ""}));
  Plan p = plan();
  ASSERT_EQ(p.steps.size(), 2u);  // a copy first
  const auto& loop = p.programs[static_cast<size_t>(p.steps[1].program)].loop();
  EXPECT_EQ(loop.parallel_rank, 1);
  EXPECT_EQ(loop.axes[0].extent, Expr(64));
  EXPECT_EQ(loop.lane_axis, -1);
}

// Places along memory are computed once for many lines, not lane by lane in each.
TEST_F(PlanTest, PlacesThatLinesShareAreAKernel) {
  Value at = input({1024}, DType::i64), square = g.binary(Op::mul, at, at);
  output(g.make(Op::take, {input({256, 1024}), g.binary(Op::div, square, square)}, {.ints = {1, 0}}));
  EXPECT_EQ(runs(plan()), 2);
}

// Both edges of an axis and what is between them are one use of what they are cut from.
TEST_F(PlanTest, ReflectedPaddingIsOneKernel) {
  Value x = input({8, 64, 64});
  for (int axis : {2, 1}) {
    Shape from(3, Expr(0)), edge = x->shape;
    edge[static_cast<size_t>(axis)] = Expr(1);
    from[static_cast<size_t>(axis)] = Expr(1);
    Value first = g.slice(x, from, edge, {});
    from[static_cast<size_t>(axis)] = Expr(62);
    x = g.concat({first, x, g.slice(x, from, edge, {})}, axis);
  }
  output(x);
  EXPECT_EQ(runs(plan()), 1);
}

TEST_F(PlanTest, AParameterThatIsStillNeededIsCopiedLater) {
  Value x = input({64, 64}), next = dot(x, x);
  g.outputs.push_back({next, {}, 0});
  Plan p = plan();
  EXPECT_EQ(p.steps.back().name, "copy");
  EXPECT_EQ(p.slots[static_cast<size_t>(p.steps.back().buffers[1])].kind, SlotKind::input);
}

TEST_F(PlanTest, AnUpdateBehindAProductIsALoopInPlace) {
  Value x = input({64, 64}), y = input({64, 64});
  g.outputs.push_back({g.binary(Op::add, dot(y, y), x), {}, 0});  // x += y y
  Plan p = plan();
  ASSERT_EQ(p.steps.size(), 2u);
  EXPECT_EQ(p.steps[1].name, "add");  // no copy
  for (const auto& b : p.programs[static_cast<size_t>(p.steps[0].program)].buffers)
    EXPECT_NE(b.access, atlas::Access::read_write);  // a product may compute an element twice
}

TEST_F(PlanTest, WhatNobodyReadsRunsAsSoonAsItCan) {
  Value x = input({64, 64}), a = dot(x, x), b = dot(a, x), c = dot(b, x);
  output(dot(c, x));
  output(dot(x, a));  // a weight's gradient, say: its operands need not wait for the rest
  Plan p = plan();
  ASSERT_EQ(p.steps.size(), 5u);
  const auto& second = p.steps[1].buffers;
  EXPECT_NE(std::ranges::find(second, p.outputs[1].slot), second.end());
}

TEST_F(PlanTest, SumsOverTapsUponTapsArePlannedInTimeOfTheirNodes) {
  Value x = input({16, 16});  // a layer reads the one before at four places, the first at 4^12
  for (int layer = 0; layer < 12; ++layer) {
    const Value padded = g.pad(g.reshape(g.permute(x, {1, 0}), {8, 32}), {0, 0}, {9, 33}, 0);
    auto tap = [&](int64_t row, int64_t column) { return g.slice(padded, {row, column}, {8, 32}, {1, 1}); };
    x = g.binary(Op::add, g.binary(Op::mul, tap(0, 0), tap(0, 1)), g.binary(Op::mul, tap(1, 0), tap(1, 1)));
    x = g.unary(Op::tanh, g.reshape(x, {16, 16}));
    output(g.reduce(Op::reduce_sum, x, {1}));
  }
  EXPECT_GE(runs(plan()), 12);
}

// Random plans are asked whether what shares memory is live at the same time.
TEST_F(PlanTest, BuffersShareMemory) {
  Value x = input({96, 96});
  for (int i = 0; i < 6; ++i) {
    Value a = dot(x, g.permute(weight({96, 96}), {1, 0})), b = dot(x, g.permute(weight({96, 2000}), {0, 1}));
    x = g.binary(Op::add, a, g.slice(b, {0, i}, {96, 96}, {1, 1}));
    output(g.reduce(Op::reduce_sum, x, {1}));
  }
  Plan p = plan();
  int64_t sum = 0;
  for (const Slot& s : p.slots)
    if (s.kind == SlotKind::arena) sum += s.bytes.constant_value();
  EXPECT_LT(p.arena_bytes.constant_value(), sum);
}

TEST_F(PlanTest, SmallBuffersLiveInTheBoundaryClasses) {
  Value x = input({8, 64}), h = dot(x, g.permute(weight({64, 64}), {1, 0}));
  output(dot(softmax(h, 1), g.permute(weight({64, 64}), {1, 0})));
  Plan p = plan();
  EXPECT_GT(p.boundary_bytes, 0);
  EXPECT_EQ(p.boundary_bytes % 12288, 0);
  EXPECT_EQ(p.arena_bytes.constant_value(), p.boundary_bytes);
  machine.small_total = 0;  // a machine without them
  Plan other = plan();
  EXPECT_EQ(other.boundary_bytes, 0);
  EXPECT_GT(other.arena_bytes.constant_value(), 0);
}

}  // namespace
}  // namespace hologram::schedule
