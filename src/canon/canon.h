// canon/canon.h: brings a graph into canonical form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "rewrite/rewrite.h"

namespace hologram::canon {

struct Options {
  bool reproducible = false;  ///< no rule may change the order of a sum
  bool fast = false;          ///< narrowing casts that are widened again may go
};

/// What happened, for explain().
struct Report {
  size_t nodes_before = 0;  ///< live nodes, leaves and constants apart
  size_t nodes_after = 0;
  rewrite::Counts fired;    ///< rule name → times
  rewrite::Counts refused;  ///< rules that would not have lowered the cost: always empty
  std::vector<std::string_view> passes;
  std::vector<uint32_t> origins;  ///< by node of `out`: the one of `in` that it was made for
};

/// Rebuilds `in` into the empty graph `out`, rewritten to a fixed point: canonicalize(out) gives
/// the same graph again. Values are kept bit for bit except where a rule says that its result is at
/// least as accurate (1 / (1 + exp(-x)) → sigmoid(x), and the like), and but for the payload and
/// sign of NaNs.
void canonicalize(const ir::Graph& in, ir::Graph& out, Report& report, const Options& options = {});

/// Names of all rules, in the order in which they are tried.
std::vector<std::string_view> rule_names();

}  // namespace hologram::canon
