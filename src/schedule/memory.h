// schedule/memory.h: where the intermediates of a plan live.
#pragma once

#include "schedule/plan.h"

namespace hologram::schedule {

/// Gives every arena slot an offset; slots that are never live together may share memory. Buffers
/// of at most 12,288 bytes go to the boundary pool's part at the front while it has room (96
/// classes of 12,288 bytes).
void plan_memory(Plan& plan, const Machine& machine);

/// Places for more slots in the arena of a plan with its memory.
struct Fitted {
  std::vector<int64_t> offsets;  ///< by slot that was asked for, from the arena's beginning
  int64_t arena_bytes = 0;       ///< what the arena takes with them
};

/// Finds room for slots of known sizes, as long as the steps that name them run, beside what the
/// arena holds meanwhile. The plan's arena is of a known size.
Fitted fit_into_arena(const Plan& plan, const std::vector<int>& slots);

/// Input slots that steps write before anything reads them: until then their memory may hold
/// intermediates.
std::vector<int> overwritten_inputs(const Plan& plan);

/// Where intermediates lie when they may use `regions` too: each some overwritten inputs, one
/// behind the other. What of an input's bytes is no multiple of the alignment is left alone.
struct Placement {
  /// By slot: region number (the arena: their count) and byte offset there; -1: not one of these.
  std::vector<std::pair<int, int64_t>> places;
  int64_t arena_bytes = 0;
};

/// The plan's arena is of a known size.
Placement place_in(const Plan& plan, const std::vector<std::vector<int>>& regions);

}  // namespace hologram::schedule
