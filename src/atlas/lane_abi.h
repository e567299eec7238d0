// atlas/lane_abi.h: what native lane programs and their host agree on. Generated code reads it by
// offset.
#pragma once

#include <cstddef>
#include <cstdint>

#include "atlas/lane_host.h"

namespace hologram::atlas {

/// Why a native lane came back.
enum LaneStatus : int32_t { lane_ended = 0, lane_waits = 1, lane_faulted = 2 };

/// A fault that generated code finds itself.
enum class LaneTrap : int32_t { steps, division_by_zero, wrong_register, overflow, underflow };

/// Services of the host for a running lane. A nonzero return stops the lane: the host knows why.
struct LaneServices {
  /// LaneHost::address; the address is in `result`.
  int32_t (*address)(LaneServices*, uint32_t at, uint64_t handle, uint64_t offset);
  /// LaneHost::operate; its value is in `result`.
  int32_t (*operate)(LaneServices*, uint32_t at, uint64_t a, uint64_t b, uint64_t c);
  /// Reports a trap; wrong_register: `reg` holds `found` (a DType).
  int32_t (*trap)(LaneServices*, uint32_t at, int32_t what, uint32_t reg, uint32_t found);
  uint64_t result;
  uint64_t steps;  ///< instructions left to the launch
};

/// The head of a lane's state. Registers (u64 by slot) follow, then a DType per slot (host: empty;
/// kept only for registers that a sel may leave unread), then the call stack.
struct LaneState {
  uint32_t resume;   ///< 0 at the start, else which barrier it goes on behind
  uint32_t barrier;  ///< where it waits
  uint32_t depth;    ///< of the call stack
  uint32_t phase;
  uint8_t predicates[lane_predicates];
};

/// Where the parts of a lane's state lie.
struct LaneLayout {
  size_t registers, types, calls, size;

  explicit LaneLayout(const LaneSlots& slots)
      : registers(sizeof(LaneState)),
        types(registers + slots.count * sizeof(uint64_t)),
        calls((types + slots.count + 7) / 8 * 8),
        size(calls + lane_call_depth * sizeof(uint32_t)) {}
};
static_assert(sizeof(LaneState) % 8 == 0 && lane_call_depth % 2 == 0);

}  // namespace hologram::atlas
