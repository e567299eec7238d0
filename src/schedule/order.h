// schedule/order.h: the order in which clusters run.
#pragma once

#include <utility>
#include <vector>

#include "schedule/cluster/cluster.h"

namespace hologram::schedule {

/// What must run before what.
class ClusterOrder {
 public:
  /// `clustering` must live on.
  explicit ClusterOrder(const Clustering& clustering);

  /// Whether `cluster` comes after `on` in every order.
  bool depends(int cluster, int on) const;
  /// `reader` runs before `writer`, which overwrites what it reads.
  void put_before(int reader, int writer) { before_.emplace_back(reader, writer); }
  /// All clusters; host calls as their timing asks.
  std::vector<int> list() const;

 private:
  void hasten_last(std::vector<int>& order) const;
  bool is_host(int cluster) const;
  bool is_tiny(int cluster) const;
  std::vector<int> tiny_first(const std::vector<int>& order) const;

  const Clustering& clustering_;
  std::vector<std::vector<int>> reads_;      // by cluster: the clusters it needs
  std::vector<std::pair<int, int>> before_;  // (reader, writer)
};

}  // namespace hologram::schedule
