// schedule/footprint.h: the memory that a plan takes.
#pragma once

#include "schedule/plan.h"

namespace hologram::schedule {

/// Bytes of a plan: its programs, steps and slots with what they own, expressions that several of
/// them share once.
size_t footprint(const Plan& plan);

}  // namespace hologram::schedule
