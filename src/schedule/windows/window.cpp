// schedule/windows/window.cpp: products over windows of an image: memory layouts and depthwise
// loops.
//
// Winograd: a tile costs 1.1 * 16 * C * O / 32 multiply-adds and 40 cycles for each vector of
// channels that is transformed, before or after; direct sums 9 * C * O / 32 per pixel. Odd sizes
// count their incomplete tiles as whole ones. A weight that is new in each call, and the turned
// weight of an image's gradient, cost another 25 cycles for each pair of channels, in each call.
#include "schedule/windows/window.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "atlas/order.h"

namespace hologram::schedule {
namespace {

using ir::Op;
using ir::OpKind;
using ir::Value;

constexpr int64_t most_taps = 128;     // of a depthwise convolution that is unrolled
constexpr int64_t most_chained = 200;  // multiply-adds of a body that takes several pixels
constexpr int64_t most_pixels = 8;     // of a line that such a body takes
constexpr int64_t most_in_group = 8;   // channels of a group that share a vector with other groups

// Coordinates in the image below the windows of `left` of its element (m, k).
std::pair<Value, Index> below_windows(Value left, Index at) {
  while (reads_windows(left) && !left->is(Op::concat)) {
    at = input_index(left, 0, at);
    left = left->input();
  }
  return {left, std::move(at)};
}

// The counts and steps of the two windows of 3 that `left` reads, the outer one last.
std::optional<std::array<Expr, 2>> window_counts(Value left) {
  std::vector<Expr> counts;
  for (; ir::is_movement(left->op) && reads_windows(left); left = left->input()) {
    if (!left->is(Op::window)) continue;
    if (!left->shape.back().is(3) || left->attrs.ints[1] != 1 || left->attrs.ints[2] != 1)
      return std::nullopt;
    counts.push_back(left->shape[static_cast<size_t>(left->attrs.ints[0])]);
  }
  if (counts.size() != 2) return std::nullopt;
  return std::array{counts[1], counts[0]};
}

}  // namespace

bool reads_windows(Value v) {
  for (; ir::is_movement(v->op); v = v->input())
    if (v->is(Op::window)) return true;
  return false;
}

std::optional<WindowImage> window_image(const Cluster& c, int first_axis) {
  Value left = c.anchor->input(0);
  if (left->rank() != 2) return std::nullopt;
  auto counts = window_counts(left);
  auto channels = left->shape[1].exact_div(9);
  if (!counts || !channels) return std::nullopt;
  auto axis = [&](int k, const Expr& extent) { return Expr::axis(first_axis + k, extent); };
  for (int turned = 0; turned < 2; ++turned) {
    WindowImage out;
    out.height = (*counts)[static_cast<size_t>(turned)];
    out.width = (*counts)[static_cast<size_t>(1 - turned)];
    out.channels = *channels;
    auto images = left->shape[0].exact_div(out.height * out.width);
    if (!images) return std::nullopt;
    out.images = *images;
    // The operand's element in terms of pixels, taps and channels.
    Expr number = axis(0, out.images), y = axis(1, out.height), x = axis(2, out.width),
         channel = axis(3, out.channels), u = axis(4, 3), v = axis(5, 3);
    Index at{(number * out.height + y) * out.width + x, (u * 3 + v) * out.channels + channel};
    auto [image, index] = below_windows(left, at);
    int rows = 0, columns = 0;
    bool plain = true;
    for (Expr& e : index) {
      if (e == y + u) {
        e = axis(1, out.height + Expr(2));
        ++rows;
      } else if (e == x + v) {
        e = axis(2, out.width + Expr(2));
        ++columns;
      } else {
        plain = plain && !e.any_atom([&](const Atom& a) {
          return a.kind == Atom::Kind::axis && a.id != first_axis && a.id != first_axis + 3;
        });
      }
    }
    if (!plain || rows != 1 || columns != 1) continue;
    out.image = image;
    out.index = std::move(index);
    return out;
  }
  return std::nullopt;
}

bool winograd_pays(const WindowImage& w, const Expr& columns, bool kept, const Machine& machine) {
  for (const Expr* e : {&w.height, &w.width, &w.channels, &columns})
    if (!e->is_const()) return false;
  auto number = [](const Expr& e) { return static_cast<double>(e.constant_value()); };
  double c = number(w.channels), o = number(columns), height = number(w.height),
         width = number(w.width), images = w.images.is_const() ? number(w.images) : 1;
  if (c < machine.vector || o < machine.vector) return false;
  double tiles = images * std::ceil(height / 2) * std::ceil(width / 2);
  // In cycles; weights that are new in each call are transformed too.
  double direct = images * height * width * 9 * c * o / machine.multiply_adds;
  double winograd = tiles * (16 * c * o / machine.multiply_adds * 1.1 +
                             machine.transform_cycles * (c + o) / machine.vector);
  if (!kept) winograd += machine.weight_transform_cycles * c * o;
  return winograd < 0.9 * direct;
}

ProductLayout product_layout(const Cluster& c, int num_symbols) {
  ProductLayout out;
  size_t rank = c.axes.size();
  Value v = c.anchor->input(0);
  int matrix = v->rank() - 2;
  bool one_column = c.anchor->shape.back().is(1) && matrix > 0;
  // Which coordinates of the operand move when its index along k (the batch axis of a depthwise
  // convolution) takes one step, and then those that only longer steps along it move.
  int probe = one_column ? matrix - 1 : matrix + 1;
  Index at;
  for (const Expr& d : v->shape) at.push_back(Expr::axis(static_cast<int>(at.size()), d));
  while (ir::is_movement(v->op) && !v->is(Op::concat)) {
    at = input_index(v, 0, at);
    v = v->input();
  }
  out.read = v;
  std::vector<int64_t> symbols(static_cast<size_t>(num_symbols), 64);
  std::vector<int64_t> start(static_cast<size_t>(matrix) + 2, 0);
  auto moves = [&](size_t i, int64_t step) {
    std::vector<int64_t> there = start;
    there[static_cast<size_t>(probe)] = step;
    return at[i].eval(symbols, start) != at[i].eval(symbols, there);
  };
  auto moves_with_others = [&](const Expr& e) {
    for (int a = 0; a < matrix + 2; ++a)
      if (a != probe && e.has_axis(a)) return true;
    return false;
  };
  const Expr& extent = c.anchor->input(0)->shape[static_cast<size_t>(probe)];
  int64_t end = extent.is_const() ? extent.constant_value() : 0;
  for (int64_t step = 1; out.read_axes.empty() || step < end;) {
    int found = -1;
    for (size_t i = 0; i < at.size(); ++i)
      if (moves(i, step) && (step == 1 || !moves_with_others(at[i]))) found = static_cast<int>(i);
    if (found < 0 || std::count(out.read_axes.begin(), out.read_axes.end(), found)) break;
    out.read_axes.push_back(found);
    const Expr& size = v->shape[static_cast<size_t>(found)];
    if (!size.is_const() || size.constant_value() < 2) break;
    step *= size.constant_value();
  }
  // A transposed matrix can be read as it lies: along its rows instead of along k.
  bool transposed =
      !one_column && !at.empty() && at.back().has_axis(matrix) && !at.back().has_axis(matrix + 1) &&
      std::none_of(at.begin(), at.end() - 1, [&](const Expr& e) { return e.has_axis(matrix); });
  if (transposed) out.read_axes.clear();
  if (one_column) {
    const Atom* last = single_axis(c.members[0].index[static_cast<size_t>(matrix) - 1]);
    out.written_axis = last ? last->id : -1;
  } else {
    out.written_axis = c.parts > 1 ? c.column.id : c.axes[rank - 2].id;
  }
  return out;
}

bool is_depthwise(const Cluster& c, const Options& options) {
  if (!options.machine->unrolls_windows) return false;
  const Expr& depth = c.axes.back().extent;
  if (c.anchor->rank() <= 2 || c.axes.size() <= 3 || c.members.empty()) return false;
  // The channels are the last dimension of the batch: one of 1 has no axis.
  const Atom* channel = single_axis(c.members[0].index[static_cast<size_t>(c.anchor->rank()) - 3]);
  return channel && channel->id == c.axes[c.axes.size() - 4].id && c.anchor->shape.back().is(1) &&
         depth.is_const() && depth.constant_value() <= most_taps &&
         reads_windows(c.anchor->input(0));
}

bool is_short_sum(Value v, const Options& options) {
  constexpr int64_t most = 25;
  if (!options.machine->unrolls_windows || !v->is(Op::dot_general) || v->rank() < 3) return false;
  const Expr& depth = v->input(0)->shape.back();
  return v->shape.back().is(1) && depth.is_const() && depth.constant_value() <= most &&
         reads_windows(v->input(0));
}

bool has_narrow_groups(const Cluster& c, const Options& options) {
  if (!options.machine->unrolls_windows) return false;
  if (c.kind != ClusterKind::product || c.anchor->rank() != 3 || c.axes.size() != 4) return false;
  const int64_t whole_vector = options.machine->vector;
  const Expr &groups = c.axes[0].extent, &columns = c.axes[2].extent, &depth = c.axes[3].extent;
  if (!groups.is_const() || !columns.is_const() || !depth.is_const()) return false;
  int64_t together = columns.constant_value();
  return together > 1 && together <= most_in_group && whole_vector % together == 0 &&
         groups.constant_value() * together % whole_vector == 0 &&
         depth.constant_value() <= most_taps && is_float(c.anchor->input(0)->dtype) &&
         options.machine->sums_in_registers(c.anchor->input(0)->dtype) > 1 &&
         reads_windows(c.anchor->input(0));
}

bool is_weight_gradient(Value dot, const Options& options) {
  if (!options.machine->unrolls_windows) return false;
  if (!dot->is(Op::dot_general) || dot->rank() != 4) return false;
  const int64_t whole_vector = options.machine->vector;
  Value lhs = dot->input(0), rhs = dot->input(1);
  for (Value v : {lhs, rhs})
    for (const Expr& d : v->shape)
      if (!d.is_const()) return false;
  int64_t groups = dot->shape[0].constant_value(), columns = dot->shape[2].constant_value();
  return columns <= most_in_group && whole_vector % columns == 0 &&
         groups * columns >= whole_vector &&
         lhs->shape[3].constant_value() <= atlas::product_block &&
         dot->shape[3].constant_value() <= most_taps && is_float(lhs->dtype) &&
         options.machine->sums_in_registers(lhs->dtype) > 1 && reads_windows(rhs) &&
         !reads_windows(lhs);
}

Expr line_of(Value v, int row_axis) {
  Index at;
  for (const Expr& d : v->shape) at.push_back(Expr::axis(static_cast<int>(at.size()), d));
  Expr line = v->shape[static_cast<size_t>(row_axis)];
  auto look = [&](const Atom& a) {
    if (a.kind != Atom::Kind::floor_div && a.kind != Atom::Kind::mod) return false;
    const Atom* x = a.a->as_atom();
    if (x && x->kind == Atom::Kind::axis && x->id == row_axis && line.exact_div(*a.b)) line = *a.b;
    return false;
  };
  // On the way down too: where lines follow each other in memory, their number and the place in
  // one make a single sum again.
  for (; ir::is_movement(v->op) && !v->is(Op::concat); v = v->input()) {
    at = input_index(v, 0, at);
    for (const Expr& e : at) e.any_atom(look);
  }
  return line.is_const() ? line : Expr(1);
}

int64_t pixels_together(const Expr& line, int64_t taps, int sums) {
  int64_t most = sums > 1 ? std::clamp<int64_t>(most_chained / taps, 1, most_pixels) : 1;
  while (line.constant_value() % most != 0) --most;
  return most;
}

Expr channels_together(Value lhs, const Expr& line, int64_t taps, const Expr& channels,
                       const Machine& machine) {
  const int64_t least = 2 * machine.vector;
  if (!channels.is_const()) return channels;
  int64_t n = channels.constant_value();
  auto high = std::llround(std::sqrt(static_cast<double>(taps)));
  int64_t bytes = line.constant_value() * high * size_of(lhs->dtype);
  int64_t blocks = 1;
  while (n / blocks * bytes > machine.near_bytes || n % blocks != 0) {
    int64_t next = blocks + 1;
    while (next <= n && n % next != 0) ++next;
    if (n % (next * machine.vector) != 0 || n / next < least) break;
    blocks = next;
  }
  return Expr(n / blocks);
}

}  // namespace hologram::schedule
