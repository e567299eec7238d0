// schedule/windows/direct_convolution.h: a convolution over an image of few channels.
#pragma once

#include "schedule/cluster/cluster.h"

namespace hologram::schedule {

/// The image of a product that reads windows of at most 32 elements of it, if it lies in memory
/// with its border and the results leave channels last: one loop then reads the image's elements
/// one by one, in any layout, instead of copying every window as a row. nullptr for other clusters.
ir::Value direct_image(const Cluster& c, const Clustering& clustering, const ir::Graph& graph,
                       const Options& options);

/// The axis of such an image along which the windows of neighbouring pixels follow each other, if
/// the parameter under it is contiguous that way; else -1.
int line_axis_of(const Cluster& c, ir::Value image, int num_symbols);

}  // namespace hologram::schedule
