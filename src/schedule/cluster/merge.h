// schedule/cluster/merge.h: what the ways to merge clusters share.
#pragma once

#include "schedule/cluster/cluster.h"

namespace hologram::schedule {

/// The coordinate along an axis.
inline Expr as_expr(const ClusterAxis& a) { return Expr::axis(a.id, a.extent); }

/// The row axes, or the others.
std::vector<ClusterAxis> axes_of(const Cluster& c, bool row);

/// Adds the members of `from`, whose axes become what `map` says.
void append_members(std::vector<Member>& to, const std::vector<Member>& from, const AxisMap& map);

/// Whether one kernel of both is not too long and no fence is between them.
bool fit_together(const Cluster& a, const Cluster& b);

}  // namespace hologram::schedule
