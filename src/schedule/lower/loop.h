// schedule/lower/loop.h: loop blocks of clusters.
#pragma once

#include "schedule/lower/lower.h"

namespace hologram::schedule {

/// A product's tail, a cluster over the product's axes of rows and columns, as the loop of k's
/// program; `storage` says where it reads what the epilogue stores.
void lower_tail_loop(const Cluster& tail, const Clustering& clustering, Storage& storage,
                     const Machine& machine, ProgramBuilder& k);

}  // namespace hologram::schedule
