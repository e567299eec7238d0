// schedule/cluster/merge_loops.cpp: loops that become one.
#include <algorithm>
#include <set>

#include "schedule/cluster/merge.h"

namespace hologram::schedule {

using ir::Value;

namespace {

// Extends `map` (axes of the producer → axes of the consumer) so that the member's own index
// becomes `read`.
bool unify(const Index& own, const Index& read, AxisMap& map) {
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i].is_const()) {
      if (!(own[i] == read[i])) return false;
      continue;
    }
    const Atom* a = single_axis(own[i]);
    const Atom* to = single_axis(read[i]);
    if (!a || !to || !(*a->a == *to->a)) return false;
    auto [it, added] = map.emplace(a->id, read[i]);
    if (!added && !(it->second == read[i])) return false;
  }
  return true;
}

bool injective(const AxisMap& map) {
  for (auto i = map.begin(); i != map.end(); ++i)
    for (auto j = map.begin(); j != i; ++j)
      if (i->second == j->second) return false;
  return true;
}

// Maps the producer's row axes to `targets` in order.
bool map_rows(const std::vector<ClusterAxis>& rows, const std::vector<ClusterAxis>& targets,
              AxisMap& map) {
  if (rows.size() != targets.size()) return false;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!(rows[i].extent == targets[i].extent)) return false;
    auto [it, added] = map.emplace(rows[i].id, as_expr(targets[i]));
    if (!added && single_axis(it->second)->id != targets[i].id) return false;
  }
  return true;
}

bool same_set(const AxisMap& map, const std::vector<ClusterAxis>& from,
              const std::vector<ClusterAxis>& to) {
  if (from.size() != to.size()) return false;
  for (const ClusterAxis& a : from) {
    auto it = map.find(a.id);
    if (it == map.end()) return false;
    int id = single_axis(it->second)->id;
    if (std::none_of(to.begin(), to.end(), [&](const ClusterAxis& t) { return t.id == id; }))
      return false;
  }
  return true;
}

}  // namespace

// Whether a loop over points puts values together from parts, element by element.
bool Clustering::joins_parts(const Cluster& c) const {
  std::vector<Value> open;
  for (const Member& m : c.members) open.push_back(m.node);
  std::set<Value> seen(open.begin(), open.end());
  while (!open.empty()) {
    Value v = open.back();
    open.pop_back();
    if (v->is(ir::Op::concat)) return true;
    for (Value in : v->inputs)
      if (!root_[in->id] && seen.insert(in).second) open.push_back(in);
  }
  return false;
}

bool Clustering::merge_loops(const Cluster& a, const Cluster& b, Cluster& out) const {
  // Sums down columns read their elements one by one, which is no place to choose among parts.
  auto down = [&](const Member& m) {
    return ir::info(m.node->op).kind == ir::OpKind::reduce && reduces_columns(m.node, m);
  };
  if (!a.has_rows() && std::ranges::any_of(b.members, down) && joins_parts(a)) return false;
  AxisMap map;
  bool ok = true;
  for_each_access(b, [&](Value v, const Index& read) {
    if (const Member* m = a.find(v)) ok = ok && unify(m->index, read, map);
  });
  if (!ok || map.empty() || !injective(map)) {
    // Single elements (no axes at all) may still join one another.
    if (!ok || !map.empty() || !a.axes.empty() || !b.axes.empty()) return false;
  }
  auto pa = axes_of(a, false), ra = axes_of(a, true), pb = axes_of(b, false), rb = axes_of(b, true);
  out = b;
  out.cost = a.cost + b.cost;
  out.split = a.split || b.split;
  bool rows_read =
      std::any_of(ra.begin(), ra.end(), [&](const ClusterAxis& r) { return map.count(r.id) > 0; });
  if (ra.empty()) {
    bool all = same_set(map, pa, b.axes);
    bool points = !rb.empty() && !b.split && same_set(map, pa, pb);
    if (!all && !points) return false;
  } else if (rb.empty()) {
    std::vector<ClusterAxis> rest;
    for (const ClusterAxis& x : pb) {
      bool taken = std::any_of(pa.begin(), pa.end(), [&](const ClusterAxis& p) {
        auto it = map.find(p.id);
        return it != map.end() && single_axis(it->second)->id == x.id;
      });
      if (!taken) rest.push_back(x);
    }
    if (pb.size() - rest.size() != pa.size()) return false;
    if (rest.empty()) {
      if (rows_read) return false;
      for (const ClusterAxis& r : ra) out.axes.push_back(r);
    } else {
      if (a.split || !map_rows(ra, rest, map)) return false;
      out.axes.clear();
      for (const ClusterAxis& x : pb)
        if (std::none_of(rest.begin(), rest.end(),
                         [&](const ClusterAxis& r) { return r.id == x.id; }))
          out.axes.push_back(x);
      for (ClusterAxis r : rest) {
        r.row = true;
        out.axes.push_back(r);
      }
    }
  } else {
    if (a.split || b.split || !same_set(map, pa, pb) || !map_rows(ra, rb, map)) return false;
  }
  out.members.clear();
  append_members(out.members, a.members, map);
  append_members(out.members, b.members, {});
  return true;
}

// Two loops over equal axes that read the same large tensor at the same place.
bool Clustering::merge_siblings(int a, int b) {
  const Cluster &x = clusters_[static_cast<size_t>(a)], &y = clusters_[static_cast<size_t>(b)];
  if (x.kind != ClusterKind::loop || y.kind != ClusterKind::loop || x.axes.size() != y.axes.size())
    return false;
  if (x.axes.empty() || !fit_together(x, y) || x.split != y.split) return false;
  AxisMap map;
  for (size_t i = 0; i < x.axes.size(); ++i) {
    if (x.axes[i].row != y.axes[i].row || !(x.axes[i].extent == y.axes[i].extent)) return false;
    map.emplace(x.axes[i].id, as_expr(y.axes[i]));
  }
  std::set<Value> of_y;
  for_each_access(y, [&](Value v, const Index&) { of_y.insert(v); });
  bool shared = false;
  for_each_access(x, [&](Value v, const Index& read) {
    if (shared || !of_y.count(v)) return;
    Index there = substitute(read, map);
    for (const ClusterAxis& axis : y.axes)
      if (std::none_of(there.begin(), there.end(),
                       [&](const Expr& e) { return e.has_axis(axis.id); }))
        return;
    for_each_access(
        y, [&](Value w, const Index& other) { shared = shared || (v == w && there == other); });
  });
  if (!shared || path_around(a, b) || path_around(b, a)) return false;
  for (int d : depends_[static_cast<size_t>(a)])
    if (d == b) return false;
  for (int d : depends_[static_cast<size_t>(b)])
    if (d == a) return false;
  Cluster out = y;
  out.cost = x.cost + y.cost;
  append_members(out.members, x.members, map);
  if (!binds_few(out, a, b)) return false;
  replace(a, b, std::move(out));
  return true;
}

}  // namespace hologram::schedule
