// backend/cuda/mapped.h: which operands are matrices that tensor maps describe.
#pragma once

#include <optional>
#include <span>

#include "atlas/program.h"
#include "backend/cuda/facts.h"

namespace hologram::cuda {

/// An operand whose body only loads: element (x, k) of a matrix for each of the batch axes. Or a
/// factor that lies in planes (`products/planes.h`): a matrix for each place along some batch axes
/// together, and behind these one for each of its terms.
struct MappedFactor {
  MappedMatrix matrix;  ///< its sizes: k and x or x and k, then batch axes; boxes are to be set
  bool depth_run;       ///< neighbours in memory are neighbours along k
  std::optional<std::vector<int>> planes = {};  ///< the batch axes, if it is planes
  /// By batch axis: how many neighbours along it share a matrix, whose coordinate is the axis's
  /// divided by that.
  std::vector<int64_t> shared = {};

  /// A copy takes `run` neighbours in memory, `count` of x or `step` of k, and all terms.
  void set_box(int run, int count, int step);
};

/// An operand of a block: its body, whose value has this type, and its axes.
struct MappedOperand {
  const atlas::Body* body;
  DType type;
  std::span<const atlas::Axis> axes;  ///< of the block
  int batch_rank, axis, depth_axis;   ///< axis: of x
};
/// Nothing where the body does more, or addresses are others.
std::optional<MappedFactor> mapped_operand(const atlas::Program& program, const MappedOperand& of);
/// Of the product's left or right factor; nothing where its body does more, or addresses are
/// others.
std::optional<MappedFactor> mapped_factor(const atlas::Program& program, bool right);

}  // namespace hologram::cuda
