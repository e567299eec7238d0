// tests/schedule/machine_test.cpp: plans for machines that lack what others have: the same values.
#include <algorithm>

#include "schedule/run_plan.h"
#include "support/machine.h"

namespace hologram::schedule {
namespace {

using ir::Graph;
using ir::Op;
using ir::Value;

// What a plan relies on.
struct Features {
  int products = 0, tails = 0, parts = 0, winograd = 0, symbolic = 0, packed = 0, boundary = 0;
};

Features features_of(const Plan& plan) {
  Features f;
  f.boundary = plan.boundary_bytes > 0;
  for (const atlas::Program& p : plan.programs) {
    if (p.kind() != atlas::BlockKind::product) continue;
    ++f.products;
    f.tails += p.has_tail();
    f.parts += p.product().parts > 1;
    f.winograd += p.product().winograd;
    f.packed += p.product().packed_rhs >= 0;
    f.symbolic += std::ranges::any_of(p.product().axes, [](const atlas::Axis& a) { return !a.extent.is_const(); });
  }
  return f;
}

class Model {
 public:
  Value input(const Shape& shape, DType t = DType::f32) { return g.parameter(next_++, t, shape, contiguous_strides(shape)); }
  /// Parameters from number 100 on are weights.
  Value weight(const Shape& shape, DType t = DType::f32) { return g.parameter(next_weight_++, t, shape, contiguous_strides(shape)); }
  Value dot(Value a, Value b) { return g.make(Op::dot_general, {a, b}, {.ints = {0}}); }
  Value relu(Value x) { return g.binary(Op::max, x, g.number(x->dtype, 0, x->shape)); }
  Value add(Value a, Value b) { return g.binary(Op::add, a, g.broadcast(b, a->shape)); }
  void output(Value v) { g.outputs.push_back({v, contiguous_strides(v->shape)}); }

  /// The windows of a channels-first image as a product's left operand, [groups,] pixels, sums.
  Value windows(Value x, int64_t kernel, int64_t stride, int64_t groups) {
    int64_t n = size(x, 0), c = size(x, 1) / groups, pad = kernel / 2;
    int64_t h = size(x, 2) + 2 * pad, w = size(x, 3) + 2 * pad;
    int64_t oh = (h - kernel) / stride + 1, ow = (w - kernel) / stride + 1;
    if (kernel == 1 && stride == 1 && groups == 1) return g.reshape(g.permute(x, {0, 2, 3, 1}), {n * h * w, c});
    x = g.reshape(g.permute(x, {0, 2, 3, 1}), {n, h - 2 * pad, w - 2 * pad, groups, c});
    x = g.pad(x, {0, pad, pad, 0, 0}, {n, h, w, groups, c}, 0);
    x = g.make(Op::window, {x}, {.ints = {1, stride, 1}}, {}, Shape{n, oh, w, groups, c, kernel});
    x = g.make(Op::window, {x}, {.ints = {2, stride, 1}}, {}, Shape{n, oh, ow, groups, c, kernel, kernel});
    x = g.permute(x, {3, 0, 1, 2, 5, 6, 4});
    if (groups == 1) return g.reshape(x, {n * oh * ow, kernel * kernel * c});
    return g.reshape(x, {groups, n * oh * ow, kernel * kernel * c});
  }
  Value convolve(Value x, int64_t results, int64_t kernel, int64_t stride, int64_t groups) {
    int64_t n = size(x, 0), oh = (size(x, 2) - 1) / stride + 1, ow = (size(x, 3) - 1) / stride + 1;
    Value left = windows(x, kernel, stride, groups);
    Shape of_weight = left->shape;
    of_weight[of_weight.size() - 2] = of_weight.back();
    of_weight.back() = results / groups;
    Value y = g.reshape(dot(left, weight(of_weight, x->dtype)), {groups, n, oh, ow, results / groups});
    return relu(g.reshape(g.permute(y, {1, 0, 4, 2, 3}), {n, results, oh, ow}));
  }

  Graph g;

