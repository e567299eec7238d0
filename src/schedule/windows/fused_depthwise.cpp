// schedule/windows/fused_depthwise.cpp: a depthwise convolution and what makes its image.
//
// The ring has 4 or 6 lines, computed in tiles of up to 16 pixels side by side (8 of a first
// layer; 4 with 16 registers), their sums in registers. Blocks of lines compute a few lines twice;
// there are as many as leave 12 units of two threads (six for each), and few enough lines in each
// that what all channels read stays in the second-level cache. The sums are those of two kernels,
// bit by bit.
#include "schedule/windows/fused_depthwise.h"

#include <algorithm>
#include <numeric>

#include "schedule/lower/kinds.h"
#include "schedule/windows/channels.h"
#include "schedule/windows/direct_convolution.h"
#include "schedule/windows/window.h"

namespace hologram::schedule {

using atlas::AxisKind;
using atlas::Val;
using ir::Op;
using ir::Value;

namespace {

constexpr int64_t least_shares = 6;  // of a unit: vectors of channels times blocks of lines
constexpr int64_t least_lines = 8;   // of a block, against the lines that two blocks compute

bool known(const Expr& e) { return e.is_const() && e.constant_value() > 0; }

// Whether every value from `v` down to `image` has one use.
bool used_alone(const Uses& uses, Value v, Value image) {
  for (;; v = v->input()) {
    if (uses.at(v) != 1) return false;
    if (v == image) return true;
  }
}

// The two windows that a depthwise operand reads, the outer axis first: count, step, size.
struct Window {
  int64_t count, step, size;
};
std::optional<std::array<Window, 2>> windows_of(Value v) {
  std::vector<Window> found;
  for (; ir::is_movement(v->op) && !v->is(Op::concat); v = v->input()) {
    if (!v->is(Op::window)) continue;
    const Expr& count = v->shape[static_cast<size_t>(v->attrs.ints[0])];
    if (!known(count) || !known(v->shape.back()) || v->attrs.ints[2] != 1) return std::nullopt;
    found.push_back({count.constant_value(), v->attrs.ints[1], v->shape.back().constant_value()});
  }
  if (found.size() != 2) return std::nullopt;
  return std::array{found[1], found[0]};
}

// The coordinates of the depthwise operand's element (number, row, column, channel; of the window:
// u, v) in an image, as coordinates over axes number, row, column, channel of the image's pixels,
// if a coordinate is its row and another one its column; `x` then gets their sizes.
std::optional<Index> pixel_of(FusedDepthwise& x, Index at, const Shape& image) {
  auto axis = [](int k, int64_t n) { return n == 1 ? Expr(0) : Expr::axis(k, Expr(n)); };
  const Expr row = axis(1, x.out_height) * Expr(x.step_y) + axis(4, x.window_height),
             column = axis(2, x.out_width) * Expr(x.step_x) + axis(5, x.window_width);
  std::optional<int64_t> before_y, before_x;
  int64_t height = 0, width = 0;
  for (size_t i = 0; i < at.size(); ++i) {
    Expr from_row = at[i] - row, from_column = at[i] - column;
    const Expr& size = image[i];
    if (!known(size)) return std::nullopt;
    if (from_row.is_const() && !before_y) {
      before_y = -from_row.constant_value();
      height = size.constant_value();
      at[i] = Expr::axis(1, size);
    } else if (from_column.is_const() && !before_x) {
      before_x = -from_column.constant_value();
      width = size.constant_value();
      at[i] = Expr::axis(2, size);
    } else if (at[i].any_atom([](const Atom& a) {
                 return a.kind == Atom::Kind::axis && a.id != 0 && a.id != 3;
               })) {
      return std::nullopt;
    }
  }
  if (!before_y || !before_x) return std::nullopt;
  x.before_y = *before_y;
  x.before_x = *before_x;
  x.height = height;
  x.width = width;
  return at;
}

// Reads the geometry off the depthwise operand's index of the image, whose pixels may be rows of a
// matrix; false if it is none.
bool read_windows(FusedDepthwise& x, Value lhs, const std::function<bool(Value)>& is_image) {
  if (lhs->rank() != 3) return false;
  auto windows = windows_of(lhs);
  if (!windows) return false;
  auto [rows, columns] = *windows;
  if (rows.step != columns.step || !known(lhs->shape[0]) || !known(lhs->shape[1])) return false;
  x.channels = lhs->shape[0].constant_value();
  x.images = lhs->shape[1].constant_value() / (rows.count * columns.count);
  x.out_height = rows.count, x.out_width = columns.count;
  x.window_height = rows.size, x.window_width = columns.size;
  x.step_y = rows.step, x.step_x = columns.step;
  if (x.images * rows.count * columns.count != lhs->shape[1].constant_value() ||
      !lhs->shape[2].is(rows.size * columns.size))
    return false;
  auto axis = [](int k, int64_t n) { return n == 1 ? Expr(0) : Expr::axis(k, Expr(n)); };
  Expr number = axis(0, x.images), y = axis(1, rows.count), c = axis(2, columns.count),
       channel = axis(3, x.channels), u = axis(4, rows.size), v = axis(5, columns.size);
  Index at{channel, (number * Expr(rows.count) + y) * Expr(columns.count) + c,
           u * Expr(columns.size) + v};
  Value image = lhs;
  std::optional<Index> pixel;  // of what stands below the border
  while (!is_image(image)) {
    if (!ir::is_movement(image->op) || image->is(Op::concat)) return false;
    if (image->is(Op::pad) && image->attrs.bits != 0) return false;
    at = input_index(image, 0, at);
    if (pixel) pixel = input_index(image, 0, *pixel);
    const bool border = image->is(Op::pad);
    image = image->input();
    if (std::optional<Index> plain = pixel_of(x, at, image->shape))
      pixel = std::move(plain);
    else if (border)
      return false;
  }
  if (!pixel) return false;
  x.image = image;
  x.at = std::move(*pixel);
  return x.before_y >= 0 && x.before_x >= 0;
}

// How a line is cut, and how many blocks the lines are. `windows`: the product reads windows.
bool choose_tiles(FusedDepthwise& x, bool windows, const Machine& machine) {
  // Neighbouring windows have elements in common, which take registers too.
  const int64_t registers = x.channels % machine.vector == 0 ? machine.shared_vectors : 1;
  int64_t most = machine.sums_in_registers(DType::f32) / (windows ? 2 : 1) / registers;
  int64_t line = std::gcd(x.width, x.out_width);
  for (x.tiles = 1; x.tiles <= line; ++x.tiles)
    if (line % x.tiles == 0 && x.width / x.tiles * x.step_y <= most) break;
  if (x.tiles > line || x.width / x.tiles * x.step_y * registers < machine.busy_sums) return false;
  int64_t vectors = x.images * ((x.channels + machine.vector - 1) / machine.vector);
  x.blocks = 1;
  int64_t bytes = x.height * x.width * x.depth * 4;
  for (int64_t n = 1; n * least_lines <= x.out_height; ++n)
    if (x.out_height % n == 0 &&
        (vectors * x.blocks < least_shares * machine.units || bytes / x.blocks > machine.far_bytes))
      x.blocks = n;
  return true;
}

}  // namespace

Uses uses_in(const ir::Graph& graph) {
  Uses uses;
  for (Value n : ir::live_nodes(graph))
    for (Value in : n->inputs) ++uses[in];
  for (const ir::Output& o : graph.outputs) ++uses[o.value];
  return uses;
}

std::optional<FusedDepthwise> fused_depthwise_of(const Cluster& depthwise, const Cluster& product,
                                                 const Clustering& clustering,
                                                 const ir::Graph& graph, const Uses& uses,
                                                 const Options& options) {
  if (!options.machine->unrolls_windows || depthwise.kind != ClusterKind::product ||
      product.kind != ClusterKind::product || product.parts > 1 || !product.tail.empty() ||
      !is_depthwise(depthwise, options) || is_depthwise(product, options))
    return std::nullopt;
  // A parameter that is written in place might be written before the loop reads it.
  for (const ir::Output& o : graph.outputs)
    if (o.parameter >= 0) return std::nullopt;
  Value dot = product.anchor, lhs = depthwise.anchor->input(0);
  const Expr& depth = product.axes.back().extent;
  const bool windows = reads_windows(dot->input(0));
  if (dot->rank() != 2 || !known(depth) || depth.constant_value() > unrolled_depth ||
      options.machine->sums_in_registers(DType::f32) == 1 || dot->dtype != DType::f32 ||
      dot->input(0)->dtype != DType::f32 || depthwise.anchor->dtype != DType::f32 ||
      lhs->dtype != DType::f32 || (windows && !direct_image(product, clustering, graph, options)) ||
      !static_sources(clustering, options, dot->input(1)) ||
      !static_sources(clustering, options, depthwise.anchor->input(1)))
    return std::nullopt;
  FusedDepthwise x{};
  x.depthwise = &depthwise, x.product = &product;
  x.depth = depth.constant_value();
  if (!read_windows(x, lhs, [&](Value v) { return product.find(v) != nullptr; }) ||
      x.image->dtype != DType::f32 || !used_alone(uses, lhs, x.image))
    return std::nullopt;
  // The image's element is that of the product at row (number, row, column) and column channel.
  const Member& m = *product.find(x.image);
  int row = product.axes[product.axes.size() - 3].id,
      column = product.axes[product.axes.size() - 2].id;
  Expr number = x.images == 1 ? Expr(0) : Expr::axis(0, Expr(x.images));
  Expr pixel = (number * Expr(x.height) + Expr::axis(1, Expr(x.height))) * Expr(x.width) +
               Expr::axis(2, Expr(x.width));
  for (size_t i = 0; i < m.index.size(); ++i) {
    Expr e = m.index[i].substitute([&](const Atom& a) -> std::optional<Expr> {
      if (a.kind != Atom::Kind::axis) return std::nullopt;
      if (a.id == row) return pixel;
      if (a.id == column) return Expr::axis(3, Expr(x.channels));
      return std::nullopt;
    });
    if (!(e == x.at[i])) return std::nullopt;
  }
  // Nobody else needs what the product computes.
  bool alone = true;
  for (const ir::Output& o : graph.outputs) alone = alone && !product.find(o.value);
  for (const Cluster& c : clustering.clusters())
    if (&c != &product && &c != &depthwise)
      clustering.for_each_access(c,
                                 [&](Value v, const Index&) { alone = alone && !product.find(v); });
  if (!alone || !choose_tiles(x, windows, *options.machine)) return std::nullopt;
  atlas::ProductBlock about;
  for (const ClusterAxis& a : product.axes)
    about.axes.push_back({a.row ? AxisKind::row : AxisKind::parallel, a.extent});
  about.precision = static_cast<int>(dot->attrs.ints[0]);
  about.reproducible = options.reproducible;
  if (options.machine->terms(about, true) > 0) return std::nullopt;
  return x;
}

// Axes: image, block of lines, channel (the lanes); then steps down the lines and tiles of a line.
// A step computes the image's next lines into a ring of lines in scratch memory, and the results'
// line whose windows were complete before. Until there is one, the block's first line is computed
// from what the ring holds, to be overwritten.
Kernels lower_fused_depthwise(const Context& cx, const FusedDepthwise& x) {
  std::vector<Lowered> out;
  Value dot = x.product->anchor, sums = cx.cluster.anchor, taps = sums->input(1);
  int weights = cx.lay_out(
      dot->input(1), dot->input(1)->shape, [](const Index& at) { return at; }, out);
  int tap_weights = lay_taps(cx, taps, out);
  const int64_t step = x.step_y, lines = x.out_height / x.blocks;
  const int64_t lag = (x.window_height + step - 1) / step, ring = (lag + 1) * step;
  const int64_t in = x.width / x.tiles, results = x.out_width / x.tiles;
  const int64_t wide =
      std::max((x.out_width - 1) * x.step_x + x.window_width, x.before_x + x.width);

  ProgramBuilder k(cx.storage.slots);
  atlas::LoopBlock& loop = k.program.loop();
  for (int64_t n : {x.images, x.blocks, x.channels})
    loop.axes.push_back({AxisKind::parallel, Expr(n)});
  loop.parallel_rank = 3;
  loop.lane_axis = 2;
  for (int64_t n : {lines + lag, x.tiles}) loop.axes.push_back({AxisKind::row, Expr(n)});
  auto axis = [&](int a) { return Expr::axis(a, loop.axes[static_cast<size_t>(a)].extent); };
  Expr number = axis(0), block = axis(1), channel = axis(2), now = axis(3), tile = axis(4);
  Expr result_line =
      Expr::bounded(block * Expr(lines) + max(now - Expr(lag), Expr(0)), Expr(x.out_height));
  auto line_of_step = [&](int64_t i) {
    return (block * Expr(lines) + now) * Expr(step) + Expr(i - x.before_y);
  };

  int image = k.scratch(DType::f32, Expr(ring * wide));
  atlas::Stage border{atlas::StageKind::point, {}, {}, {}};
  {
    atlas::BodyBuilder b(border.body);
    Val zero = b.number(DType::f32, 0);
    for (int64_t line = 0; line < ring; ++line)
      for (int64_t i = 0; i < wide; ++i)
        if (i < x.before_x || i >= x.before_x + x.width)
          b.store(image, Expr(line * wide + i), zero);
  }

  atlas::Stage stage{atlas::StageKind::serial_row, {}, {}, {}};
  Val sum;
  Emitter e(
      k, stage.body, cx.storage.slot_of,
      [&](Value v) {
        return v->is(Op::parameter) ||
               (cx.clustering.is_root(v) && !cx.cluster.find(v) && !x.product->find(v));
      },
      [&](Value v, const Index&) -> std::optional<Val> {
        if (v != dot && v != sums) return std::nullopt;
        return sum;
      });
  atlas::BodyBuilder& b = e.builder();
  // The image's lines of this step.
  std::vector<Val> chains(static_cast<size_t>(step * in), b.number(DType::f32, 0));
  auto image_line = [&](int64_t i) {
    return Expr::bounded(max(min(line_of_step(i), Expr(x.height - 1)), Expr(0)), Expr(x.height));
  };
  auto pixel_at = [&](int64_t i, int64_t p) {
    return (number * Expr(x.height) + image_line(i)) * Expr(x.width) + tile * Expr(in) + Expr(p);
  };
  for (int64_t d = 0; d < x.depth; ++d) {
    Val w = e.read(weights, {Expr(d), channel});
    for (int64_t i = 0; i < step; ++i)
      for (int64_t p = 0; p < in; ++p) {
        Val& chain = chains[static_cast<size_t>(i * in + p)];
        chain = b.fma(e.value(dot->input(0), {pixel_at(i, p), Expr(d)}), w, chain);
      }
  }
  const std::vector<ClusterAxis>& of_product = x.product->axes;
  for (int64_t i = 0; i < step; ++i) {
    Val inside = e.within(line_of_step(i), Expr(x.height), {});
    for (int64_t p = 0; p < in; ++p) {
      sum = chains[static_cast<size_t>(i * in + p)];
      Index at = substitute(x.product->find(x.image)->index,
                            {{of_product[of_product.size() - 3].id, pixel_at(i, p)},
                             {of_product[of_product.size() - 2].id, channel}});
      Val v = e.value(x.image, at);
      if (inside.id != atlas::no_value) v = b.select(inside, v, b.number(DType::f32, 0));
      Expr slot = mod(now, Expr(lag + 1)) * Expr(step) + Expr(i);
      b.store(image, slot * Expr(wide) + tile * Expr(in) + Expr(x.before_x + p), v);
    }
  }

  // The results' line.
  AxisMap place;
  const std::vector<ClusterAxis>& own = cx.cluster.axes;
  place[own[own.size() - 4].id] = channel;
  place[own[own.size() - 2].id] = Expr(0);
  chains.assign(static_cast<size_t>(results), b.number(DType::f32, 0));
  for (int64_t u = 0; u < x.window_height; ++u) {
    Expr slot = mod(now + Expr(1 + u / step), Expr(lag + 1)) * Expr(step) + Expr(u % step);
    for (int64_t v = 0; v < x.window_width; ++v) {
      Val w = e.read(tap_weights, {Expr(u * x.window_width + v), channel});
      for (int64_t p = 0; p < results; ++p) {
        Expr column = (tile * Expr(results) + Expr(p)) * Expr(x.step_x) + Expr(v);
        Val pixel = b.load(image, DType::f32, slot * Expr(wide) + column);
        Val& chain = chains[static_cast<size_t>(p)];
        chain = b.fma(pixel, w, chain);
      }
    }
  }
  for (int64_t p = 0; p < results; ++p) {
    sum = chains[static_cast<size_t>(p)];
    place[own[own.size() - 3].id] =
        (number * Expr(x.out_height) + result_line) * Expr(x.out_width) + tile * Expr(results) +
        Expr(p);
    cx.store_results(e, place);
  }
  loop.stages = {std::move(border), std::move(stage)};
  out.push_back(finish(k, cluster_name(*x.product) + "+" + cluster_name(cx.cluster)));
  return out;
}

}  // namespace hologram::schedule
