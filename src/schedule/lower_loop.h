// schedule/lower_loop.h: element-wise and reduction clusters → loop blocks.
#pragma once

#include <string>

#include "schedule/lower.h"

namespace hologram::schedule {

std::vector<Lowered> lower_loop(const Cluster& cluster, const Clustering& clustering,
                                Storage& storage);

/// "reduce_max+exp+…" for pictures.
std::string cluster_name(const Cluster& c);

}  // namespace hologram::schedule
