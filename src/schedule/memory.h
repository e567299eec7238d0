// schedule/memory.h: where the intermediates of a plan live.
#pragma once

#include "schedule/plan.h"

namespace hologram::schedule {

/// Gives every arena slot an offset; slots that are never live together may share memory. Buffers
/// of at most 12,288 bytes go to the boundary pool's part at the front while it has room (96
/// classes of 12,288 bytes).
void plan_memory(Plan& plan, const Machine& machine);

}  // namespace hologram::schedule
