// schedule/lower/loop.h: element-wise and reduction clusters → loop blocks.
#pragma once

#include <string>

#include "schedule/lower/lower.h"

namespace hologram::schedule {

std::vector<Lowered> lower_loop(const Cluster& cluster, const Clustering& clustering,
                                Storage& storage);

/// A product's tail, a cluster over the product's axes of rows and columns, as the loop of k's
/// program; `storage` says where it reads what the epilogue stores.
void lower_tail(const Cluster& tail, const Clustering& clustering, Storage& storage, Kernel& k);

/// "reduce_max+exp+…" for pictures.
std::string cluster_name(const Cluster& c);

}  // namespace hologram::schedule
