// ir/sizes.h: whether a graph is right for given sizes.
#pragma once

#include <span>

#include "ir/graph.h"

namespace hologram::ir {

/// Checks every node that is used with numbers in the symbols' places: bounds and counts of
/// elements that verify() lets pass since they are wrong for some sizes only, and that nothing has
/// more than 2^48 elements. Throws Error(invalid_argument).
void check_sizes(const Graph& graph, std::span<const int64_t> symbols);

}  // namespace hologram::ir
