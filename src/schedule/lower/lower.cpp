// schedule/lower/lower.cpp: clusters → Atlas programs.
#include <algorithm>

#include "schedule/lower/kinds.h"
#include "schedule/windows/window.h"

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

namespace {

Kernels lower_any_product(const Context& cx) {
  if (is_loop_of_product(cx.cluster, cx.options)) return lower_product_as_loop(cx);
  if (is_weight_gradient(cx.cluster.anchor, cx.options)) return lower_weight_gradient(cx);
  bool along_channels =
      is_depthwise(cx.cluster, cx.options) || has_narrow_groups(cx.cluster, cx.options);
  if (along_channels) return lower_depthwise(cx);
  return is_sum_of_rows(cx) ? lower_product_as_sums(cx) : lower_product(cx);
}

Kernels lower_nothing(const Context&) {
  fail(ErrorCode::internal, "schedule: a host call has no program");
}

struct Row {
  ClusterKind kind;
  Kernels (*lower)(const Context&);
};
constexpr Row table[] = {
    {ClusterKind::loop, lower_loop},           {ClusterKind::product, lower_any_product},
    {ClusterKind::attention, lower_attention}, {ClusterKind::attention_grad, lower_attention_grad},
    {ClusterKind::scatter, lower_scatter},     {ClusterKind::scan, lower_scan},
    {ClusterKind::sort, lower_sort},           {ClusterKind::host, lower_nothing}};

}  // namespace

Kernels lower(const Cluster& cluster, const Clustering& clustering, const Options& options,
              Storage& storage, const FusedDepthwise* fused, bool direct) {
  Context cx{cluster, clustering, options, storage};
  if (fused) return lower_fused_depthwise(cx, *fused);
  if (direct) return lower_direct_convolution(cx);
  return std::ranges::find(table, cluster.kind, &Row::kind)->lower(cx);
}

}  // namespace hologram::schedule
