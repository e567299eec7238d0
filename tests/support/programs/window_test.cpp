// tests/support/programs/window_test.cpp: planned convolutions: every kernel on every instruction set against the interpreter, bit by bit.
#include "schedule/plan.h"
#include "support/differential.h"
#include "support/machine.h"
#include "support/test.h"

namespace hologram::test {
namespace {

const PanelMachine panels(32);

// Each of the plan's programs, whole and in chunks of one unit.
void expect_programs_same(const schedule::Plan& plan) {
  for (const atlas::Program& p : plan.programs) expect_same(p, {.chunks = {0, 1}});
}

using ir::Graph;
using ir::Op;
using ir::Value;

struct Convolution {
  int64_t batch, channels, height, width, results, kernel, stride, padding, dilation, groups;
  bool weights_kept = true;
  DType dtype = DType::f32;
};

std::ostream& operator<<(std::ostream& out, const Convolution& c) {
  return out << c.batch << 'x' << c.channels << 'x' << c.height << 'x' << c.width << " to " << c.results << " kernel " << c.kernel
             << " stride " << c.stride << " padding " << c.padding << " dilation " << c.dilation << " groups " << c.groups
             << (c.weights_kept ? " packed " : " ") << name_of(c.dtype);
}

// relu(convolution + bias) of a channels-first image, written as the PyTorch front end writes it;
// weights and bias are parameters `first` and `first` + 1.
Value convolve(Graph& g, Value x, const Convolution& c, int first) {
  auto parameter = [&](int index, Shape shape) { return g.parameter(index, c.dtype, shape, contiguous_strides(shape)); };
  int64_t per_group = c.channels / c.groups, out_group = c.results / c.groups;
  Value w = parameter(first, {c.results, per_group, c.kernel, c.kernel});
  Value bias = parameter(first + 1, {c.results});
  int64_t span = c.dilation * (c.kernel - 1) + 1;
  int64_t oh = (c.height + 2 * c.padding - span) / c.stride + 1, ow = (c.width + 2 * c.padding - span) / c.stride + 1;
  x = g.permute(x, {0, 2, 3, 1});
  x = g.reshape(x, {c.batch, c.height, c.width, c.groups, per_group});
  x = g.pad(x, {0, c.padding, c.padding, 0, 0}, {c.batch, c.height + 2 * c.padding, c.width + 2 * c.padding, c.groups, per_group}, 0);
  x = g.make(Op::window, {x}, {.ints = {1, c.stride, c.dilation}}, {},
             Shape{c.batch, oh, c.width + 2 * c.padding, c.groups, per_group, c.kernel});
  x = g.make(Op::window, {x}, {.ints = {2, c.stride, c.dilation}}, {}, Shape{c.batch, oh, ow, c.groups, per_group, c.kernel, c.kernel});
  x = g.reshape(g.permute(x, {3, 0, 1, 2, 5, 6, 4}), {c.groups, c.batch * oh * ow, c.kernel * c.kernel * per_group});
  w = g.reshape(w, {c.groups, out_group, per_group, c.kernel, c.kernel});
  w = g.reshape(g.permute(w, {0, 3, 4, 2, 1}), {c.groups, c.kernel * c.kernel * per_group, out_group});
  if (c.groups == 1) {  // a product without a batch
    x = g.reshape(x, {x->shape[1], x->shape[2]});
    w = g.reshape(w, {w->shape[1], w->shape[2]});
  }
  Value y = g.make(Op::dot_general, {x, w}, {.ints = {0}});
  y = g.permute(g.reshape(y, {c.groups, c.batch, oh, ow, out_group}), {1, 0, 4, 2, 3});
  y = g.reshape(y, {c.batch, c.results, oh, ow});
  y = g.binary(Op::add, y, g.broadcast(g.reshape(bias, {1, c.results, 1, 1}), y->shape));
  return g.binary(Op::max, y, g.number(c.dtype, 0, y->shape));
}

void give(Graph& g, Value y) { g.outputs.push_back({y, contiguous_strides(y->shape), -1}); }

schedule::Plan plan_of(const Graph& g, bool weights_kept, const schedule::Machine* machine = &panels) {
  ir::verify(g);
  schedule::Options options;
  options.is_static = [=](int i) { return weights_kept && i >= 100; };
  if (machine) options.machine = machine;
  return schedule::make_plan(g, options);
}

// Without a machine, of the default one.
schedule::Plan plan_convolution(const Convolution& c, const schedule::Machine* machine) {
  Graph g;
  Shape image{c.batch, c.channels, c.height, c.width};
  give(g, convolve(g, g.parameter(0, c.dtype, image, contiguous_strides(image)), c, 100));
  return plan_of(g, c.weights_kept, machine);
}

class WindowTest : public testing::TestWithParam<Convolution> {};

TEST_P(WindowTest, EveryKernelGivesTheInterpretersBits) {
  // The panel widths of the three x86 instruction sets differ: only the widest is packed ahead.
  expect_programs_same(plan_convolution(GetParam(), nullptr));
}

INSTANTIATE_TEST_SUITE_P(Shapes, WindowTest,
                         testing::Values(Convolution{1, 3, 14, 15, 40, 7, 2, 3, 1, 1}, Convolution{2, 32, 7, 6, 33, 3, 1, 1, 1, 1},
                                         Convolution{1, 5, 9, 9, 16, 3, 2, 0, 2, 1, false}, Convolution{2, 12, 8, 8, 24, 3, 1, 2, 2, 4},
                                         Convolution{1, 24, 9, 8, 24, 3, 2, 1, 1, 24}, Convolution{1, 7, 9, 8, 7, 5, 1, 2, 1, 7, false},
                                         // Planes read and written as squares; images of 63 pixels meet within a tile.
                                         Convolution{3, 20, 7, 9, 40, 1, 1, 0, 1, 1}, Convolution{3, 24, 20, 20, 70, 1, 1, 0, 1, 1, false},
                                         Convolution{2, 40, 12, 20, 36, 3, 2, 1, 1, 1},
                                         Convolution{1, 48, 13, 22, 20, 3, 1, 1, 1, 1, false},
                                         Convolution{2, 6, 5, 8, 20, 1, 1, 0, 1, 1, true, DType::f64},
                                         Convolution{3, 24, 7, 9, 40, 1, 1, 0, 1, 1, true, DType::bf16},
                                         // Half of a panel holds columns.
                                         Convolution{1, 16, 36, 36, 12, 3, 1, 1, 1, 1},
                                         Convolution{1, 16, 6, 6, 8, 3, 1, 1, 1, 1, true, DType::bf16},
                                         Convolution{1, 8, 6, 6, 8, 3, 1, 1, 1, 8, true, DType::f16}));

// Groups that share vectors.
class GroupedTest : public testing::TestWithParam<Convolution> {};

schedule::Plan plan_grouped(const Convolution& c) { return plan_convolution(c, &panels); }

int64_t products(const schedule::Plan& plan) { return std::ranges::count(plan.programs, atlas::BlockKind::product, &atlas::Program::kind); }

int64_t loops_with_scratch(const schedule::Plan& plan) {
  return std::ranges::count_if(plan.programs, [](const atlas::Program& p) {
    return p.kind() == atlas::BlockKind::loop &&
           std::ranges::any_of(p.buffers, [](const atlas::Buffer& b) { return b.access == atlas::Access::scratch; });
  });
}

TEST_P(GroupedTest, ALoopGivesTheInterpretersBits) {
  schedule::Plan plan = plan_grouped(GetParam());
  EXPECT_EQ(products(plan), 0);
  expect_programs_same(plan);
}

INSTANTIATE_TEST_SUITE_P(Shapes, GroupedTest,
                         testing::Values(Convolution{2, 64, 9, 8, 64, 3, 1, 1, 1, 16}, Convolution{1, 32, 7, 14, 64, 3, 2, 1, 1, 8, false},
                                         Convolution{1, 32, 5, 16, 32, 3, 1, 0, 2, 16, true, DType::bf16},
                                         Convolution{1, 16, 6, 6, 32, 5, 1, 2, 1, 16, true, DType::f64},
                                         Convolution{1, 64, 6, 7, 32, 1, 2, 0, 1, 8}));

TEST(Grouped, WhatFollowsJoinsTheProduct) {
  int found = 0;
  const schedule::Plan plan = plan_convolution({2, 12, 8, 8, 24, 3, 1, 1, 1, 4, false}, nullptr);
  for (const atlas::Program& p : plan.programs) {
    if (p.kind() != atlas::BlockKind::product) continue;
    ++found;
    EXPECT_TRUE(std::ranges::any_of(p.product().epilogue.instrs, [](const atlas::Instr& i) { return i.op == Op::max; }));
  }
  EXPECT_EQ(found, 1);
}

// The gradient of the weight as the PyTorch front end writes it: blocks of `lines` lines of pixels, whose sums are not added up here.
schedule::Plan plan_weight_gradient(const Convolution& c, int64_t lines, bool last) {
  Graph g;
  int64_t per_group = c.channels / c.groups, out_group = c.results / c.groups;
  int64_t span = c.dilation * (c.kernel - 1) + 1;
  int64_t high = c.height + 2 * c.padding, wide = c.width + 2 * c.padding;
  int64_t oh = (high - span) / c.stride + 1, ow = (wide - span) / c.stride + 1;
  auto parameter = [&](int index, int64_t channels, int64_t h, int64_t w) {
    Shape shape{c.batch, channels, h, w};
    Shape strides = contiguous_strides(shape);
    if (last) strides = {h * w * channels, 1, w * channels, channels};
    return g.permute(g.parameter(index, c.dtype, shape, strides), {0, 2, 3, 1});
  };
  Value x = g.reshape(parameter(0, c.channels, c.height, c.width), {c.batch, c.height, c.width, c.groups, per_group});
  x = g.pad(x, {0, c.padding, c.padding, 0, 0}, {c.batch, high, wide, c.groups, per_group}, 0);
  x = g.make(Op::window, {x}, {.ints = {1, c.stride, c.dilation}}, {}, Shape{c.batch, oh, wide, c.groups, per_group, c.kernel});
  x = g.make(Op::window, {x}, {.ints = {2, c.stride, c.dilation}}, {}, Shape{c.batch, oh, ow, c.groups, per_group, c.kernel, c.kernel});
  int64_t blocks = c.batch * oh / lines, pixels = lines * ow;
  x = g.reshape(g.permute(x, {3, 0, 1, 2, 5, 6, 4}), {c.groups, blocks, pixels, c.kernel * c.kernel * per_group});
  Value grad = g.reshape(parameter(1, c.results, oh, ow), {blocks, pixels, c.groups, out_group});
  Value y = g.make(Op::dot_general, {g.permute(grad, {2, 0, 3, 1}), x}, {.ints = {0}});
  give(g, y);
  return plan_of(g, false);
}

class WeightGradientTest : public testing::TestWithParam<std::tuple<Convolution, int64_t>> {};

TEST_P(WeightGradientTest, ALoopGivesTheInterpretersBits) {
  const auto& [c, lines] = GetParam();
  for (bool last : {false, true}) {
    schedule::Plan plan = plan_weight_gradient(c, lines, last);
    EXPECT_EQ(products(plan), 0);
    EXPECT_EQ(loops_with_scratch(plan), 1);
    expect_programs_same(plan);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, WeightGradientTest,
                         testing::Values(std::tuple(Convolution{1, 24, 6, 8, 24, 3, 1, 1, 1, 24}, 2),
                                         std::tuple(Convolution{2, 64, 5, 7, 64, 3, 1, 1, 1, 16}, 5),
                                         std::tuple(Convolution{1, 16, 8, 14, 32, 3, 2, 1, 1, 8}, 4),
                                         std::tuple(Convolution{1, 16, 6, 6, 16, 3, 1, 2, 2, 16, true, DType::f64}, 3)));

TEST(WeightGradient, OthersAreProducts) {
  auto planned = [](const Convolution& c) { return products(plan_weight_gradient(c, 1, true)); };
  EXPECT_EQ(planned({1, 8, 6, 8, 8, 3, 1, 1, 1, 8}), 1);       // half a vector of channels
  EXPECT_EQ(planned({1, 64, 6, 8, 64, 3, 1, 1, 1, 4}), 1);     // wide groups
  EXPECT_EQ(planned({1, 16, 4, 400, 16, 3, 1, 1, 1, 16}), 1);  // long lines
}

TEST(Grouped, OtherGroupsAreProducts) {
  auto planned = [](const Convolution& c) { return products(plan_grouped(c)); };
  EXPECT_EQ(planned({1, 12, 9, 8, 12, 3, 1, 1, 1, 3}), 1);    // no whole vector of channels
  EXPECT_EQ(planned({1, 128, 9, 8, 128, 3, 1, 1, 1, 4}), 1);  // groups of a vector and more
  EXPECT_EQ(planned({1, 64, 9, 8, 64, 5, 1, 2, 1, 8}), 1);    // too long sums
}

// A network's first layer, then a depthwise one, which is a loop of its own if it is dilated.
schedule::Plan plan_first_layer(const Convolution& c, bool leaves, int64_t dilation = 2) {
  Graph g;
  Shape image{c.batch, c.channels, c.height, c.width};
  Value x = convolve(g, g.parameter(0, c.dtype, image, contiguous_strides(image)), c, 100);
  int64_t high = x->shape[2].constant_value(), wide = x->shape[3].constant_value();
  if (leaves) give(g, x);
  give(g, convolve(g, x, {c.batch, c.results, high, wide, c.results, 3, 1, dilation, dilation, c.results}, 102));
  return plan_of(g, c.weights_kept);
}

// Loops that compute a line's pixels from an image's elements one by one.
int64_t direct_convolutions(const schedule::Plan& plan) {
  return std::ranges::count_if(plan.programs, [](const atlas::Program& p) {
    return p.kind() == atlas::BlockKind::loop && p.loop().stages.size() == 1 && p.loop().stages[0].kind == atlas::StageKind::serial_row;
  });
}

TEST(DirectConvolution, FirstLayersAreLoopsThatReadTheImageInPlace) {
  Convolution first{2, 3, 16, 16, 32, 3, 2, 1, 1, 1};
  schedule::Plan plan = plan_first_layer(first, false);
  EXPECT_EQ(direct_convolutions(plan), 1);
  EXPECT_EQ(products(plan), 0);
  expect_programs_same(plan);
}

TEST(DirectConvolution, FirstLayersAreInTheLoopOfADepthwiseOne) {
  for (const Convolution& first : {Convolution{1, 3, 32, 16, 32, 3, 2, 1, 1, 1}, Convolution{2, 2, 9, 8, 16, 3, 1, 1, 1, 1}}) {
    schedule::Plan plan = plan_first_layer(first, false, 1);
    EXPECT_EQ(direct_convolutions(plan), 0);
    EXPECT_EQ(products(plan), 0);
    EXPECT_EQ(loops_with_scratch(plan), 1);
    expect_programs_same(plan);
  }
}

TEST(DirectConvolution, OtherFirstLayersStayProducts) {
  auto planned = [](const Convolution& c, bool leaves) {
    schedule::Plan plan = plan_first_layer(c, leaves);
    return std::pair(direct_convolutions(plan), products(plan));
  };
  Convolution first{1, 3, 16, 16, 32, 3, 2, 1, 1, 1};
  std::pair<int64_t, int64_t> product{0, 1};
  EXPECT_EQ(planned(first, true), product);  // its result leaves with its channels apart
  Convolution wide = first, long_sums = first, narrow = first, fresh = first;
  wide.results = 64;
  EXPECT_EQ(planned(wide, false), product);
  long_sums.kernel = 5;
  EXPECT_EQ(planned(long_sums, false), product);
  narrow.width = 10;  // five pixels a line
  EXPECT_EQ(planned(narrow, false), product);
  fresh.weights_kept = false;
  EXPECT_EQ(planned(fresh, false), product);
}

// A 1 x 1 convolution to more channels, then a depthwise one: one loop computes both.
class FusedDepthwiseTest : public testing::TestWithParam<Convolution> {};

schedule::Plan plan_fused(const Convolution& c, int64_t into, bool gives_image) {
  Graph g;
  // Channels last, as between convolutions.
  Value x = g.parameter(0, c.dtype, {c.batch, into, c.height, c.width}, {c.height * c.width * into, 1, c.width * into, into});
  Shape kernel{c.channels, into}, image{c.batch, c.channels, c.height, c.width};
  Value w = g.parameter(100, c.dtype, kernel, contiguous_strides(kernel));
  x = g.reshape(g.permute(x, {0, 2, 3, 1}), {c.batch * c.height * c.width, into});
  x = g.make(Op::dot_general, {x, g.permute(w, {1, 0})}, {.ints = {0}});
  x = g.permute(g.reshape(x, {c.batch, c.height, c.width, c.channels}), {0, 3, 1, 2});
  x = g.binary(Op::max, x, g.number(c.dtype, 0, image));
  if (gives_image) give(g, x);
  give(g, convolve(g, x, c, 102));
  return plan_of(g, c.weights_kept);
}

TEST_P(FusedDepthwiseTest, OneLoopGivesTheInterpretersBits) {
  const Convolution& c = GetParam();
  schedule::Plan plan = plan_fused(c, 5, false);
  EXPECT_EQ(loops_with_scratch(plan), 1);
  for (const atlas::Program& p : plan.programs) {
    EXPECT_NE(p.kind(), atlas::BlockKind::product);
    expect_same(p, {.chunks = {0, 16}});
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, FusedDepthwiseTest,
                         testing::Values(Convolution{1, 16, 9, 7, 16, 3, 1, 1, 1, 16}, Convolution{2, 20, 6, 16, 20, 3, 2, 1, 1, 20},
                                         Convolution{1, 32, 16, 14, 32, 5, 1, 2, 1, 32}, Convolution{1, 16, 8, 8, 16, 2, 2, 0, 1, 16}));

TEST(FusedDepthwise, WhatOthersNeedStaysAKernelOfItsOwn) {
  Convolution c{1, 16, 9, 7, 16, 3, 1, 1, 1, 16};
  EXPECT_EQ(loops_with_scratch(plan_fused(c, 5, true)), 0);    // the image is a result
  EXPECT_EQ(loops_with_scratch(plan_fused(c, 65, false)), 0);  // too long sums
  c.weights_kept = false;
  EXPECT_EQ(loops_with_scratch(plan_fused(c, 5, false)), 0);
  EXPECT_EQ(loops_with_scratch(plan_fused({1, 16, 9, 7, 16, 3, 1, 1, 2, 16}, 5, false)), 0);
}

}  // namespace
}  // namespace hologram::test
