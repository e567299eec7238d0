// codegen/loop_plan.h: how a loop block is cut into lanes and units. No LLVM in here.
#pragma once

#include "atlas/program.h"
#include "codegen/codegen.h"

namespace hologram::codegen {

enum class LaneMode : uint8_t {
  scalar,    ///< one lane
  parallel,  ///< along the last parallel axis: each lane is a point
  row,       ///< along the last row axis
};

struct LoopPlan {
  LaneMode mode = LaneMode::scalar;
  int lanes = 1;
  int unroll = 1;             ///< vectors per round of loops without reductions
  bool masked_tails = false;  ///< else what is left over runs one by one
  bool may_stream = false;    ///< the kernel's data may be larger than the caches; see stream_bytes
};

/// Kernels whose buffers hold more bytes than this write past the caches.
inline constexpr int64_t stream_bytes = int64_t{48} << 20;
/// Bytes of all buffers.
Expr buffer_bytes(const atlas::Program& program);

LoopPlan plan_loop(const atlas::Program& program, const Target& target);

/// Product of the extents of axes [first, last).
Expr extent_of(const atlas::LoopBlock& block, int first, int last);

Launch launch_of_loop(const atlas::Program& program, const Target& target);

}  // namespace hologram::codegen
