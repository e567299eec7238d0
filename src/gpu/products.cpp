// gpu/products.cpp: how products are cut into groups of threads.
#include "gpu/products.h"

#include "gpu/points.h"

namespace hologram::gpu {

std::optional<std::string> unrendered_form(const atlas::ProductBlock& block) {
  if (block.winograd) return "products by Winograd's method";
  if (block.terms > 0) return "products by terms";
  if (block.packed_rhs >= 0) return "products of packed panels";
  if (block.parts > 1) return "products of several parts";
  if (!block.tail.stages.empty()) return "products with a tail";
  return std::nullopt;
}

Expr Tiling::tiles(const atlas::ProductBlock& block) const {
  const auto along = [&](int axis, int side) {
    return ceil_div(points_of(block.axes, axis, axis + 1), Expr(side));
  };
  const int m = block.batch_rank, n = m + 1;
  return points_of(block.axes, 0, m) * along(m, rows) * along(n, columns);
}

int Tiling::part_bytes(const atlas::ProductBlock& block) const {
  return elements() * size_of(block.acc_type);
}

Expr Tiling::parts(const atlas::ProductBlock& block) const {
  const Expr all = tiles(block),
             depth = block.axes[static_cast<size_t>(block.batch_rank) + 2].extent;
  if (unit == 0 || at_most(depth, unit) || (all.is_const() && all.constant_value() > groups / 2))
    return Expr(0);
  const Expr room = floor_div(Expr(groups), max(all, Expr(1)));
  return max(min(ceil_div(max(depth, Expr(1)), Expr(unit)), room), Expr(1));
}

}  // namespace hologram::gpu
