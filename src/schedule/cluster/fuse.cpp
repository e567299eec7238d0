// schedule/cluster/fuse.cpp: merging clusters into fewer kernels.
//
// A producer merges into its consumer when each of the consumer's reads tells where in the
// consumer's iteration space the producer's element is computed: its axes then become the
// consumer's.
#include <algorithm>
#include <set>

#include "schedule/cluster/merge.h"

namespace hologram::schedule {
namespace {

constexpr size_t most_members = 64;
constexpr int most_cost = 1000;

}  // namespace

std::vector<ClusterAxis> axes_of(const Cluster& c, bool row) {
  std::vector<ClusterAxis> out;
  for (const ClusterAxis& a : c.axes)
    if (a.row == row) out.push_back(a);
  return out;
}

void append_members(std::vector<Member>& to, const std::vector<Member>& from, const AxisMap& map) {
  for (const Member& m : from)
    to.push_back({m.node, substitute(m.index, map), substitute(m.operand, map)});
}

bool fit_together(const Cluster& a, const Cluster& b) {
  return a.fences == b.fences && a.members.size() + b.members.size() <= most_members &&
         a.cost + b.cost <= most_cost;
}

// True if `to` needs something that needs `from`, other than directly.
bool Clustering::path_around(int from, int to) const {
  std::vector<char> seen(clusters_.size(), 0);
  std::vector<int> stack;
  for (int d : depends_[static_cast<size_t>(to)])
    if (d != from) stack.push_back(d);
  while (!stack.empty()) {
    int k = stack.back();
    stack.pop_back();
    if (k == from) return true;
    if (seen[static_cast<size_t>(k)]++) continue;
    for (int d : depends_[static_cast<size_t>(k)]) stack.push_back(d);
  }
  return false;
}

// `merged` takes the place of cluster b; a goes.
void Clustering::replace(int a, int b, Cluster merged) {
  for (const Member& m : merged.members) home_[m.node] = b;
  auto ia = static_cast<size_t>(a), ib = static_cast<size_t>(b);
  clusters_[ia].dead = true;
  clusters_[ib] = std::move(merged);
  accesses_[ia].reset();
  accesses_[ib].reset();
  std::vector<int>& mine = depends_[ib];
  mine.insert(mine.end(), depends_[ia].begin(), depends_[ia].end());
  depends_[ia].clear();
  for (std::vector<int>& list : depends_) {
    std::replace(list.begin(), list.end(), a, b);
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  std::erase(mine, b);
}

// A reduction of static parameters alone: it runs once, where its reader would run it in each call.
bool Clustering::is_kept(int k) const {
  const Cluster& c = clusters_[static_cast<size_t>(k)];
  if (c.kind != ClusterKind::loop || c.members.size() != 1) return false;
  ir::Value v = c.members[0].node;
  if (ir::info(v->op).kind != ir::OpKind::reduce || !numel(v->shape).is_const()) return false;
  bool fixed = true, reads = false;
  for_each_access(c, [&](ir::Value leaf, const Index&) {
    fixed = fixed && leaf->is(ir::Op::parameter) &&
            options_.is_static(static_cast<int>(leaf->attrs.ints[0]));
    reads = true;
  });
  return fixed && reads;
}

// Those that it reads or others read of it; what a row keeps between stages comes on top.
bool Clustering::binds_few(const Cluster& merged, int a, int b) const {
  std::set<ir::Value> bound;
  for_each_access(merged, [&](ir::Value v, const Index&) {
    if (!merged.find(v)) bound.insert(v);
  });
  const size_t most = options_.machine->most_buffers;
  if (bound.size() + merged.members.size() <= most) return true;
  for (const ir::Output& o : graph_.outputs)
    if (merged.find(o.value)) bound.insert(o.value);
  for (size_t k = 0; k < clusters_.size(); ++k)
    if (!clusters_[k].dead && k != static_cast<size_t>(a) && k != static_cast<size_t>(b))
      for_each_access(clusters_[k], [&](ir::Value v, const Index&) {
        if (merged.find(v)) bound.insert(v);
      });
  return bound.size() <= most;
}

// Whether a cluster reads a parameter that one of its results is written to: an update, which
// needs no copy as a loop of its own, and one behind what may compute an element twice or late.
bool Clustering::writes_what_it_reads(const Cluster& c) const {
  bool found = false;
  for (const ir::Output& o : graph_.outputs)
    if (!found && o.parameter >= 0 && c.find(o.value))
      for_each_access(c, [&](ir::Value v, const Index&) {
        found = found || (v->is(ir::Op::parameter) && v->attrs.ints[0] == o.parameter);
      });
  return found;
}

bool Clustering::merge(int a, int b) {
  const Cluster &x = clusters_[static_cast<size_t>(a)], &y = clusters_[static_cast<size_t>(b)];
  if (y.kind != ClusterKind::loop || is_kept(a)) return false;
  if ((x.kind == ClusterKind::product || x.has_rows()) && writes_what_it_reads(y)) return false;
  if (!fit_together(x, y)) return false;
  Cluster out;
  bool ok = x.kind == ClusterKind::loop ? merge_loops(x, y, out)
            : x.kind == ClusterKind::product
                ? merge_epilogue(x, y, out) || (x.parts == 1 && merge_parts(a, b, out))
            : x.kind == ClusterKind::attention ? merge_epilogue(x, y, out)
                                               : false;
  if (!ok || path_around(a, b) || !binds_few(out, a, b)) return false;
  replace(a, b, std::move(out));
  return true;
}

void Clustering::fuse() {
  auto alive = [&](int k) { return !clusters_[static_cast<size_t>(k)].dead; };
  bool changed = true;
  while (changed) {
    changed = false;
    for (int b = 0; b < static_cast<int>(clusters_.size()); ++b) {
      if (!alive(b)) continue;
      std::vector<int> producers = depends_[static_cast<size_t>(b)];
      for (auto it = producers.rbegin(); it != producers.rend(); ++it)
        if (alive(*it) && merge(*it, b)) changed = true;
    }
  }
  for (int b = 0; b < static_cast<int>(clusters_.size()); ++b)
    for (int a = std::max(0, b - 24); a < b && alive(b); ++a)
      if (alive(a)) merge_siblings(a, b);
  for (int b = 0; b < static_cast<int>(clusters_.size()); ++b)
    for (int a : std::vector<int>(depends_[static_cast<size_t>(b)]))
      if (alive(b) && alive(a) && merge_tail(a, b)) break;
}

}  // namespace hologram::schedule
