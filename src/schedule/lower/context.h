// schedule/lower/context.h: what the lowering of a cluster works with, whatever its kind.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schedule/lower/lower.h"

namespace hologram::schedule {

/// The parameters an expression is computed from, or nullopt when one of them is not static, a
/// buffer is read, or calls choose its sizes: then what is computed from it is not kept.
std::optional<std::vector<int>> static_sources(const Clustering& clustering, const Options& options,
                                               ir::Value v);

/// "reduce_max+exp+…" for pictures.
std::string cluster_name(const Cluster& c);

/// Makes `v` the last value of an operand's body.
void end_with(atlas::Body& body, atlas::Val v);

/// The kernel as it is handed on; takes what `k` holds.
Lowered finish(ProgramBuilder& k, std::string name);

/// `v` where the guard holds, which may be empty, else 0.
atlas::Val or_zero(Emitter& e, atlas::Val guard, atlas::Val v);

struct Context {
  const Cluster& cluster;
  const Clustering& clustering;
  const Options& options;
  Storage& storage;

  /// An emitter that reads other clusters' roots, and this one's anchor, from memory.
  Emitter emitter(ProgramBuilder& k, atlas::Body& body, Emitter::Local local = {}) const;

  /// Indices over the cluster's axes in terms of axes numbered by their place in `order`.
  Index placed(const Index& index, const std::vector<ClusterAxis>& order) const;

  /// The members of a product's or attention's cluster, computed from the accumulated element and
  /// stored; those in `kept` in that slot too.
  void epilogue(ProgramBuilder& k, atlas::Body& body, DType acc_type,
                const std::vector<ClusterAxis>& order,
                const std::map<ir::Value, int>& kept = {}) const;

  /// Stores every member that has a slot, with the cluster's axes at `place`.
  void store_results(Emitter& e, const AxisMap& place) const;

  /// A kernel that calls `fill` for the point at each element of `shape`.
  using PointBody = std::function<void(Emitter&, const Index&)>;
  Lowered map_loop(std::string name, const Shape& shape, const PointBody& fill) const;

  /// A copy of v in another layout, at `from(coordinates)` of which each element is found: made
  /// once if v depends on static parameters alone. Returns its slot; the kernel goes to `out`.
  int lay_out(ir::Value v, const Shape& shape, const std::function<Index(const Index&)>& from,
              std::vector<Lowered>& out) const;
};

}  // namespace hologram::schedule
