// backend/cpu/products/in_place_plan.cpp: which products run from where their operands lie.
#include <algorithm>

#include "backend/cpu/cost.h"
#include "backend/cpu/products/plan.h"

namespace hologram::cpu {
namespace {

constexpr int64_t most_work = 1 << 19;  // multiply-adds of a batch point
constexpr int64_t most_columns = 128;   // what a transposed right operand has room for

constexpr int64_t least_streamed_bytes = 128 * 1024;

bool known_strides(const StridedLoad& load) {
  return load.x_stride.is_const() && load.y_stride.is_const();
}

}  // namespace

std::optional<SmallProduct> plan_small_product(const atlas::Program& program,
                                               const Target& target) {
  const atlas::ProductBlock& b = program.product();
  auto rank = static_cast<size_t>(b.batch_rank);
  const Expr &m = b.axes[rank].extent, &n = b.axes[rank + 1].extent, &k = b.axes[rank + 2].extent;
  if (!m.is_const() || !n.is_const() || !k.is_const() || b.parts > 1 || program.has_tail())
    return std::nullopt;
  SmallProduct p;
  p.m = m.constant_value();
  p.n = n.constant_value();
  p.k = k.constant_value();
  if (p.m < 1 || p.n < 1 || p.k < 1 || p.k > atlas::product_block || p.n > most_columns ||
      p.m > most_work / (p.n * p.k))
    return std::nullopt;
  // Without fused multiply-adds they are long sequences, which belong into loops.
  if (!target.fma || b.operand_type != b.acc_type || size_of(b.acc_type) < 4) return std::nullopt;

  int m_axis = b.batch_rank, n_axis = m_axis + 1, k_axis = m_axis + 2;
  auto lhs = strided_load(b.lhs, m_axis, k_axis);
  if (!lhs || !known_strides(*lhs)) return std::nullopt;
  p.lhs = *lhs;
  TileModel tile = tile_model(target, b.acc_type);
  if (b.packed_rhs < 0) {
    p.rhs = strided_load(b.rhs, n_axis, k_axis);
    if (!p.rhs || !known_strides(*p.rhs)) return std::nullopt;
    p.transposed = !p.rhs->x_stride.is(1) && p.rhs->y_stride.is(1);
    if (!p.transposed && !p.rhs->x_stride.is(1)) return std::nullopt;
  } else if (b.panel_width != tile.panel ||
             program.buffers[static_cast<size_t>(b.packed_rhs)].dtype != b.acc_type) {
    return std::nullopt;
  }

  int least_lanes = 16 / size_of(b.acc_type);
  p.lanes = tile.lanes;
  while (p.lanes > least_lanes && p.lanes / 2 >= p.n) p.lanes /= 2;
  if (target.isa == Isa::neon && p.n % p.lanes) return std::nullopt;  // no masked accesses
  int accumulators = tile.max_rows * tile.vectors, widest = accumulators >= 24 ? 4 : 3;
  auto vectors = static_cast<int>((p.n + p.lanes - 1) / p.lanes);
  p.span = std::min(vectors, widest);
  if (vectors > widest && vectors % widest) {  // groups of one size rather than a narrow last one
    int groups = (vectors + widest - 1) / widest;
    p.span = (vectors + groups - 1) / groups;
  }
  p.rows = static_cast<int>(std::min<int64_t>(accumulators / p.span, p.m));
  for (size_t a = 0; a < rank; ++a) p.units = p.units * b.axes[a].extent;
  return p;
}

std::optional<StreamProduct> plan_stream_product(const atlas::Program& program,
                                                 const Target& target) {
  const atlas::ProductBlock& b = program.product();
  auto rank = static_cast<size_t>(b.batch_rank);
  const Expr &m = b.axes[rank].extent, &n = b.axes[rank + 1].extent, &k = b.axes[rank + 2].extent;
  if (!m.is_const() || m.constant_value() < 1 || m.constant_value() > 4 || b.packed_rhs >= 0 ||
      b.parts > 1 || program.has_tail() || b.operand_type != b.acc_type ||
      size_of(b.acc_type) < 4 || !target.fma || target.isa == Isa::neon)
    return std::nullopt;
  if (n.is_const() && k.is_const() &&
      n.constant_value() * k.constant_value() * size_of(b.acc_type) <= least_streamed_bytes)
    return std::nullopt;
  int m_axis = b.batch_rank, n_axis = m_axis + 1, k_axis = m_axis + 2;
  auto lhs = strided_load(b.lhs, m_axis, k_axis), rhs = strided_load(b.rhs, n_axis, k_axis);
  if (!lhs || !rhs) return std::nullopt;
  bool turned = !rhs->x_stride.is(1);
  if (turned && !rhs->y_stride.is(1)) return std::nullopt;
  TileModel tile = tile_model(target, b.acc_type);
  // Broadcasts of the left operand fill half of the registers.
  int64_t rows = m.constant_value();
  int room = tile.max_rows * tile.vectors >= 24 ? 16 : 8, streams = 8;
  while (streams * rows > room) streams /= 2;
  // Pages of each stream that follow each other, but enough units for the threads.
  const int64_t widest = n.is_const() ? 16384 : 4096;
  int64_t columns = turned ? 4 * tile.panel : widest / size_of(b.acc_type);
  const int64_t wanted = cost::streams_each * target.threads;
  const int64_t least = target.threads > 8 ? 128 : 256;
  while (!turned && n.is_const() && columns > least && n.constant_value() < wanted * columns)
    columns /= 2;
  Expr units = ceil_div(n, columns);
  for (size_t a = 0; a < rank; ++a) units = units * b.axes[a].extent;
  return StreamProduct{rows, n, k, tile.lanes, turned, streams, columns, *lhs, *rhs, units};
}

Launch launch_of(const SmallProduct& small, const atlas::Program&, const Target&) {
  // A vector's multiply-add and its loads, and four cycles for one of the epilogue.
  int64_t vectors = (small.n + small.lanes - 1) / small.lanes;
  int64_t work = small.m * vectors * (small.k * 150 + 4 * cost::cycle) + cost::unit / 2;
  return {small.units, 1, Expr(work)};
}

Launch launch_of(const StreamProduct& stream, const atlas::Program&, const Target&) {
  Expr columns = min(stream.n, stream.columns);
  int64_t per_element = 25 * std::max<int64_t>(stream.m / 2, 1);  // in cache, in picoseconds
  Expr work = stream.k * columns * Expr(per_element) + Expr(cost::unit);
  return {stream.units, 1, work};
}

}  // namespace hologram::cpu
