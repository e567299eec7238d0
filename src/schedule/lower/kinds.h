// schedule/lower/kinds.h: one lowering for each kind of cluster.
#pragma once

#include "schedule/lower/context.h"
#include "schedule/windows/fused_depthwise.h"

namespace hologram::schedule {

using Kernels = std::vector<Lowered>;

Kernels lower_loop(const Context& cx);
Kernels lower_product(const Context& cx);
/// A chain of multiply-adds for each element, in the order of a product's sums.
Kernels lower_product_as_loop(const Context& cx);
/// A sum along each row of a large matrix, by Machine::sums_rows.
Kernels lower_product_as_sums(const Context& cx);
bool is_sum_of_rows(const Context& cx);
Kernels lower_attention(const Context& cx);
Kernels lower_attention_grad(const Context& cx);
Kernels lower_scatter(const Context& cx);
Kernels lower_scan(const Context& cx);
Kernels lower_sort(const Context& cx);

/// Products that are loops rather than products, see windows/.
Kernels lower_depthwise(const Context& cx);
Kernels lower_weight_gradient(const Context& cx);
Kernels lower_direct_convolution(const Context& cx);
/// The cluster is the depthwise convolution's.
Kernels lower_fused_depthwise(const Context& cx, const FusedDepthwise& fused);

}  // namespace hologram::schedule
