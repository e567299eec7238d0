// schedule/windows/fused_depthwise.h: a depthwise convolution and what makes its image.
#pragma once

#include <optional>
#include <unordered_map>

#include "schedule/cluster/cluster.h"

namespace hologram::schedule {

/// A depthwise convolution over an image that a convolution of few channels, 1 x 1 or one of those
/// of direct_image(), makes for it alone: one loop computes both, line by line, and the image is
/// never in memory as a whole.
struct FusedDepthwise {
  const Cluster* depthwise;
  const Cluster* product;  ///< the convolution that makes the image
  ir::Value image;         ///< its result
  Index at;                ///< the image's coordinates over axes number, row, column, channel
  int64_t images, height, width, channels, depth;  ///< of the image; depth: of the product
  int64_t out_height, out_width;
  int64_t window_height, window_width, step_y, step_x;
  int64_t before_y, before_x;  ///< lines and columns of zeros before the image
  int64_t tiles;               ///< parts of a line; a body computes one of each line it takes
  int64_t blocks;              ///< of lines, which run in parallel
};

/// How often each value is an input or an output.
using Uses = std::unordered_map<ir::Value, int64_t>;
Uses uses_in(const ir::Graph& graph);

/// nullopt unless `depthwise` is such a convolution over what `product` makes, sizes are known and
/// one loop is expected to be faster than two kernels.
std::optional<FusedDepthwise> fused_depthwise_of(const Cluster& depthwise, const Cluster& product,
                                                 const Clustering& clustering,
                                                 const ir::Graph& graph, const Uses& uses,
                                                 const Options& options);

}  // namespace hologram::schedule
