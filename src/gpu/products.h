// gpu/products.h: how products are cut into groups of threads.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "atlas/program.h"

namespace hologram::gpu {

/// Why a product is left to the host whatever the device: plans for other machines have these
/// forms. Nothing where its form is plain.
std::optional<std::string> unrendered_form(const atlas::ProductBlock& block);

/// How a product is cut into groups of threads.
struct Tiling {
  int rows, columns;  ///< of a group's tile
  int threads;        ///< of a group
  /// Values of k that stay together where several groups share a tile: each has its part of k, and
  /// a second kernel adds up their sums in ascending order. 0: one group for each tile.
  int unit = 0;
  int groups = 256;  ///< that parts of k make at most
  /// Sums of float32 that are not finite are computed again, as chains.
  bool mends = false;

  /// Groups that a product takes if one has a tile.
  Expr tiles(const atlas::ProductBlock& block) const;
  /// Parts that k may be cut into; 0: it is not.
  Expr parts(const atlas::ProductBlock& block) const;
  constexpr int elements() const { return rows * columns; }
  int part_bytes(const atlas::ProductBlock& block) const;       ///< of a tile's sums
  int merges() const { return std::max(elements() / 512, 1); }  ///< groups that merge a tile
};

}  // namespace hologram::gpu
