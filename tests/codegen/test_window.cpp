// tests/codegen/test_window.cpp: planned convolutions: every kernel on every instruction set
// against the interpreter, bit by bit.
#include <gtest/gtest.h>

#include <bit>

#include "codegen/differential.h"
#include "schedule/plan.h"

namespace hologram::test {
namespace {

using ir::Graph;
using ir::Op;
using ir::Value;

struct Convolution {
  int64_t batch, channels, height, width, results, kernel, stride, padding, dilation, groups;
  bool weights_kept = true;
  DType dtype = DType::f32;
};

std::ostream& operator<<(std::ostream& out, const Convolution& c) {
  return out << c.batch << 'x' << c.channels << 'x' << c.height << 'x' << c.width << " to "
             << c.results << " kernel " << c.kernel << " stride " << c.stride << " padding "
             << c.padding << " dilation " << c.dilation << " groups " << c.groups
             << (c.weights_kept ? " packed " : " ") << name_of(c.dtype);
}

// relu(convolution + bias) of a channels-first image, written as the PyTorch front end writes it.
void build(Graph& g, const Convolution& c) {
  auto parameter = [&](int index, Shape shape) {
    return g.parameter(index, c.dtype, shape, contiguous_strides(shape));
  };
  int64_t per_group = c.channels / c.groups, out_group = c.results / c.groups;
  Value x = parameter(0, {c.batch, c.channels, c.height, c.width});
  Value w = parameter(100, {c.results, per_group, c.kernel, c.kernel});
  Value bias = parameter(101, {c.results});
  int64_t span = c.dilation * (c.kernel - 1) + 1;
  int64_t oh = (c.height + 2 * c.padding - span) / c.stride + 1,
          ow = (c.width + 2 * c.padding - span) / c.stride + 1;
  x = g.permute(x, {0, 2, 3, 1});
  x = g.reshape(x, {c.batch, c.height, c.width, c.groups, per_group});
  x = g.pad(x, {0, c.padding, c.padding, 0, 0},
            {c.batch, c.height + 2 * c.padding, c.width + 2 * c.padding, c.groups, per_group}, 0);
  x = g.make(Op::window, {x}, {.ints = {1, c.stride, c.dilation}}, {},
             Shape{c.batch, oh, c.width + 2 * c.padding, c.groups, per_group, c.kernel});
  x = g.make(Op::window, {x}, {.ints = {2, c.stride, c.dilation}}, {},
             Shape{c.batch, oh, ow, c.groups, per_group, c.kernel, c.kernel});
  x = g.reshape(g.permute(x, {3, 0, 1, 2, 5, 6, 4}),
                {c.groups, c.batch * oh * ow, c.kernel * c.kernel * per_group});
  w = g.reshape(w, {c.groups, out_group, per_group, c.kernel, c.kernel});
  w = g.reshape(g.permute(w, {0, 3, 4, 2, 1}),
                {c.groups, c.kernel * c.kernel * per_group, out_group});
  Value y = g.make(Op::dot_general, {x, w}, {.ints = {0}});
  y = g.permute(g.reshape(y, {c.groups, c.batch, oh, ow, out_group}), {1, 0, 4, 2, 3});
  y = g.reshape(y, {c.batch, c.results, oh, ow});
  y = g.binary(Op::add, y, g.broadcast(g.reshape(bias, {1, c.results, 1, 1}), y->shape));
  y = g.binary(Op::max, y, g.number(c.dtype, 0, y->shape));
  g.outputs.push_back({y, contiguous_strides(y->shape), -1});
}

class WindowTest : public testing::TestWithParam<Convolution> {};

TEST_P(WindowTest, EveryKernelGivesTheInterpretersBits) {
  const Convolution& c = GetParam();
  Graph g;
  build(g, c);
  ir::verify(g);
  // The panel widths of the three x86 instruction sets differ: only the widest is packed ahead.
  schedule::Options options;
  options.is_static = [&](int i) { return c.weights_kept && i >= 100; };
  schedule::Plan plan = schedule::make_plan(g, options);
  for (const atlas::Program& p : plan.programs) {
    Inputs inputs;
    inputs.chunks = {0, 1};
    expect_same(p, inputs);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, WindowTest,
    testing::Values(Convolution{1, 3, 14, 15, 40, 7, 2, 3, 1, 1},
                    Convolution{2, 32, 7, 6, 33, 3, 1, 1, 1, 1},
                    Convolution{1, 5, 9, 9, 16, 3, 2, 0, 2, 1, false},
                    Convolution{2, 12, 8, 8, 24, 3, 1, 2, 2, 4},
                    Convolution{1, 24, 9, 8, 24, 3, 2, 1, 1, 24},
                    Convolution{1, 7, 9, 8, 7, 5, 1, 2, 1, 7, false},
                    // Planes read and written as squares; images of 63 pixels meet within a tile.
                    Convolution{3, 20, 7, 9, 40, 1, 1, 0, 1, 1},
                    Convolution{3, 24, 20, 20, 70, 1, 1, 0, 1, 1, false},
                    Convolution{2, 40, 12, 20, 36, 3, 2, 1, 1, 1},
                    Convolution{1, 48, 13, 22, 20, 3, 1, 1, 1, 1, false},
                    Convolution{2, 6, 5, 8, 20, 1, 1, 0, 1, 1, true, DType::f64},
                    Convolution{3, 24, 7, 9, 40, 1, 1, 0, 1, 1, true, DType::bf16},
                    // Half of a panel holds columns.
                    Convolution{1, 16, 36, 36, 12, 3, 1, 1, 1, 1},
                    Convolution{1, 16, 6, 6, 8, 3, 1, 1, 1, 1, true, DType::bf16},
                    Convolution{1, 8, 6, 6, 8, 3, 1, 1, 1, 8, true, DType::f16}));

}  // namespace
}  // namespace hologram::test
