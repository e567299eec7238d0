// schedule/cluster/cluster.h: which operations share a kernel.
#pragma once

#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "schedule/cluster/index.h"
#include "schedule/plan.h"

namespace hologram::schedule {

/// An iteration axis; ids are unique over all clusters.
struct ClusterAxis {
  int id;
  Expr extent;
  bool row = false;  ///< reduced over (or run along) by the cluster's reductions
};

/// A node that a cluster computes.
struct Member {
  ir::Value node;
  Index index;    ///< its coordinates in terms of the cluster's axes
  Index operand;  ///< reductions and scans: the operand's coordinates
};

enum class ClusterKind : uint8_t {
  loop,
  product,
  attention,
  attention_grad,
  scatter,
  scan,
  sort,
  host
};

/// One future kernel (or host call). Loop: parallel axes, then row axes. Product: batch…, m, n,
/// then k. Attention: batch…, query, value depth, then key, depth; its log-sum-exp is a member too.
/// Gradients of attention, scatter, scan and sort: see lower/kinds.h.
struct Cluster {
  ClusterKind kind = ClusterKind::loop;
  std::vector<ClusterAxis> axes;
  std::vector<Member> members;
  ir::Value anchor = nullptr;  ///< the product, attention, scatter, scan, sort or host call
  bool split = false;          ///< long reduction with few parallel points: blocks become parallel
  bool dead = false;
  /// Products, above 1: so many equal parts of the columns that the epilogue reads together; its
  /// members run along `column` in place of n.
  int parts = 1;
  ClusterAxis column = {};
  /// Products: members of a loop whose points are the product's rows and whose row axis is n; it
  /// reads other members at the element that the epilogue has stored.
  std::vector<Member> tail = {};
  int fences = 0;  ///< on the way to its results, at the most: kernels are on one side of each
  int cost = 0;    ///< of the bodies in vector instructions, roughly, to bound their growth

  bool has_rows() const;
  const Member* find(ir::Value node) const;
};

/// The nodes that get a buffer or a place in a kernel of their own; everything else is computed
/// where it is read.
class Clustering {
 public:
  Clustering(const ir::Graph& graph, const Options& options);

  /// In an order in which producers come before consumers.
  const std::vector<Cluster>& clusters() const { return clusters_; }
  bool is_root(ir::Value v) const { return root_[v->id]; }
  /// The cluster that computes a root, or -1 (parameters).
  int cluster_of(ir::Value v) const;

  /// Every read of a root (or parameter) from the expressions of a cluster. Those of `clusters()`
  /// are found once.
  using AccessFn = std::function<void(ir::Value, const Index&)>;
  void for_each_access(const Cluster& c, const AccessFn& visit) const;
  /// At which of the places where a node is read it is followed: at all, or at the first alone.
  enum class Places { all, one };
  /// The same below one node; `inside` nodes are walked through although they are roots.
  void walk(ir::Value node, const Index& index, const AccessFn& visit,
            const std::function<bool(ir::Value)>& inside, Places places = Places::all) const;

 private:
  struct Access {
    ir::Value value;
    Index index;
  };
  void find_accesses(const Cluster& c, const AccessFn& visit) const;
  void make_clusters(const std::vector<int>& cost);
  std::vector<int> count_fences() const;
  bool join_attention(ir::Value v);
  bool reduces_columns(ir::Value v, const Member& m) const;
  bool joins_parts(const Cluster& c) const;
  void fuse();
  bool is_kept(int cluster) const;
  bool writes_what_it_reads(const Cluster& c) const;
  bool merge(int producer, int consumer);
  bool merge_loops(const Cluster& a, const Cluster& b, Cluster& out) const;
  bool merge_epilogue(const Cluster& a, const Cluster& b, Cluster& out) const;
  bool merge_parts(int producer, int consumer, Cluster& out);
  bool may_have_parts(const Cluster& product, int consumer) const;
  bool merge_tail(int producer, int consumer);
  bool may_have_tail(const Cluster& product) const;
  struct Source {
    bool once, narrow;
  };
  Source source_of(ir::Value rhs) const;
  bool merge_siblings(int a, int b);
  bool path_around(int from, int to) const;
  bool binds_few(const Cluster& merged, int a, int b) const;
  std::vector<int> dependencies(const Cluster& c) const;
  void replace(int a, int b, Cluster merged);
  void sort();
  ClusterAxis new_axis(const Expr& extent, bool row) { return {next_axis_++, extent, row}; }
  Index axes_index(Cluster& c, const Shape& shape, bool row);

  const ir::Graph& graph_;
  const Options& options_;
  std::vector<ir::Value> live_;
  std::vector<char> root_;
  std::vector<Cluster> clusters_;
  mutable std::vector<std::optional<std::vector<Access>>> accesses_;  // by cluster, once asked for
  std::vector<std::vector<int>> depends_;                             // by cluster
  std::unordered_map<ir::Value, int> home_;
  int next_axis_ = 0;
};

/// Whether a product runs as a plain loop because its machine takes only those of known sizes.
bool is_loop_of_product(const Cluster& c, const Options& options);

/// Number of batch axes of a product's or attention's cluster.
int batch_rank(const Cluster& c);

/// Splits the coordinates of a take's result or a scatter's updates [c…, a…, i…, b…]: `before` is
/// [c…, a…], `indices` are those of the index operand, [c…, i…].
struct TakeParts {
  Index before, indices, after;
};
TakeParts split_take(ir::Value node, const Index& index);

}  // namespace hologram::schedule
