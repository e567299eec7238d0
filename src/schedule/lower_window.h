// schedule/lower_window.h: products over windows of an image: memory layouts and depthwise loops.
#pragma once

#include "schedule/cluster.h"

namespace hologram::schedule {

/// What a product would like to find and to leave in memory.
struct ProductLayout {
  ir::Value read;              ///< what its left operand is a view of
  std::vector<int> read_axes;  ///< the axes of `read` that should lie densest, the densest first
  int written_axis = -1;       ///< the cluster's axis along which its results should lie densest
};

ProductLayout product_layout(const Cluster& c, int num_symbols);

/// Whether a product has one column and a short, known depth, and reads windows: a depthwise
/// convolution, which is a loop over channels rather than a product.
bool is_depthwise(const Cluster& c);

}  // namespace hologram::schedule