 private:
  static int64_t size(Value v, size_t i) { return v->shape[i].constant_value(); }
  int next_ = 0, next_weight_ = 100;
};

struct Case {
  const char* name;
  int Features::*relies_on;  ///< a plan for a rich machine, not for a poor one; null: products
  void (*build)(Model&);
  std::vector<int64_t> symbols = {};
};

void norm_of_rows(Model& m) {
  Value x = m.dot(m.input({1024, 40}), m.weight({40, 64}));
  Value sum = m.g.reduce(Op::reduce_sum, m.g.binary(Op::mul, x, x), {1});
  Value r = m.g.reshape(m.g.unary(Op::rsqrt, sum), {1024, 1});
  m.output(m.g.binary(Op::mul, x, m.g.broadcast(r, x->shape)));
}

void gates(Model& m) {
  Value x = m.dot(m.input({5, 24}), m.weight({24, 64}));
  auto half = [&](int64_t from) { return m.g.slice(x, {0, from}, {5, 32}, {1, 1}); };
  m.output(m.g.binary(Op::mul, half(0), m.g.unary(Op::tanh, half(32))));
}

void run_time_rows(Model& m) {
  m.g.num_symbols = 2;
  Expr rows = Expr::symbol(1), depth = Expr::symbol(0);
  Value x = m.dot(m.input({3, rows, depth}), m.input({3, depth, 9}));
  m.output(m.relu(m.add(x, m.input({9}))));
}

void run_time_gates(Model& m) {
  m.g.num_symbols = 1;
  Expr rows = Expr::symbol(0);
  Value x = m.dot(m.input({rows, 24}), m.weight({24, 64}));
  auto half = [&](int64_t from) { return m.g.slice(x, {0, from}, {rows, 32}, {1, 1}); };
  m.output(m.g.binary(Op::mul, half(0), half(32)));
}

void first_layer(Model& m) { m.output(m.convolve(m.convolve(m.input({1, 3, 18, 24}), 32, 3, 2, 1), 32, 3, 1, 32)); }
void depthwise(Model& m) { m.output(m.convolve(m.input({2, 24, 9, 8}), 24, 3, 2, 24)); }
void depthwise_of_planes(Model& m) { m.output(m.convolve(m.input({2, 24, 9, 40}), 24, 3, 1, 24)); }
// The columns of two depthwise convolutions by turns, as of a strided gradient.
void interleaved_planes(Model& m) {
  Value x = m.input({1, 8, 6, 20});
  std::vector<Value> kinds;
  for (int64_t kernel : {3, 5}) kinds.push_back(m.g.reshape(m.convolve(x, 8, kernel, 1, 8), {1, 8, 6, 20, 1}));
  Value y = m.g.make(Op::concat, kinds, {.ints = {4}}, {}, Shape{1, 8, 6, 20, 2});
  m.output(m.g.reshape(y, {1, 8, 6, 40}));
}
void narrow_groups(Model& m) { m.output(m.convolve(m.input({1, 64, 9, 8}), 64, 3, 1, 16)); }
void inverted_bottleneck(Model& m) {
  Value x = m.convolve(m.input({1, 16, 16, 16}), 96, 1, 1, 1);
  m.output(m.convolve(x, 96, 3, 1, 96));
}

void weight_gradient(Model& m) {
  Value x = m.windows(m.input({1, 24, 6, 8}), 3, 1, 24), grad = m.g.permute(m.input({1, 48, 24, 1}), {2, 0, 3, 1});
  m.output(m.dot(grad, m.g.reshape(x, {24, 1, 48, 9})));
}

void attention_of_rows(Model& m) {
  Value q = m.dot(m.input({2, 12, 16}), m.input({2, 16, 12})), e = m.g.unary(Op::exp, q);
  Value sum = m.g.reshape(m.g.reduce(Op::reduce_sum, e, {2}), {2, 12, 1});
  Value p = m.g.binary(Op::div, e, m.g.broadcast(sum, e->shape));
  m.output(m.dot(p, m.input({2, 12, 16})));
}

void weights_of_bytes(Model& m) {
  Value w = m.g.cast(m.weight({64, 128}, DType::i8), DType::f32);
  m.output(m.dot(m.relu(m.dot(m.input({4, 64}), w)), m.weight({128, 8})));
}

const Case cases[] = {
    {"norm_of_rows", &Features::tails, norm_of_rows},
    {"gates", &Features::parts, gates},
    {"run_time_rows", &Features::symbolic, run_time_rows, {900, 3}},
    {"run_time_rows_of_one_block", &Features::symbolic, run_time_rows, {384, 2}},
    {"run_time_rows_without_depth", &Features::symbolic, run_time_rows, {0, 2}},
    {"run_time_gates", &Features::parts, run_time_gates, {7}},
    {"first_layer", nullptr, first_layer},
    {"depthwise", nullptr, depthwise},
    {"depthwise_of_planes", nullptr, depthwise_of_planes},
    {"interleaved_planes", nullptr, interleaved_planes},
    {"narrow_groups", nullptr, narrow_groups},
    {"inverted_bottleneck", nullptr, inverted_bottleneck},
    {"weight_gradient", nullptr, weight_gradient},
    {"attention_of_rows", &Features::boundary, attention_of_rows},
    {"weights_of_bytes", &Features::boundary, weights_of_bytes},
};

Plan plan_for(const Graph& g, const Machine& machine, bool reproducible) {
  Options o;
  o.reproducible = reproducible;
  o.machine = &machine;
  o.is_static = [](int i) { return i >= 100; };
  return test::verified_plan(g, o);
}

class MachineTest : public testing::TestWithParam<Case> {};

TEST_P(MachineTest, PlansForPoorMachinesGiveTheSameBits) {
  const Case& c = GetParam();
  Model m;
  c.build(m);
  const test::PoorMachine poor;
  Plan without = plan_for(m.g, poor, true);
  Features lacks = features_of(without);
  EXPECT_EQ(lacks.tails + lacks.parts + lacks.winograd + lacks.symbolic + lacks.packed + lacks.boundary, 0);
  for (int width : {16, 32}) {  // of 16 vector registers and of 32
    test::PanelMachine rich(width);
    rich.shared_vectors = 32 / width;
    Plan with = plan_for(m.g, rich, true);
    Features has = features_of(with);
    if (c.relies_on) {
      EXPECT_GT(has.*c.relies_on, 0);
    } else {
      EXPECT_EQ(has.products, 0);
      EXPECT_GT(lacks.products, 0);
    }
    EXPECT_EQ(test::run_plan(with, c.symbols), test::run_plan(without, c.symbols)) << print(without);
  }
}

INSTANTIATE_TEST_SUITE_P(Graphs, MachineTest, testing::ValuesIn(cases), [](const auto& each) { return std::string(each.param.name); });

TEST(Machine, WinogradsMethodIsOneOfUnrolledWindows) {
  for (DType t : {DType::f32, DType::f16, DType::bf16}) {
    Model m;
    m.output(m.convolve(m.input({1, 64, 28, 28}, t), 64, 3, 1, 1));
    EXPECT_EQ(features_of(plan_for(m.g, test::PanelMachine(32), false)).winograd, 1);
    EXPECT_EQ(features_of(plan_for(m.g, test::PoorMachine(), false)).winograd, 0);
  }
}

TEST(Machine, ARowTimesAMatrixAlongKIsSumsOfItsRows) {
  test::PanelMachine machine(32);
  machine.sums_rows = true;
  for (const auto& [column, weight] : {std::pair(0, 0), {0, 1}, {1, 0}, {1, 1}}) {
    Model m;
    Value matrix = (m.*(weight ? &Model::weight : &Model::input))({512, 256}, DType::i32);
    Value x = m.input({1, 256}, DType::i32), turned = m.g.permute(column ? x : matrix, {1, 0});
    m.output(m.relu(m.dot(column ? matrix : x, turned)));
    Plan sums = plan_for(m.g, machine, false), product = plan_for(m.g, machine, true);
    EXPECT_EQ(features_of(sums).products, weight && !column) << print(sums);  // panels of a weight serve a row
    EXPECT_EQ(test::run_plan(sums, {}), test::run_plan(product, {}));
  }
}

// Threads take pieces of the outermost axes: of pixels, as of the products around, not of channels.
TEST(Machine, LinesOfDepthwiseConvolutionsLieOutsideOfChannels) {
  Model m;
  m.output(m.convolve(m.convolve(m.input({1, 192, 28, 56}), 192, 1, 1, 1), 192, 3, 1, 192));
  const test::PanelMachine machine(32);
  int found = 0;
  for (const atlas::Program& p : plan_for(m.g, machine, false).programs) {
    if (p.kind() != atlas::BlockKind::loop) continue;
    const auto& instrs = p.loop().stages[0].body.instrs;
    auto fma = std::ranges::find(instrs, Op::fma, &atlas::Instr::op);
    if (fma == instrs.end()) continue;
    const Expr& weight = instrs[fma->args[1]].expr;
    EXPECT_FALSE(weight.has_axis(0)) << disassemble(p);
    EXPECT_TRUE(weight.has_axis(1)) << disassemble(p);
    EXPECT_TRUE(p.loop().axes[0].extent.is(4)) << disassemble(p);
    ++found;
  }
  EXPECT_EQ(found, 1);
}

// What lies around pixels, before and behind them: lines of pixels are lines of their channels.
TEST(Machine, ABorderKeepsShortPixelsOnOneLine) {
  for (const bool joins : {false, true}) {
    Model m;
    Value x = m.relu(m.input({2, 5, 6, 40}));
    if (joins) {
      Value y = m.g.make(Op::concat, {x, m.input({2, 5, 3, 40}), x}, {.ints = {2}}, {}, Shape{2, 5, 15, 40});
      m.output(m.g.unary(Op::neg, y));
    } else {
      m.output(m.g.pad(x, {0, 1, 2, 0}, {2, 8, 9, 40}, 3));
    }
    const test::PanelMachine rich(32);
    const test::PoorMachine poor;  // 40 are many vectors of this one
    Plan with = plan_for(m.g, rich, true), without = plan_for(m.g, poor, true);
    ASSERT_EQ(with.programs.size(), 1u);
    EXPECT_EQ(with.programs[0].loop().axes.size() + 1, without.programs[0].loop().axes.size()) << print(with) << print(without);
    EXPECT_EQ(test::run_plan(with, {}), test::run_plan(without, {})) << print(with);
  }
}

}  // namespace
}  // namespace hologram::schedule
