// backend/cuda/loops/reduce.h: the reductions of a row stage.
#pragma once

#include <functional>

#include "backend/cuda/loops/team.h"

namespace hologram::cuda {

/// A row of `count` (i64) elements of the stage at `point`; `fix` gives a scope the coordinates of
/// an element. Returns the results, in the order of stage.reductions. Every member calls it.
std::vector<Value*> emit_reductions(Scope& point, Team& team, const atlas::Stage& stage,
                                    Value* count, const std::function<void(Scope&, Value*)>& fix);

}  // namespace hologram::cuda
