// schedule/groups.h: steps that may run at the same time.
#pragma once

#include "schedule/plan.h"

namespace hologram::schedule {

/// Numbers runs of neighbouring steps none of which needs what another one does (Step::group), so
/// that a launcher may hand them to its threads as one. Loops only, that write parameters, results
/// and buffers of at most machine.small_bytes: nothing else lives longer for it.
void group_steps(Plan& plan, const Machine& machine);

}  // namespace hologram::schedule
