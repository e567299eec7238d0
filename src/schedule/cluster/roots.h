// schedule/cluster/roots.h: which nodes get a place of their own instead of being computed where
// they are read.
#pragma once

#include <vector>

#include "schedule/plan.h"

namespace hologram::schedule {

/// By node number.
struct RootChoice {
  std::vector<char> root;
  std::vector<int> cost;  ///< of computing an element from roots, in vector instructions, roughly
};

/// `live`: the nodes in use, operands first.
RootChoice choose_roots(const ir::Graph& graph, const Options& options,
                        const std::vector<ir::Value>& live);

}  // namespace hologram::schedule
