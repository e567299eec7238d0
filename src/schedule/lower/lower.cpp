// schedule/lower/lower.cpp: clusters → Atlas programs.
#include "schedule/windows/window.h"
#include "schedule/lower/context.h"

namespace hologram::schedule {

std::string cluster_name(const Cluster& c) {
  std::string name;
  for (const std::vector<Member>* members : {&c.members, &c.tail})
    for (const Member& m : *members) {
      if (name.size() > 40) return name + "+…";
      name += (name.empty() ? "" : "+") + std::string(ir::name_of(m.node->op));
    }
  return name;
}

std::vector<Lowered> lower(const Cluster& cluster, const Clustering& clustering,
                           const Options& options, Storage& storage, const Expansion* expansion,
                           bool stem) {
  Lowering l(cluster, clustering, options, storage);
  if (expansion) return l.expanded(*expansion);
  if (stem) return l.stem();
  switch (cluster.kind) {
    case ClusterKind::loop:
      return lower_loop(cluster, clustering, storage);
    case ClusterKind::product:
      if (sums_taps(cluster.anchor, options)) return l.tap_sums();
      return is_depthwise(cluster) || has_narrow_groups(cluster, options) ? l.depthwise()
                                                                          : l.product();
    case ClusterKind::attention:
      return l.attention();
    case ClusterKind::attention_grad:
      return l.attention_grad();
    case ClusterKind::scatter:
      return l.scatter();
    case ClusterKind::scan:
      return l.scan();
    case ClusterKind::sort:
      return l.sort();
    case ClusterKind::host:
      break;
  }
  fail(ErrorCode::internal, "schedule: a host call has no program");
}

}  // namespace hologram::schedule
