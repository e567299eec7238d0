// schedule/order.cpp: the order in which clusters run.
#include "schedule/order.h"

#include <algorithm>
#include <set>

#include "schedule/overlap.h"

namespace hologram::schedule {

ClusterOrder::ClusterOrder(const Clustering& clustering) : clustering_(clustering) {
  for (const Cluster& c : clustering.clusters()) {
    std::set<int> reads;
    clustering.for_each_access(c, [&](ir::Value v, const Index&) {
      int k = clustering.cluster_of(v);
      if (k >= 0 && &clustering.clusters()[static_cast<size_t>(k)] != &c) reads.insert(k);
    });
    reads_.emplace_back(reads.begin(), reads.end());
  }
}

bool ClusterOrder::depends(int cluster, int on) const {
  std::vector<int> stack{cluster};
  std::set<int> seen;
  while (!stack.empty()) {
    int k = stack.back();
    stack.pop_back();
    if (k == on) return true;
    if (!seen.insert(k).second) continue;
    const auto& next = reads_[static_cast<size_t>(k)];
    stack.insert(stack.end(), next.begin(), next.end());
    for (auto [reader, writer] : before_)
      if (writer == k) stack.push_back(reader);
  }
  return false;
}

// What no other cluster reads (a weight's gradient, its update) runs as soon as it can: results of
// the graph have their memory anyway, and what is read for the last time gives its own back. Not
// before a call of the host: where that fails (a check of values), arguments stay as they are.
void ClusterOrder::hasten_last(std::vector<int>& order) const {
  const size_t n = reads_.size();
  std::vector<char> read(n, 0);
  for (const std::vector<int>& list : reads_)
    for (int k : list) read[static_cast<size_t>(k)] = 1;
  std::vector<std::vector<int>> before(n);
  for (auto [reader, writer] : before_) before[static_cast<size_t>(writer)].push_back(reader);
  std::vector<size_t> at(n);  // by cluster: the place of the one that it follows, or its own
  size_t behind_host = 0;     // the place behind the last call of the host
  for (size_t place = 0; place < n; ++place) {
    const auto k = static_cast<size_t>(order[place]);
    at[k] = place;
    if (is_host(order[place])) behind_host = place + 1;
    if (read[k] || is_host(order[place])) continue;
    size_t last = behind_host;
    for (const std::vector<int>* list : {&reads_[k], &std::as_const(before[k])})
      for (int d : *list) last = std::max(last, at[static_cast<size_t>(d)] + 1);
    if (last > 0) at[k] = last - 1;
  }
  std::ranges::stable_sort(order, {}, [&](int k) { return at[static_cast<size_t>(k)]; });
}

bool ClusterOrder::is_host(int k) const {
  return clustering_.clusters()[static_cast<size_t>(k)].kind == ClusterKind::host;
}

// Loops over a few numbers, of a few numbers.
bool ClusterOrder::is_tiny(int k) const {
  constexpr int64_t few = 16;
  const Cluster& c = clustering_.clusters()[static_cast<size_t>(k)];
  auto small = [](const ir::Value& v) {
    const Expr n = numel(v->shape);
    return n.is_const() && n.constant_value() <= few;
  };
  bool all = c.kind == ClusterKind::loop;
  for (const Member& m : c.members) all = all && small(m.node);
  if (all)
    clustering_.for_each_access(c, [&](ir::Value v, const Index&) { all = all && small(v); });
  return all;
}

// Tiny loops that need only such loops first: the steps of optimizers (counts, corrections of bias)
// then stand together, and so do the updates of the parameters, which may run at the same time.
// None of them runs before a call of the host, as above.
std::vector<int> ClusterOrder::tiny_first(const std::vector<int>& order) const {
  std::vector<int> first, rest;
  std::vector<char> among(reads_.size(), 0);
  bool behind_host = false;
  for (int k : order) {
    behind_host = behind_host || is_host(k);
    auto known = [&](int on) { return among[static_cast<size_t>(on)] != 0; };
    const bool ready = !behind_host && std::ranges::all_of(reads_[static_cast<size_t>(k)], known) &&
                       std::ranges::all_of(before_, [&](const std::pair<int, int>& b) {
                         return b.second != k || known(b.first);
                       });
    among[static_cast<size_t>(k)] = ready && is_tiny(k);
    (among[static_cast<size_t>(k)] ? first : rest).push_back(k);
  }
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

std::vector<int> ClusterOrder::list() const {
  std::vector<int> out;
  const size_t n = reads_.size();
  std::vector<char> done(n, 0);
  std::function<void(int)> visit = [&](int k) {
    if (done[static_cast<size_t>(k)]) return;
    done[static_cast<size_t>(k)] = 1;
    for (int d : reads_[static_cast<size_t>(k)]) visit(d);
    for (auto [reader, writer] : before_)
      if (writer == k) visit(reader);
    out.push_back(k);
  };
  for (size_t k = 0; k < n; ++k) visit(static_cast<int>(k));
  hasten_last(out);
  out = tiny_first(out);
  std::vector<Timing> timing(n, Timing::any);
  for (size_t k = 0; k < n; ++k)
    if (clustering_.clusters()[k].kind == ClusterKind::host)
      timing[k] = static_cast<Timing>(clustering_.clusters()[k].anchor->attrs.ints[1]);
  if (std::ranges::count(timing, Timing::any) == static_cast<int64_t>(n)) return out;
  std::vector<std::vector<int>> needs = reads_;
  for (auto [reader, writer] : before_) needs[static_cast<size_t>(writer)].push_back(reader);
  return overlapped(out, std::move(needs), timing);
}

}  // namespace hologram::schedule
