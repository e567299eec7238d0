// schedule/cluster/fuse.cpp: merging clusters into fewer kernels.
//
// A producer merges into its consumer when each of the consumer's reads tells where in the
// consumer's iteration space the producer's element is computed: its axes then become the
// consumer's.
#include <algorithm>

#include "atlas/limits.h"
#include "schedule/cluster/cluster.h"

namespace hologram::schedule {
namespace {

using ir::Op;
using ir::Value;

constexpr int max_members = 64;
// Of products with a tail.
constexpr int64_t least_tail_rows = 1024, least_tail_columns = 64, most_tail_columns = 4096;

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

Expr as_expr(const ClusterAxis& a) { return Expr::axis(a.id, a.extent); }

std::vector<ClusterAxis> axes_of(const Cluster& c, bool row) {
  std::vector<ClusterAxis> out;
  for (const ClusterAxis& a : c.axes)
    if (a.row == row) out.push_back(a);
  return out;
}

void append_members(Cluster& out, const Cluster& from, const AxisMap& map) {
  for (const Member& m : from.members)
    out.members.push_back({m.node, substitute(m.index, map), substitute(m.operand, map)});
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

bool Clustering::merge_loops(const Cluster& a, const Cluster& b, Cluster& out) const {
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
  append_members(out, a, map);
  append_members(out, b, {});
  return true;
}

// Two coordinates that are an axis' quotient and remainder by the second one's extent (a group of
// channels, and the channel in it) become the axis.
static void join_parts(Index& coordinates, Index& values, Shape& extents) {
  for (size_t i = 0; i < coordinates.size(); ++i) {
    const Atom* quotient = coordinates[i].as_atom();
    if (!quotient || quotient->kind != Atom::Kind::floor_div || !single_axis(*quotient->a))
      continue;
    for (size_t j = 0; j < coordinates.size(); ++j) {
      if (!(extents[j] == *quotient->b) || !(coordinates[j] == mod(*quotient->a, extents[j])))
        continue;
      coordinates[i] = Expr(*quotient->a);
      values[i] = values[i] * extents[j] + values[j];
      extents[i] = extents[i] * extents[j];
      coordinates[j] = values[j] = Expr(0);
      extents[j] = Expr(1);
      break;
    }
  }
}

bool Clustering::merge_epilogue(const Cluster& a, const Cluster& b, Cluster& out) const {
  if (b.has_rows()) return false;
  AxisMap map;  // axes of the consumer → expressions over the product's axes
  bool ok = true;
  for_each_access(b, [&](Value v, const Index& read) {
    const Member* m = a.find(v);
    if (!m || !ok) return;
    Shape extents;
    for (const Expr& d : m->node->shape) extents.push_back(d);
    Index coordinates = read, values = m->index;
    join_parts(coordinates, values, extents);
    auto solved = invert(coordinates, values, extents);
    if (!solved || m->node->is(Op::attention_lse)) {
      ok = false;
      return;
    }
    for (auto& [id, e] : *solved) {
      auto [it, added] = map.emplace(id, e);
      if (!added && !(it->second == e)) ok = false;
    }
  });
  if (!ok || map.size() != b.axes.size()) return false;
  out = a;
  out.cost = a.cost + b.cost;
  append_members(out, b, map);
  return true;
}

// What a product's right operand is computed from: static parameters alone, narrower numbers.
Clustering::Source Clustering::source_of(Value rhs) const {
  Source out{.once = true, .narrow = false};
  auto visit = [&](Value leaf, const Index&) {
    out.narrow = out.narrow || size_of(leaf->dtype) < size_of(rhs->dtype);
    out.once = out.once && leaf->is(Op::parameter) &&
               options_.is_static(static_cast<int>(leaf->attrs.ints[0]));
  };
  Index any;
  for (const Expr& d : rhs->shape) any.push_back(Expr::axis(static_cast<int>(any.size()), d));
  if (rhs->is(Op::parameter) || root_[rhs->id])
    visit(rhs, any);
  else
    walk(rhs, any, visit, [](Value) { return false; });
  return out;
}

// Whether only `consumer` reads what the product makes, whose right operand makes panels.
bool Clustering::may_have_parts(const Cluster& c, int consumer) const {
  if (c.kind != ClusterKind::product || c.parts > 1 || c.anchor->shape.back().is(1)) return false;
  for (const Member& m : c.members) {
    bool promised = std::any_of(graph_.outputs.begin(), graph_.outputs.end(),
                                [&](const ir::Output& o) { return o.value == m.node; });
    if (promised) return false;
    for (size_t k = 0; k < clusters_.size(); ++k) {
      if (static_cast<int>(k) == consumer || clusters_[k].dead || &clusters_[k] == &c) continue;
      bool reads = false;
      for_each_access(clusters_[k], [&](Value v, const Index&) { reads = reads || v == m.node; });
      if (reads) return false;
    }
  }
  auto [once, narrow] = source_of(c.anchor->input(1));
  // Few rows read a matrix where it lies, and weights of few bits as they are, along all columns.
  const Expr& rows = c.anchor->shape[c.anchor->shape.size() - 2];
  return !narrow &&
         (once || !rows.is_const() || rows.constant_value() > options_.machine->in_place_rows);
}

// A consumer that reads a product at the same column of each of several equal parts (the gates of a
// unit, the two halves of a gated activation), and is all that reads it.
bool Clustering::merge_parts(int producer, int consumer, Cluster& out) {
  const Cluster &a = clusters_[static_cast<size_t>(producer)],
                &b = clusters_[static_cast<size_t>(consumer)];
  if (b.has_rows() || !options_.machine->parts || is_loop_of_product(a, options_)) return false;
  AxisMap map;
  std::optional<ClusterAxis> column;
  int64_t parts = 0;
  bool ok = true;
  const ClusterAxis& n = a.axes[a.axes.size() - 2];
  for_each_access(b, [&](Value v, const Index& read) {
    const Member* m = a.find(v);
    if (!m || !ok) return;
    ok = false;
    const Atom* own = m->index.empty() ? nullptr : single_axis(m->index.back());
    if (!own || own->id != n.id || !n.extent.is_const()) return;
    Index coordinates = read, values = m->index;
    Shape extents(m->node->shape.begin(), m->node->shape.end());
    for (const ClusterAxis& axis : b.axes) {
      auto at = read.back().linear_in_axis(axis.id);
      if (!at || !at->first.is(1) || !at->second.is_const() || !axis.extent.is_const()) continue;
      int64_t size = axis.extent.constant_value(), columns = n.extent.constant_value();
      if (columns % size || at->second.constant_value() % size) return;
      if (!column) column = new_axis(axis.extent, false);
      if (!(column->extent == axis.extent)) return;
      parts = columns / size;
      coordinates.back() = as_expr(axis);
    }
    if (!column) return;
    values.back() = as_expr(*column);
    extents.back() = column->extent;
    auto solved = invert(coordinates, values, extents);
    if (!solved) return;
    ok = true;
    for (auto& [id, e] : *solved) {
      auto [it, added] = map.emplace(id, e);
      if (!added && !(it->second == e)) ok = false;
    }
  });
  if (!ok || !column || map.size() != b.axes.size() || parts < 2 ||
      parts > atlas::limits::product_parts)
    return false;
  // Panels are of one part: a part should fill half of one.
  if (2 * column->extent.constant_value() <
      options_.machine->panel_width(a.anchor->input(0)->dtype))
    return false;
  if (!may_have_parts(a, consumer)) return false;
  out = a;
  out.cost = a.cost + b.cost;
  out.parts = static_cast<int>(parts);
  out.column = *column;
  append_members(out, b, map);
  return true;
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

bool Clustering::merge(int a, int b) {
  const Cluster &x = clusters_[static_cast<size_t>(a)], &y = clusters_[static_cast<size_t>(b)];
  if (y.kind != ClusterKind::loop) return false;
  if (x.members.size() + y.members.size() > max_members || x.cost + y.cost > 400) return false;
  Cluster out;
  bool ok = x.kind == ClusterKind::loop ? merge_loops(x, y, out)
            : x.kind == ClusterKind::product
                ? merge_epilogue(x, y, out) || (x.parts == 1 && merge_parts(a, b, out))
            : x.kind == ClusterKind::attention ? merge_epilogue(x, y, out)
                                               : false;
  if (!ok || path_around(a, b)) return false;
  replace(a, b, std::move(out));
  return true;
}

// Two loops over equal axes that read the same large tensor at the same place.
bool Clustering::merge_siblings(int a, int b) {
  const Cluster &x = clusters_[static_cast<size_t>(a)], &y = clusters_[static_cast<size_t>(b)];
  if (x.kind != ClusterKind::loop || y.kind != ClusterKind::loop || x.axes.size() != y.axes.size())
    return false;
  if (x.axes.empty() || x.members.size() + y.members.size() > max_members || x.cost + y.cost > 400)
    return false;
  if (x.split != y.split) return false;
  AxisMap map;
  for (size_t i = 0; i < x.axes.size(); ++i) {
    if (x.axes[i].row != y.axes[i].row || !(x.axes[i].extent == y.axes[i].extent)) return false;
    map.emplace(x.axes[i].id, as_expr(y.axes[i]));
  }
  bool shared = false;
  for_each_access(x, [&](Value v, const Index& read) {
    if (shared) return;
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
  append_members(out, x, map);
  replace(a, b, std::move(out));
  return true;
}

// Products of known sizes by weights that are packed once: a unit has all columns then, and reads
// all panels.
bool Clustering::may_have_tail(const Cluster& c) const {
  Value dot = c.anchor, lhs = dot->input(0), rhs = dot->input(1);
  if (c.parts > 1 || !c.tail.empty() || dot->rank() != 2 || c.axes.size() != 3) return false;
  for (const ClusterAxis& a : c.axes)
    if (!a.extent.is_const()) return false;
  int64_t rows = c.axes[0].extent.constant_value(), columns = c.axes[1].extent.constant_value();
  if (rows < least_tail_rows || columns < least_tail_columns || columns > most_tail_columns)
    return false;
  if (!is_float(dot->dtype) || options_.machine->panel_width(lhs->dtype) == 0) return false;
  for (Value v = lhs; ir::info(v->op).kind == ir::OpKind::movement && !root_[v->id]; v = v->input())
    if (v->is(Op::window) || v->is(Op::concat)) return false;
  auto [once, narrow] = source_of(rhs);
  if (!once || narrow) return false;
  atlas::ProductBlock about;
  for (const ClusterAxis& a : c.axes)
    about.axes.push_back({a.row ? atlas::AxisKind::row : atlas::AxisKind::parallel, a.extent});
  about.operand_type = lhs->dtype;
  about.acc_type = compute_type(lhs->dtype);
  about.precision = static_cast<int>(dot->attrs.ints[0]);
  about.reproducible = options_.reproducible;
  return options_.machine->terms(about, true) == 0;
}

// A loop with a row axis that is the product's columns, over its rows (a layer norm), of which it
// reads its own row only.
bool Clustering::merge_tail(int producer, int consumer) {
  const Cluster &a = clusters_[static_cast<size_t>(producer)],
                &b = clusters_[static_cast<size_t>(consumer)];
  if (!options_.machine->tails || a.kind != ClusterKind::product || b.kind != ClusterKind::loop ||
      b.split)
    return false;
  if (a.members.size() + b.members.size() > max_members || a.cost + b.cost > 400) return false;
  auto rows = axes_of(b, true);
  if (rows.size() != 1 || !may_have_tail(a)) return false;
  AxisMap map;  // axes of the consumer → expressions over the product's axes
  bool ok = true;
  for_each_access(b, [&](Value v, const Index& read) {
    const Member* m = a.find(v);
    if (!m || !ok) return;
    Shape extents(m->node->shape.begin(), m->node->shape.end());
    auto solved = invert(read, m->index, extents);
    ok = solved.has_value();
    if (!ok) return;
    for (auto& [id, e] : *solved) {
      auto [it, added] = map.emplace(id, e);
      if (!added && !(it->second == e)) ok = false;
    }
  });
  const ClusterAxis& n = a.axes[a.axes.size() - 2];
  if (!ok || map.size() != b.axes.size() || !(rows[0].extent == n.extent)) return false;
  for (const auto& [id, e] : map) {
    if ((id == rows[0].id) ? !(e == as_expr(n)) : e.has_axis(n.id)) return false;
  }
  if (path_around(producer, consumer)) return false;
  Cluster out = a;
  out.cost = a.cost + b.cost;
  for (const Member& m : b.members)
    out.tail.push_back({m.node, substitute(m.index, map), substitute(m.operand, map)});
  // Lanes run along the columns: what others gave a layout has to lie so.
  auto along = [&](const Index& index, const Shape& strides, const ClusterAxis& axis) {
    auto part = offset_of(index, strides).linear_in_axis(axis.id);
    return part && (part->first.is(0) || part->first.is(1));
  };
  for (const ir::Output& o : graph_.outputs)
    if (const Member* m = out.find(o.value); m && o.parameter < 0 && !along(m->index, o.strides, n))
      return false;
  for_each_access(b, [&](Value v, const Index& read) {
    if (v->is(Op::parameter)) ok = ok && along(read, v->attrs.exprs, rows[0]);
  });
  if (!ok) return false;
  for (const Member& m : out.tail) home_[m.node] = consumer;
  replace(producer, consumer, std::move(out));
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
