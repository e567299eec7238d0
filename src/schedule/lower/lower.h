// schedule/lower/lower.h: clusters → Atlas programs.
#pragma once

#include <functional>
#include <vector>

#include "schedule/cluster/cluster.h"
#include "schedule/lower/emit.h"

namespace hologram::schedule {

/// One kernel of the plan before programs are shared.
struct Lowered {
  atlas::Program program;
  std::vector<int> buffers;  ///< slots
  std::string name;
  int cached = -1;  ///< cache entry that this kernel fills
};

/// What lowering needs from the plan: slots of stored values and new temporary ones.
struct Storage {
  std::vector<Slot>& slots;
  std::function<int(ir::Value)> slot_of;  ///< where a root or parameter is read
  std::function<std::vector<int>(ir::Value)>
      stores_of;                            ///< where a root must be written (may be empty)
  std::function<bool(ir::Value)> in_place;  ///< the scatter writes into its operand's own buffer
  std::function<int(DType, const Shape&, const std::string&)> temporary;
  std::function<int(int slot, const std::vector<int>& parameters)>
      cache;  ///< makes a slot a cached one
};

struct FusedDepthwise;

/// The kernels of a cluster, in order; with `fused`, of a depthwise convolution and what makes
/// its image; `direct`: of one that reads a direct_image.
std::vector<Lowered> lower(const Cluster& cluster, const Clustering& clustering,
                           const Options& options, Storage& storage,
                           const FusedDepthwise* fused = nullptr, bool direct = false);

/// Slot `from` copied into slot `to`, of the same shape.
Lowered lower_copy(const std::vector<Slot>& slots, int from, int to, const Machine& machine);

/// Merges axes that always appear as one linear counter, and splits those whose quotients and
/// remainders are taken; chooses the lane axis.
void simplify_axes(atlas::LoopBlock& loop, const Machine& machine);

}  // namespace hologram::schedule
