// schedule/in_place.h: where values are stored, and results that are written over parameters.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "schedule/order.h"

namespace hologram::schedule {

/// Slots of the plan by what lies in them.
struct Stores {
  std::map<int, int> input;  ///< by parameter index
  /// Those that a root is written to; the first is the one it is read from.
  std::map<ir::Value, std::vector<int>> of;
  /// Roots that lie in an output's memory, which their kernel writes as that output: where they are
  /// read.
  std::map<ir::Value, int> seen_as;
  std::set<ir::Value> in_place_scatters;  ///< that write into their operand's own buffer
};

/// Lets the cluster that computes o.value write straight into the parameter `o` goes to, where it
/// reads that one only at the element it writes and all others can read it before. Notes this in
/// `order` and `stores`; false, and nothing noted, where a copy is needed.
bool write_in_place(const ir::Output& o, const ir::Graph& graph, const Clustering& clustering,
                    const std::vector<Slot>& slots, ClusterOrder& order, Stores& stores);

}  // namespace hologram::schedule
