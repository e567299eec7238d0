// schedule/cluster/roots.h: which nodes get a place of their own instead of being computed where
// they are read.
#pragma once

#include <vector>

#include "schedule/plan.h"

namespace hologram::schedule {

/// By node number; `live`: the nodes in use, operands first.
std::vector<char> choose_roots(const ir::Graph& graph, const Options& options,
                               const std::vector<ir::Value>& live);

}  // namespace hologram::schedule
