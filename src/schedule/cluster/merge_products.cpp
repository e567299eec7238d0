// schedule/cluster/merge_products.cpp: what follows a product (or attention) in its kernel: its
// epilogue, one that reads several columns, and the tail behind its rows.
//
// Parts: found by the coordinates of the reads alone, for up to eight parts of at least half a
// panel. A panel is of one part, and those of the same columns lie side by side, so that a unit has
// as many of each.
//
// A tail follows the epilogue of all elements of a row and reads what that stored at the element
// alone, so no sum changes its order. What the epilogue stores for the tail alone lies where the
// tail's result goes, if the types agree. Fewer than 1,024 rows would not give every thread units,
// and operands that are not packed once would be packed by each unit anew. It saves a launch and
// what only the tail reads, not time: a layer norm's row takes as long from the third-level cache,
// since it waits for its trees, division and root.
#include <algorithm>

#include "atlas/limits.h"
#include "schedule/cluster/merge.h"

namespace hologram::schedule {

using ir::Op;
using ir::Value;

namespace {

// Of products with a tail.
constexpr int64_t least_tail_rows = 1024, least_tail_columns = 64, most_tail_columns = 4096;

// An axis that coordinates take apart: `divisor` times one axis plus another one.
struct Parts {
  int axis;
  Expr divisor;
  int quotient, remainder;
};

// Where coordinates are an axis' quotient and its remainder (the group of a channel and its place
// there; the kind of a pixel of a strided gradient and its place among them) two axes stand for it,
// which begin at `fresh`.
std::vector<Parts> take_apart(Index& coordinates, int fresh) {
  std::vector<Parts> out;
  for (bool found = true; found;) {
    found = false;
    AxisMap map;
    for (const Expr& e : coordinates)
      e.any_atom([&](const Atom& a) {
        if (found || (a.kind != Atom::Kind::floor_div && a.kind != Atom::Kind::mod)) return false;
        const Atom* of = single_axis(*a.a);
        auto quotients = of ? of->a->exact_div(*a.b) : std::nullopt;
        if (!quotients) return false;
        found = true;
        out.push_back({of->id, *a.b, fresh, fresh + 1});
        map.emplace(of->id, Expr::axis(fresh, *quotients) * *a.b + Expr::axis(fresh + 1, *a.b));
        return true;
      });
    fresh += 2;
    if (found) coordinates = substitute(coordinates, map);
  }
  return out;
}

// The other way: what the axes that were taken apart are, the last one first. False if a coordinate
// tells only a part of one.
bool put_together(const std::vector<Parts>& parts, AxisMap& solved) {
  for (auto p = parts.rbegin(); p != parts.rend(); ++p) {
    auto quotient = solved.find(p->quotient), remainder = solved.find(p->remainder);
    if (quotient == solved.end() || remainder == solved.end()) return false;
    Expr whole = quotient->second * p->divisor + remainder->second;
    solved.erase(quotient);
    solved.erase(p->remainder);
    solved.emplace(p->axis, std::move(whole));
  }
  return true;
}

// The axes of a read as expressions over those of the product's result.
std::optional<AxisMap> solve(const Index& read, const Member& m) {
  const auto found = invert(read, m.index, Shape(m.node->shape.begin(), m.node->shape.end()));
  if (!found) return std::nullopt;
  return AxisMap(found->begin(), found->end());
}

// The consumer's axes as expressions over the product's, by what it reads of it (`solved`); nothing
// if two reads disagree, or an axis stands in none.
template <class Solved>
std::optional<AxisMap> axes_by_reads(const Clustering& clustering, const Cluster& product,
                                     const Cluster& consumer, const Solved& solved) {
  AxisMap map;
  bool ok = true;
  clustering.for_each_access(consumer, [&](Value v, const Index& read) {
    const Member* m = product.find(v);
    if (!m || !ok) return;
    const std::optional<AxisMap> axes = solved(*m, read);
    ok = axes.has_value();
    if (!ok) return;
    for (const auto& [id, e] : *axes) {
      auto [it, added] = map.emplace(id, e);
      ok = ok && (added || it->second == e);
    }
  });
  if (!ok || map.size() != consumer.axes.size()) return std::nullopt;
  return map;
}

}  // namespace

bool Clustering::merge_epilogue(const Cluster& a, const Cluster& b, Cluster& out) const {
  if (b.has_rows()) return false;
  const auto map =
      axes_by_reads(*this, a, b, [&](const Member& m, Index read) -> std::optional<AxisMap> {
        const std::vector<Parts> apart = take_apart(read, next_axis_);
        std::optional<AxisMap> solved = solve(read, m);
        if (!solved || m.node->is(Op::attention_lse) || !put_together(apart, *solved)) return {};
        return solved;
      });
  if (!map) return false;
  out = a;
  out.cost = a.cost + b.cost;
  append_members(out.members, b.members, *map);
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
  append_members(out.members, b.members, map);
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
  auto rows = axes_of(b, true);
  if (!fit_together(a, b) || rows.size() != 1 || !may_have_tail(a)) return false;
  const auto map =
      axes_by_reads(*this, a, b, [](const Member& m, const Index& read) { return solve(read, m); });
  const ClusterAxis& n = a.axes[a.axes.size() - 2];
  if (!map || !(rows[0].extent == n.extent)) return false;
  for (const auto& [id, e] : *map) {
    if ((id == rows[0].id) ? !(e == as_expr(n)) : e.has_axis(n.id)) return false;
  }
  if (path_around(producer, consumer)) return false;
  bool ok = true;
  for_each_access(b, [&](Value v, const Index& read) {
    const Member* m = a.find(v);
    const Shape strides = m ? contiguous_strides(v->shape) : Shape();
    ok = ok && (!m || offset_of(substitute(read, *map), strides) == offset_of(m->index, strides));
  });
  if (!ok) return false;  // the same elements by other words, which nothing could tell from others
  Cluster out = a;
  out.cost = a.cost + b.cost;
  append_members(out.tail, b.members, *map);
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

}  // namespace hologram::schedule
