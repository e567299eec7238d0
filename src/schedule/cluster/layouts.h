// schedule/cluster/layouts.h: how intermediates lie in memory.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "schedule/cluster/cluster.h"

namespace hologram::schedule {

/// The layouts of intermediates of three and more dimensions: products have them as they read and
/// write fastest, loops follow what they read.
class Layouts {
 public:
  /// Asks the products. What is referred to must live on.
  Layouts(const ir::Graph& graph, const Clustering& clustering, const Options& options);

  /// Lets loops follow; `order`: the clusters, in the order in which they run.
  void follow(const std::vector<int>& order);

  /// In elements.
  Shape strides_of(ir::Value v) const;
  /// Whether a product is a first layer of a network, which runs as a loop
  /// (windows/direct_convolution.h).
  bool is_direct_convolution(const Cluster& c) const { return direct_.count(&c) > 0; }

 private:
  void prefer(ir::Value v, const std::vector<int>& densest);
  void prefer_channels(const Cluster& c);
  void prefer_window_lines(ir::Value matrix);
  void prefer_for_products();
  void prefer_for_sum(ir::Value dot);

  const ir::Graph& graph_;
  const Clustering& clustering_;
  const Options& options_;
  std::set<ir::Value> promised_;  // the host expects them as tracing promised
  /// Axes from the outermost in, of those that do not lie row by row.
  std::map<ir::Value, std::vector<int>> memory_order_;
  std::set<const Cluster*> direct_;    // direct convolutions
  std::set<ir::Value> copied_images_;  // windows of which are laid out as a matrix
};

}  // namespace hologram::schedule
