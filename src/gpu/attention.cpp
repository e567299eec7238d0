// gpu/attention.cpp: the sizes of attention, and the keys that are looked at.
#include "gpu/attention.h"

#include "gpu/points.h"

namespace hologram::gpu {

AttentionSizes sizes_of(const atlas::AttentionBlock& block) {
  const auto extent = [&](int axis) {
    return points_of(block.axes, block.batch_rank + axis, block.batch_rank + axis + 1);
  };
  return {extent(0), extent(1), extent(2), extent(3),
          atlas::find_key_bounds(block.score, block.batch_rank)};
}

}  // namespace hologram::gpu
