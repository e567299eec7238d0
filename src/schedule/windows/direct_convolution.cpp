// schedule/windows/direct_convolution.cpp: a convolution over an image of few channels.
//
// A loop over lines and vectors of channels takes up to eight pixels of a line at a time and reads
// the image element by element, so that no window is copied; four with 16 registers, where a step
// of the lanes fills two (Machine::shared_vectors). With more channels than two vectors
// the copies cost less than reading the image again for each vector. Rows stay inside of the lanes'
// loop (LoopStages::walks_rows_first): the elements that lanes share would else be read ahead of it
// and spilled. The order of the sums is the product's; the padded image keeps its planes where it
// arrives in planes.
#include "schedule/windows/direct_convolution.h"

#include <algorithm>

#include "schedule/lower/kinds.h"
#include "schedule/windows/window.h"

namespace hologram::schedule {

using atlas::AxisKind;
using atlas::Val;
using ir::Op;
using ir::Value;

namespace {

constexpr int64_t least_sums = 8;    // in registers, a pixel each
constexpr int64_t most_vectors = 2;  // of columns: each reads the image again

// What the windows are taken of: a padded image that has a place of its own; nullptr if none.
Value image_of(const Clustering& clustering, Value lhs) {
  bool windows = false;
  for (; ir::is_movement(lhs->op) && !lhs->is(Op::concat); lhs = lhs->input()) {
    if (lhs->is(Op::pad)) return windows && clustering.is_root(lhs) ? lhs : nullptr;
    windows = windows || lhs->is(Op::window);
  }
  return nullptr;
}

// Pixels of a line that are computed together: a divisor of the line.
int64_t chains_of(const Expr& line, const Machine& machine) {
  int64_t n = least_sums / machine.shared_vectors;
  while (n > 1 && line.constant_value() % n != 0) --n;
  return n;
}

}  // namespace

Value direct_image(const Cluster& c, const Clustering& clustering, const ir::Graph& graph,
                   const Options& options) {
  const Machine& machine = *options.machine;
  if (!machine.unrolls_windows) return nullptr;
  if (c.kind != ClusterKind::product || c.parts > 1) return nullptr;
  Value dot = c.anchor, lhs = dot->input(0), rhs = dot->input(1);
  const Expr &depth = c.axes.back().extent, &columns = dot->shape.back();
  if (dot->rank() != 2 || dot->dtype != DType::f32 || lhs->dtype != DType::f32 ||
      !depth.is_const() || depth.constant_value() > unrolled_depth || !columns.is_const() ||
      columns.constant_value() % machine.vector != 0 ||
      columns.constant_value() > most_vectors * machine.vector ||
      machine.sums_in_registers(DType::f32) < least_sums ||
      !static_sources(clustering, options, rhs))
    return nullptr;
  Expr line = line_of(lhs, 0);
  if (chains_of(line, machine) * machine.shared_vectors < machine.busy_sums ||
      !c.axes[0].extent.exact_div(line))
    return nullptr;
  // A result that leaves with its channels apart is turned over by a product.
  bool leaves = std::any_of(graph.outputs.begin(), graph.outputs.end(),
                            [&](const ir::Output& o) { return c.find(o.value) != nullptr; });
  return leaves ? nullptr : image_of(clustering, lhs);
}

int line_axis_of(const Cluster& c, Value image, int num_symbols) {
  Value v = c.anchor->input(0);
  std::vector<int64_t> symbols(static_cast<size_t>(num_symbols), 64), here{0}, next{1};
  Index at{Expr::axis(0, v->shape[0]), Expr(0)};
  for (; v != image; v = v->input()) at = input_index(v, 0, at);
  int found = -1;
  for (size_t i = 0; i < at.size(); ++i)
    if (at[i].eval(symbols, here) != at[i].eval(symbols, next)) found = static_cast<int>(i);
  if (found < 0) return -1;
  Index below;
  for (const Expr& d : image->shape) below.push_back(Expr::axis(static_cast<int>(below.size()), d));
  for (v = image; ir::is_movement(v->op) && !v->is(Op::concat); v = v->input())
    below = input_index(v, 0, below);
  if (!v->is(Op::parameter)) return -1;
  auto step = offset_of(below, v->attrs.exprs).linear_in_axis(found);
  return step && step->first.is(1) ? found : -1;
}

// Axes: lines of pixels, channels of the result (the lanes); then pieces of a line. An element of
// the image is read once for a vector of channels.
Kernels lower_direct_convolution(const Context& cx) {
  Value dot = cx.cluster.anchor, lhs = dot->input(0), rhs = dot->input(1);
  std::vector<Lowered> out;
  int weights = cx.lay_out(
      rhs, rhs->shape, [](const Index& at) { return at; }, out);
  const ClusterAxis &rows = cx.cluster.axes[0], &columns = cx.cluster.axes[1];
  Expr line = line_of(lhs, 0);
  const int64_t chains = chains_of(line, *cx.options.machine),
                depth = cx.cluster.axes[2].extent.constant_value();
  ProgramBuilder k(cx.storage.slots);
  atlas::LoopBlock& loop = k.program.loop();
  loop.axes = {{AxisKind::parallel, *rows.extent.exact_div(line)},
               {AxisKind::parallel, columns.extent},
               {AxisKind::row, *line.exact_div(Expr(chains))}};
  loop.parallel_rank = 2;
  loop.lane_axis = 1;
  auto axis = [&](int a) { return Expr::axis(a, loop.axes[static_cast<size_t>(a)].extent); };
  Expr first = axis(0) * line + axis(2) * Expr(chains), column = axis(1);
  atlas::Stage stage{atlas::StageKind::serial_row, {}, {}, {}};
  Val sum;
  Emitter e = cx.emitter(k, stage.body, [&](Value v, const Index&) -> std::optional<Val> {
    if (v != dot) return std::nullopt;
    return sum;
  });
  atlas::BodyBuilder& b = e.builder();
  std::vector<Val> sums(static_cast<size_t>(chains), b.number(DType::f32, 0));
  for (int64_t d = 0; d < depth; ++d) {
    Val w = e.read(weights, {Expr(d), column});
    for (int64_t p = 0; p < chains; ++p) {
      Val& chain = sums[static_cast<size_t>(p)];
      chain = b.fma(e.value(lhs, {first + Expr(p), Expr(d)}), w, chain);
    }
  }
  for (int64_t p = 0; p < chains; ++p) {
    sum = sums[static_cast<size_t>(p)];
    cx.store_results(e, {{rows.id, first + Expr(p)}, {columns.id, column}});
  }
  loop.stages.push_back(std::move(stage));
  out.push_back(finish(k, cluster_name(cx.cluster)));
  return out;
}

}  // namespace hologram::schedule
