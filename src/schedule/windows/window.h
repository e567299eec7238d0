// schedule/windows/window.h: products over windows of an image: memory layouts and depthwise loops.
#pragma once

#include <optional>

#include "schedule/cluster/cluster.h"

namespace hologram::schedule {

/// What a product would like to find and to leave in memory.
struct ProductLayout {
  ir::Value read;              ///< what its left operand is a view of
  std::vector<int> read_axes;  ///< the axes of `read` that should lie densest, the densest first
  int written_axis = -1;       ///< the cluster's axis along which its results should lie densest
};

/// Sums over windows are unrolled up to this depth.
inline constexpr int64_t unrolled_depth = 32;

/// Whether an operand is windows of an image, by movements alone.
bool reads_windows(ir::Value v);

ProductLayout product_layout(const Cluster& c, int num_symbols);

/// Whether a product has one column and a short, known depth, and reads windows: a depthwise
/// convolution, which is a loop over channels rather than a product.
bool is_depthwise(const Cluster& c, const Options& options);

/// Whether a product is a depthwise convolution of so few taps that loops may sum them where they
/// read the result.
bool is_short_sum(ir::Value v, const Options& options);

/// Whether a product has groups of so few columns that a vector holds those of several groups and
/// its operand is windows: a grouped convolution, which is such a loop too.
bool has_narrow_groups(const Cluster& c, const Options& options);

/// Whether a product [groups, blocks, results of a group, pixels] x [groups, blocks, pixels, taps]
/// with windows on its right is a loop along the channels with a chain for each tap: the gradient
/// of a depthwise or narrowly grouped weight. At most 384 pixels, so each sum is one chain.
bool is_weight_gradient(ir::Value dot, const Options& options);

/// The number of neighbouring rows of a depthwise product's left operand whose windows lie on one
/// line of the image; 1 if that is not known.
Expr line_of(ir::Value lhs, int row_axis);

/// How many pixels of a line of such a product a loop's body takes together: a divisor of `line`.
/// `sums`: Machine::sums_in_registers.
int64_t pixels_together(const Expr& line, int64_t taps, int sums);

/// How many channels such a loop takes before it moves on to other pixels: a divisor of `channels`,
/// so that the lines that a window spans stay in the nearest cache.
Expr channels_together(ir::Value lhs, const Expr& line, int64_t taps, const Expr& channels,
                       const Machine& machine);

/// The image under a product's 3 x 3 windows of stride 1: element (m, k) of the left operand, m =
/// (number * height + row) * width + column and k = (3u + v) * channels + channel, is `image` at
/// `index` for number, row + u, column + v, channel.
struct WindowImage {
  ir::Value image;
  Index index;  ///< over axes first_axis … + 3: number, row + u, column + v, channel
  Expr images, height, width, channels;
};
/// nullopt unless the left operand is such windows.
std::optional<WindowImage> window_image(const Cluster& c, int first_axis);

/// Whether Winograd's F(2x2, 3x3) is expected to be faster than the direct sums; `columns` are the
/// results' channels. `kept`: weights are transformed once, not in each call.
bool winograd_pays(const WindowImage& w, const Expr& columns, bool kept, const Machine& machine);

}  // namespace hologram::schedule
