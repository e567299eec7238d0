// gpu/attention.cpp: the sizes of attention, and the keys that are looked at.
#include "gpu/attention.h"

#include "gpu/points.h"

namespace hologram::gpu {
namespace {

// Of an axis behind the batch's.
Expr extent(const auto& block, int axis) {
  return points_of(block.axes, block.batch_rank + axis, block.batch_rank + axis + 1);
}

}  // namespace

AttentionSizes sizes_of(const atlas::AttentionBlock& b) {
  return {extent(b, 0), extent(b, 1), extent(b, 2), extent(b, 3),
          atlas::find_key_bounds(b.score, b.batch_rank)};
}

AttentionGradSizes sizes_of(const atlas::AttentionGradBlock& b) {
  return {extent(b, 0), extent(b, 1), extent(b, 2),
          extent(b, 3), extent(b, 4), atlas::find_key_bounds(b.score, b.batch_rank + 1)};
}

}  // namespace hologram::gpu
