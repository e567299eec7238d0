// backend/cpu/products/narrow_plan.cpp: which products widen their right operand in registers.
#include <algorithm>

#include "backend/cpu/cost.h"
#include "backend/cpu/operands/runs.h"
#include "backend/cpu/products/factors.h"
#include "backend/cpu/products/plan.h"

namespace hologram::cpu {
namespace {

constexpr int64_t most_rows = 8;

// Whether every load that differs between columns has `lanes` of them side by side, and one of them
// is narrower than `wide`.
bool reads_narrow_columns(const atlas::Program& program, const atlas::Body& body, int axis,
                          DType wide) {
  bool narrow = false;
  for (const atlas::Instr& i : body.instrs) {
    if (i.code == atlas::Code::store || i.code == atlas::Code::clamp_index) return false;
    if (i.code != atlas::Code::load || !i.expr.has_axis(axis)) continue;
    auto parts = i.expr.linear_in_axis(axis);
    if (!parts || !parts->first.is(1)) return false;
    DType stored = program.buffers[static_cast<size_t>(i.buffer)].dtype;
    narrow |= size_of(stored) < size_of(wide);
  }
  return narrow;
}

}  // namespace

std::optional<NarrowProduct> plan_narrow_product(const atlas::Program& program,
                                                 const Target& target) {
  const atlas::ProductBlock& b = program.product();
  auto rank = static_cast<size_t>(b.batch_rank);
  const Expr &m = b.axes[rank].extent, &n = b.axes[rank + 1].extent, &k = b.axes[rank + 2].extent;
  if (b.packed_rhs >= 0 || b.parts > 1 || program.has_tail() || !m.is_const() || !n.is_const() ||
      !k.is_const())
    return std::nullopt;
  NarrowProduct p{m.constant_value(), n.constant_value(), k.constant_value(), 1, 1, 1, 1, 64, 1};
  TileModel tile = tile_model(target, b.acc_type);
  p.lanes = tile.lanes;
  // Without FMA instructions multiply-adds are long sequences, which belong into loops.
  const bool masks = target.masks || target.isa == Isa::avx2;
  if (p.m < 1 || p.m > most_rows || p.n < 1 || (p.n % p.lanes && !masks) || p.k < 1 ||
      !target.fma || size_of(b.acc_type) < 4)
    return std::nullopt;
  int n_axis = b.batch_rank + 1, k_axis = n_axis + 1;
  auto columns = block_axis(b.rhs, n_axis, n, p.lanes, k_axis + 1);
  int lane_axis = columns ? k_axis + 2 : n_axis;
  if (!reads_narrow_columns(program, columns ? *columns : b.rhs, lane_axis, b.acc_type))
    return std::nullopt;

  const Steps steps = steps_of(b.rhs, k_axis);
  p.segment = steps.segment;
  p.steps = steps.together;
  if (p.steps == 1 && p.segment % 4 == 0) {
    p.stream = byte_columns(target);
    p.steps = 64 / p.stream;  // a line of each stream
  }
  // As many chains as registers hold beside a scale and a zero point of each vector; of 16
  // registers eight hold chains, as fewer would wait for each other.
  const bool many = tile.max_rows * tile.vectors >= 24;
  p.vectors = 8;
  while (p.vectors > 1 && (many ? p.vectors * (p.m + 2) > 24 : p.vectors * p.m > 8)) p.vectors /= 2;
  p.units = Expr((p.n + p.vectors * p.lanes - 1) / (p.vectors * p.lanes));
  for (size_t a = 0; a < rank; ++a) p.units = p.units * b.axes[a].extent;
  return p;
}

Launch launch_of(const NarrowProduct& narrow, const atlas::Program&, const Target&) {
  // A vector of weights from its bytes, then a multiply-add per row.
  int64_t work = narrow.k * narrow.vectors * (300 + cost::multiply_add * narrow.m) + cost::unit;
  return {narrow.units, 1, Expr(work)};
}

}  // namespace hologram::cpu
