// ir/sizes.h: whether a graph is right for given sizes.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace hologram::ir {

/// Checks every node that is used with numbers in the symbols' places: bounds and counts of
/// elements that verify() lets pass since they are wrong for some sizes only, that nothing has more
/// than 2^48 elements, and that nothing is taken of what has none. Throws Error(invalid_argument).
void check_sizes(const Graph& graph, std::span<const int64_t> symbols);

/// Throws Error(invalid_argument) if check_sizes() refuses the graph whatever the sizes, by trying
/// many from 1 on.
void require_right_sizes(const Graph& graph);

/// check_sizes() for the calls of a graph whose maker nobody vouches for: once for each set of
/// sizes. Thread-safe.
class SizeCheck {
 public:
  /// `subject` begins the errors' text. What no size changes is checked here and throws, too.
  SizeCheck(const Graph& graph, std::string subject);

  /// Throws Error(invalid_argument) if the graph is wrong for these sizes, of which the first are
  /// those of its symbols.
  void check(std::span<const int64_t> symbols) const;

 private:
  std::string subject_;
  std::unique_ptr<const Graph> graph_;  // null: without symbols
  mutable std::mutex mutex_;
  mutable std::set<std::vector<int64_t>> right_;  // sizes that it is right for
  mutable std::vector<int64_t> latest_;           // one of them
};

}  // namespace hologram::ir
