// schedule/in_place.cpp: results that are written over parameters.
#include "schedule/in_place.h"

#include <algorithm>

namespace hologram::schedule {

using ir::Op;
using ir::Value;

namespace {

// Whether the cluster that computes m reads `parameter` only at the element it is about to write.
bool reads_only_in_place(const Clustering& clustering, const Cluster& c, Value parameter,
                         const Member& m) {
  if (c.kind == ClusterKind::scatter) {
    Value written = c.anchor->input(0);
    bool elsewhere = false;
    for (size_t i = 1; i < 3; ++i) {
      Value in = c.anchor->input(i);
      auto visit = [&](Value v, const Index&) { elsewhere |= v == parameter || v == written; };
      Index any;
      for (const Expr& d : in->shape) any.push_back(Expr::value(static_cast<int>(any.size()), d));
      if (in == parameter || in == written) return false;
      if (!in->is(Op::constant) && !in->is(Op::iota) && !clustering.is_root(in))
        clustering.walk(in, any, visit, [](Value) { return false; });
    }
    return !elsewhere;
  }
  if (c.kind != ClusterKind::loop && c.kind != ClusterKind::product) return false;
  bool ok = !c.split;
  // A product may compute an element twice (its last tile reaches back), so it must not read what
  // it writes.
  clustering.for_each_access(c, [&](Value v, const Index& at) {
    if (v == parameter) ok = ok && c.kind == ClusterKind::loop && !c.has_rows() && at == m.index;
  });
  return ok;
}

}  // namespace

bool write_in_place(const ir::Output& o, const ir::Graph& graph, const Clustering& clustering,
                    const std::vector<Slot>& slots, ClusterOrder& order, Stores& stores) {
  Value v = o.value;
  if (v->is(Op::parameter) || v->is(Op::host_result) || stores.of.count(v)) return false;
  int writer = clustering.cluster_of(v);
  const Cluster& c = clustering.clusters()[static_cast<size_t>(writer)];
  const Slot& target = slots[static_cast<size_t>(stores.input.at(o.parameter))];
  if (target.dtype != v->dtype || !(target.shape == v->shape) || c.kind == ClusterKind::host)
    return false;
  Value parameter = nullptr;
  for (const ir::Node& n : graph.nodes())
    if (n.is(Op::parameter) && n.attrs.ints[0] == o.parameter) parameter = &n;
  if (!reads_only_in_place(clustering, c, parameter, *c.find(v))) return false;
  std::vector<Value> chain{v};  // scatters that build on one another, the last first
  std::vector<int> writers{writer};
  while (c.kind == ClusterKind::scatter && chain.back()->input(0) != parameter) {
    Value before = chain.back()->input(0);
    int k =
        before->is(Op::scatter) && !stores.of.count(before) ? clustering.cluster_of(before) : -1;
    if (k < 0) return false;
    const Cluster& b = clustering.clusters()[static_cast<size_t>(k)];
    if (b.kind != ClusterKind::scatter ||
        !reads_only_in_place(clustering, b, parameter, *b.find(before)))
      return false;
    if (std::any_of(graph.outputs.begin(), graph.outputs.end(),
                    [&](const auto& other) { return other.value == before; }))
      return false;
    chain.push_back(before);
    writers.push_back(k);
  }
  std::vector<std::pair<int, int>> added;
  for (size_t k = 0; k < clustering.clusters().size(); ++k) {
    int reader = static_cast<int>(k);
    auto own = std::find(writers.begin(), writers.end(), reader);
    bool reads = false, reads_chain = false;
    clustering.for_each_access(clustering.clusters()[k], [&](Value leaf, const Index&) {
      reads |= leaf == parameter;
      for (size_t i = 1; i < chain.size(); ++i)
        reads_chain |= leaf == chain[i] &&
                       (own == writers.end() ||
                        chain[static_cast<size_t>(own - writers.begin())]->input(0) != leaf);
    });
    if (reads_chain) return false;  // what an earlier scatter left would be overwritten
    if (!reads || own != writers.end()) continue;
    if (order.depends(reader, writers.back())) return false;
    added.emplace_back(reader, writers.back());
  }
  for (auto [reader, before] : added) order.put_before(reader, before);
  for (Value s : chain) {
    stores.of[s].push_back(stores.input.at(o.parameter));
    if (c.kind == ClusterKind::scatter) stores.in_place_scatters.insert(s);
  }
  return true;
}

}  // namespace hologram::schedule
