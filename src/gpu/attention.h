// gpu/attention.h: the sizes of attention, and the keys that are looked at.
#pragma once

#include "atlas/blocks/attention_keys.h"
#include "atlas/program.h"

namespace hologram::gpu {

/// Extents that are not positive are 0.
struct AttentionSizes {
  Expr queries, keys, depth, values;
  atlas::KeyBounds bounds;  ///< whoever looks at no other keys sees all that count
};
AttentionSizes sizes_of(const atlas::AttentionBlock& block);

/// The same of its gradients; members share keys.
struct AttentionGradSizes {
  Expr members, queries, keys, depth, width;
  atlas::KeyBounds bounds;
};
AttentionGradSizes sizes_of(const atlas::AttentionGradBlock& block);

}  // namespace hologram::gpu
