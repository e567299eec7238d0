// schedule/windows/depthwise.cpp: depthwise and narrowly grouped convolutions as loops over
// channels.
//
// Up to eight pixels of a line (a divisor of its length, at most 200 multiply-adds) share a body,
// so that four chains run side by side. Channels are taken in blocks so that the lines that a
// window spans stay in the nearest cache (24 KiB), and these inside of blocks of lines: products
// before and behind share pixels out among threads, so each core finds its own in its cache. Narrow
// groups: lanes run along the channels of all groups, and lanes of a group share an element of the
// image, taken from a whole vector by one shuffle (codegen/shared_element). Vectors then begin at
// multiples of their length, so units are lines of channels.
#include <algorithm>

#include "schedule/lower/kinds.h"
#include "schedule/windows/channels.h"
#include "schedule/windows/window.h"

namespace hologram::schedule {

using atlas::AxisKind;
using atlas::Val;
using ir::Value;

namespace {

constexpr int64_t fewest_lines = 7;  // of a block, against those around it that two blocks read
constexpr int64_t most_blocks = 16;

// Lines of a block: of an even number of blocks, or all.
Expr lines_together(const Expr& lines) {
  if (!lines.is_const()) return lines;
  int64_t all = lines.constant_value(), blocks = 1;
  for (int64_t n = 2; n <= most_blocks && n * fewest_lines <= all; n += 2)
    if (all % n == 0) blocks = n;
  return Expr(all / blocks);
}

}  // namespace

// A product with one column, or few in each of many groups: for each batch point and column (a
// channel) and each row (a pixel) a chain over the taps, whose weights are laid out anew with the
// channels densest.
Kernels lower_depthwise(const Context& cx) {
  Value dot = cx.cluster.anchor, lhs = dot->input(0), rhs = dot->input(1);
  DType acc = is_int(dot->dtype) ? dot->dtype : compute_type(lhs->dtype);
  size_t batch = rhs->shape.size() - 2;
  std::vector<Lowered> out;
  int weights = lay_taps(cx, rhs, out);
  // Axes: lines of pixels, tiles of a line, the batch. A tile's pixels share a body, so that its
  // weights and what their windows have in common are loaded once.
  const ClusterAxis rows = cx.cluster.axes[cx.cluster.axes.size() - 3];
  const ClusterAxis column = cx.cluster.axes[cx.cluster.axes.size() - 2];
  int64_t count = rhs->shape[batch].constant_value();
  Expr line = line_of(lhs, static_cast<int>(batch));
  const Machine& machine = *cx.options.machine;
  int64_t pixels = pixels_together(line, count, machine.sums_in_registers(lhs->dtype));
  ProgramBuilder k(cx.storage.slots);
  atlas::LoopBlock& loop = k.program.loop();
  AxisMap place;
  auto add_axis = [&](const Expr& extent) {
    Expr axis = Expr::axis(static_cast<int>(loop.axes.size()), extent);
    loop.axes.push_back({AxisKind::parallel, extent});
    return axis;
  };
  // Blocks of channels first, if the lines that a window spans exceed the nearest cache.
  const ClusterAxis& groups = cx.cluster.axes[cx.cluster.axes.size() - 4];
  Expr channels = groups.extent * column.extent;
  Expr together = channels_together(lhs, line, count, channels, machine);
  Expr lines = *rows.extent.exact_div(line);
  Expr piece = together == channels ? lines : lines_together(lines);
  Expr before = add_axis(*lines.exact_div(piece)) * piece;
  Expr block = add_axis(*channels.exact_div(together)) * together;
  Expr first = (before + add_axis(piece)) * line;
  first += add_axis(*line.exact_div(Expr(pixels))) * Expr(pixels);
  for (size_t i = 0; i + 4 < cx.cluster.axes.size(); ++i)
    place[cx.cluster.axes[i].id] = add_axis(cx.cluster.axes[i].extent);
  Expr channel = block + add_axis(together);
  auto [group, in_group] = group_and_column(channel, groups.extent, column.extent);
  place[groups.id] = group;
  place[column.id] = in_group;
  loop.parallel_rank = static_cast<int>(loop.axes.size());
  atlas::Stage stage{atlas::StageKind::point, {}, {}, {}};
  Val sum;
  Emitter e = cx.emitter(k, stage.body, [&](Value v, const Index&) -> std::optional<Val> {
    if (v != dot) return std::nullopt;
    return sum;
  });
  atlas::BodyBuilder& b = e.builder();
  std::vector<Val> w;
  const int64_t side_by_side = machine.interleaved_sums;
  for (int64_t begin = 0; begin < pixels; begin += side_by_side) {
    int64_t end = std::min(begin + side_by_side, pixels);
    std::vector<Val> chains(static_cast<size_t>(end - begin), b.constant(acc, 0));
    std::vector<Index> own;  // by pixel
    for (int64_t pixel = begin; pixel < end; ++pixel) {
      place[rows.id] = first + Expr(pixel);
      own.push_back(substitute(cx.cluster.members[0].index, place));
    }
    for (int64_t tap = 0; tap < count; ++tap)
      for (int64_t pixel = begin; pixel < end; ++pixel) {
        const Index& at = own[static_cast<size_t>(pixel - begin)];
        Expr row = first + Expr(pixel);
        Index weight_at{Expr(tap)}, lhs_at(at.begin(), at.end() - 2);
        weight_at.insert(weight_at.end(), lhs_at.begin(), lhs_at.end());
        weight_at.back() = channel;
        lhs_at.insert(lhs_at.end(), {row, Expr(tap)});
        Val x = e.convert(e.value(lhs, lhs_at), acc);
        if (static_cast<int64_t>(w.size()) == tap)
          w.push_back(e.convert(e.read(weights, weight_at), acc));
        Val y = w[static_cast<size_t>(tap)], &chain = chains[static_cast<size_t>(pixel - begin)];
        chain = is_float(acc) ? b.fma(x, y, chain) : b.add(b.mul(x, y), chain);
      }
    for (int64_t pixel = begin; pixel < end; ++pixel) {
      place[rows.id] = first + Expr(pixel);
      sum = e.convert(chains[static_cast<size_t>(pixel - begin)], dot->dtype);
      cx.store_results(e, place);
    }
  }
  loop.stages.push_back(std::move(stage));
  simplify_axes(loop, machine);
  out.push_back(finish(k, cluster_name(cx.cluster)));
  return out;
}

}  // namespace hologram::schedule
