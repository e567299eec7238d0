// tests/codegen/winograds.h: graphs of 3 x 3 convolutions.
#pragma once

#include <ostream>

#include "schedule/plan.h"

namespace hologram::test::winograds {

using ir::Graph;
using ir::Op;
using ir::Value;

struct Convolution {
  int64_t batch, channels, height, width, results, padding;
  bool channels_last = false;  ///< of the image in memory
  bool symbolic_batch = false;
  int64_t out_height() const { return height + 2 * padding - 2; }
  int64_t out_width() const { return width + 2 * padding - 2; }
};

inline std::ostream& operator<<(std::ostream& out, const Convolution& c) {
  return out << c.batch << 'x' << c.channels << 'x' << c.height << 'x' << c.width << " to " << c.results << " padding " << c.padding
             << (c.channels_last ? " channels last" : "") << (c.symbolic_batch ? " any batch" : "");
}

// The convolution [n, o, h, w] of parameters 0 (image) and 1 (weight), as the PyTorch front end writes it.
inline Value convolve(Graph& g, const Convolution& c) {
  Expr batch = c.symbolic_batch ? Expr::symbol(0) : Expr(c.batch);
  Shape image{batch, c.channels, c.height, c.width};
  Shape strides = contiguous_strides(image);
  if (c.channels_last) strides = {c.height * c.width * c.channels, 1, c.width * c.channels, c.channels};
  Value x = g.parameter(0, DType::f32, image, strides);
  Shape weight{c.results, c.channels, 3, 3};
  Value w = g.parameter(1, DType::f32, weight, contiguous_strides(weight));
  int64_t h = c.height + 2 * c.padding, wide = c.width + 2 * c.padding;
  x = g.permute(x, {0, 2, 3, 1});
  if (c.padding) x = g.pad(x, {0, c.padding, c.padding, 0}, {batch, h, wide, c.channels}, 0);
  x = g.make(Op::window, {x}, {.ints = {1, 1, 1}}, {}, Shape{batch, h - 2, wide, c.channels, 3});
  x = g.make(Op::window, {x}, {.ints = {2, 1, 1}}, {}, Shape{batch, h - 2, wide - 2, c.channels, 3, 3});
  x = g.reshape(g.permute(x, {0, 1, 2, 4, 5, 3}), {batch * Expr((h - 2) * (wide - 2)), 9 * c.channels});
  w = g.reshape(g.permute(w, {2, 3, 1, 0}), {9 * c.channels, c.results});
  Value y = g.make(Op::dot_general, {x, w}, {.ints = {0}});
  return g.permute(g.reshape(y, {batch, h - 2, wide - 2, c.results}), {0, 3, 1, 2});
}

// relu(convolution + bias) + residual: the form of a residual network.
inline void build(Graph& g, const Convolution& c) {
  Value y = convolve(g, c);
  Value bias = g.parameter(2, DType::f32, {c.results}, {Expr(1)});
  Value residual = g.parameter(3, DType::f32, y->shape, contiguous_strides(y->shape));
  y = g.binary(Op::add, y, g.broadcast(g.reshape(bias, {1, c.results, 1, 1}), y->shape));
  y = g.binary(Op::max, y, g.number(DType::f32, 0, y->shape));
  y = g.binary(Op::add, y, residual);
  g.num_symbols = c.symbolic_batch;
  g.outputs.push_back({y, contiguous_strides(y->shape), -1});
}

}  // namespace hologram::test::winograds
