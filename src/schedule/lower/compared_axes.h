// schedule/lower/compared_axes.h: comparisons that keep two axes of a loop from being one.
#pragma once

#include <optional>

#include "atlas/program.h"
#include "schedule/machine.h"

namespace hologram::schedule {

/// The loop, axis k + 1 being its short innermost parallel one, with comparisons of axis k as
/// comparisons of extent(k + 1) * i<k> + i<k + 1>; nullopt if there are none, or too many.
std::optional<atlas::LoopBlock> with_places_compared(const atlas::LoopBlock& loop, int k,
                                                     const Machine& machine);

}  // namespace hologram::schedule
