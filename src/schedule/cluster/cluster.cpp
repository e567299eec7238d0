// schedule/cluster/cluster.cpp: one cluster per root, and what each cluster reads.
#include "schedule/cluster/cluster.h"

#include <algorithm>
#include <set>

#include "atlas/order.h"
#include "schedule/cluster/roots.h"
#include "schedule/cluster/views.h"

namespace hologram::schedule {

using ir::Op;
using ir::OpKind;
using ir::Value;

bool Cluster::has_rows() const {
  return std::any_of(axes.begin(), axes.end(), [](const ClusterAxis& a) { return a.row; });
}

const Member* Cluster::find(Value node) const {
  for (const std::vector<Member>* list : {&members, &tail})
    for (const Member& m : *list)
      if (m.node == node) return &m;
  return nullptr;
}

TakeParts split_take(Value node, const Index& index) {
  ptrdiff_t axis = node->attrs.ints[0], batch = node->attrs.ints.back();
  ptrdiff_t own = node->input(1)->rank() - batch;
  TakeParts out{Index(index.begin(), index.begin() + axis),
                Index(index.begin(), index.begin() + batch),
                Index(index.begin() + axis + own, index.end())};
  out.indices.insert(out.indices.end(), index.begin() + axis, index.begin() + axis + own);
  return out;
}

bool is_loop_of_product(const Cluster& c, const Options& options) {
  return c.kind == ClusterKind::product && !options.machine->symbolic_products &&
         std::any_of(c.axes.begin(), c.axes.end(),
                     [](const ClusterAxis& a) { return !a.extent.is_const(); });
}

int batch_rank(const Cluster& c) {
  return c.anchor->is(Op::attention_lse) ? c.anchor->rank() - 1 : c.anchor->rank() - 2;
}

namespace {

struct Visited {
  Value node;
  Index index;
};

struct VisitedHash {
  size_t operator()(const Visited& v) const {
    size_t h = v.node->hash;
    for (const Expr& e : v.index) h = h * 31 + e.hash();
    return h;
  }
};

struct VisitedEqual {
  bool operator()(const Visited& a, const Visited& b) const {
    return a.node == b.node && a.index == b.index;
  }
};

}  // namespace

void Clustering::walk(Value start, const Index& start_index, const AccessFn& visit,
                      const std::function<bool(Value)>& inside, Places places) const {
  std::unordered_map<Visited, char, VisitedHash, VisitedEqual> seen;
  int fresh = 0;
  std::function<void(Value, const Index&, bool)> go = [&](Value n, const Index& index, bool first) {
    if (!first) {
      if (n->is(Op::constant) || n->is(Op::iota)) return;
      if (!seen.emplace(Visited{n, places == Places::all ? index : Index{}}, 0).second) return;
      if (n->is(Op::parameter) || (root_[n->id] && !inside(n))) return visit(n, index);
      if (root_[n->id]) visit(n, index);
    }
    OpKind kind = ir::info(n->op).kind;
    if (n->is(Op::take)) {
      Value operand = n->input(0), indices = n->input(1);
      TakeParts p = split_take(n, index);
      go(indices, p.indices, false);
      Index at = p.before;
      at.push_back(Expr::value(fresh++, operand->shape[p.before.size()]));
      at.insert(at.end(), p.after.begin(), p.after.end());
      go(operand, at, false);
    } else if (ir::is_elementwise(n->op) || kind == OpKind::movement) {
      for (size_t i = 0; i < n->inputs.size(); ++i)
        go(n->input(i), input_index(n, i, index), false);
    } else if (kind == OpKind::dot && !root_[n->id]) {
      for (int64_t k = 0; k < n->input(0)->shape.back().constant_value(); ++k) {
        auto [left, right] = factors_of(n, index, k);
        go(n->input(0), left, false);
        go(n->input(1), right, false);
      }
    }
  };
  go(start, start_index, true);
}

void Clustering::for_each_access(const Cluster& c, const AccessFn& visit) const {
  const Cluster *first = clusters_.data(), *end = first + clusters_.size();
  const std::less<> before;
  if (before(&c, first) || !before(&c, end)) return find_accesses(c, visit);
  auto& known = accesses_[static_cast<size_t>(&c - first)];
  if (!known) {
    std::vector<Access> found;
    find_accesses(c, [&](Value v, const Index& index) { found.push_back({v, index}); });
    known = std::move(found);
  }
  for (const Access& a : *known) visit(a.value, a.index);
}

void Clustering::find_accesses(const Cluster& c, const AccessFn& visit) const {
  using Inside = std::function<bool(Value)>;
  Inside inside = [&](Value v) { return v != c.anchor && c.find(v) != nullptr; };
  auto none = [](Value) { return false; };
  auto root_or_below = [&](Value v, const Index& index, const Inside& in) {
    if (v->is(Op::constant) || v->is(Op::iota)) return;
    if (v->is(Op::parameter) || root_[v->id]) {
      visit(v, index);
      if (!v->is(Op::parameter) && in(v) && !c.find(v)->operand.empty()) return;
      if (v->is(Op::parameter) || !in(v)) return;
    }
    walk(v, index, visit, in);
  };
  auto axis = [&](size_t i) { return Expr::axis(c.axes[i].id, c.axes[i].extent); };
  auto all = [&](const std::vector<Member>& members, const Inside& in) {
    for (const Member& m : members) {
      OpKind kind = ir::info(m.node->op).kind;
      if (kind == OpKind::reduce || kind == OpKind::reduce_index || kind == OpKind::scan)
        root_or_below(m.node->input(), m.operand, in);
      else if (m.node != c.anchor)
        walk(m.node, m.index, visit, in);
    }
  };
  all(c.members, inside);
  all(c.tail, [&](Value v) {
    return std::any_of(c.tail.begin(), c.tail.end(), [&](const Member& m) { return m.node == v; });
  });
  if (!c.anchor || c.kind == ClusterKind::scan) return;
  Value a = c.anchor;
  if (c.kind == ClusterKind::product) {
    auto b = static_cast<size_t>(batch_rank(c));
    Index l, r;
    for (size_t i = 0; i < b; ++i) l.push_back(c.members[0].index[i]);
    r = l;
    l.insert(l.end(), {axis(c.axes.size() - 3), axis(c.axes.size() - 1)});
    r.insert(r.end(), {axis(c.axes.size() - 1), axis(c.axes.size() - 2)});
    root_or_below(a->input(0), l, inside);
    root_or_below(a->input(1), r, inside);
    return;
  }
  // Attention, scatter, host calls: only which roots they read matters.
  for (Value in : a->inputs) {
    Index any(in->shape.size());
    for (size_t i = 0; i < any.size(); ++i) any[i] = Expr::axis(static_cast<int>(i), in->shape[i]);
    if (in->is(Op::parameter) || root_[in->id])
      visit(in, any);
    else
      walk(in, any, visit, none);
  }
}

int Clustering::cluster_of(Value v) const {
  auto it = home_.find(v);
  return it == home_.end() ? -1 : it->second;
}

std::vector<int> Clustering::dependencies(const Cluster& c) const {
  std::set<int> out;
  for_each_access(c, [&](Value v, const Index&) {
    int k = cluster_of(v);
    if (k >= 0 && &clusters_[static_cast<size_t>(k)] != &c) out.insert(k);
  });
  return {out.begin(), out.end()};
}

// New axes for the dimensions of `shape` (none for dimensions of 1) and the coordinates made of
// them.
Index Clustering::axes_index(Cluster& c, const Shape& shape, bool row) {
  Index out;
  for (const Expr& d : shape) {
    if (d.is(1)) {
      out.push_back(Expr(0));
      continue;
    }
    c.axes.push_back(new_axis(d, row));
    out.push_back(Expr::axis(c.axes.back().id, d));
  }
  return out;
}

namespace {

bool is_small(const Expr& e, int64_t limit) { return e.is_const() && e.constant_value() <= limit; }

// A sum over very many elements per result with few results: its blocks should run in parallel.
// Results whose elements lie side by side share vectors, so more of them are few.
bool should_split(Value v, const Shape& parallel, const Shape& row, bool columns,
                  const Machine& machine) {
  if (v->is(Op::reduce_argmax) || v->is(Op::reduce_argmin)) return false;
  const int64_t few = columns ? int64_t{16} * machine.units * machine.vector : 12 * machine.units;
  const int64_t blocks = columns ? 2 : 4;
  return is_small(numel(parallel), few) && !is_small(numel(row), blocks * atlas::sum_block - 1);
}

}  // namespace

// Whether what reduction v reads lies along its results rather than along what it sums: by its last
// axis, or channels last by the strides of parameters and the products below it.
bool Clustering::reduces_columns(Value v, const Member& m) const {
  const auto& axes = v->attrs.ints;
  auto last = static_cast<int64_t>(v->input()->shape.size()) - 1;
  if (std::find(axes.begin(), axes.end(), last) == axes.end()) return true;
  int columns = 0, rows = 0;
  auto result_axis = [&](const Expr& e) {
    return std::any_of(m.index.begin(), m.index.end(), [&](const Expr& i) {
      const Atom* a = single_axis(i);
      auto part = a ? e.linear_in_axis(a->id) : std::nullopt;
      return part && part->first.is(1);
    });
  };
  const Expr all = numel(v->input()->shape);
  auto visit = [&](Value leaf, const Index& index) {
    const Expr some = numel(leaf->shape);
    if (some.is_const() && all.is_const() && 16 * some.constant_value() < all.constant_value())
      return;                       // weights, which many elements share
    if (leaf->is(Op::dot_general))  // of one column a group: the groups lie densest
      ++(result_axis(index[index.size() > 2 && leaf->shape.back().is(1) ? index.size() - 3
                                                                        : index.size() - 1])
             ? columns
             : rows);
    else if (leaf->is(Op::parameter) && leaf->rank() > 2)
      ++(result_axis(offset_of(index, leaf->attrs.exprs)) ? columns : rows);
  };
  auto inside = [](Value x) { return ir::is_elementwise(x->op) || ir::is_movement(x->op); };
  Value x = v->input();
  if (x->is(Op::parameter) || (root_[x->id] && !inside(x)))
    visit(x, m.operand);
  else
    // Taps of taps of images are too many to count, and all lie alike.
    walk(x, m.operand, visit, inside, Places::one);
  return columns > rows;
}

namespace {

// Whether so many heads are few for so many units: one kernel's five products by head, against
// seven products by blocks in two.
bool gains_by_two(int64_t heads, int64_t units) {
  if (units <= 2) return heads < 4 * units;
  const int64_t rounds = (heads + units - 1) / units;
  return heads < 4 * units && 5 * rounds * units > 7 * heads;
}

// Nodes of one attention (its result and log-sum-exp, or its gradients) that one kernel computes.
// Of few heads, the queries' gradient is a kernel of its own: one shares out queries, the other
// keys.
bool one_attention(Value a, Value b, const Machine& machine) {
  if (a == b || ir::info(a->op).kind != ir::info(b->op).kind || a->inputs != b->inputs)
    return false;
  if (a->attrs.bits != b->attrs.bits) return false;
  if (ir::info(a->op).kind == OpKind::attention) return a->attrs.ints == b->attrs.ints;
  if (!std::equal(a->attrs.ints.begin() + 1, a->attrs.ints.end(), b->attrs.ints.begin() + 1))
    return false;
  const Shape& keys = a->input(1)->shape;
  Expr heads = numel(Shape(keys.begin(), keys.end() - 2));
  bool few = heads.is_const() && gains_by_two(heads.constant_value(), machine.units);
  return !few || (a->attrs.ints[0] != 0 && b->attrs.ints[0] != 0);
}

}  // namespace

// Joins v to a cluster that computes another result of the same attention.
bool Clustering::join_attention(Value v) {
  for (size_t k = 0; k < clusters_.size(); ++k) {
    Cluster& c = clusters_[k];
    if (!c.anchor || !one_attention(c.anchor, v, *options_.machine)) continue;
    Member m{v, {}, {}};
    if (c.kind == ClusterKind::attention) {
      // The first axes are the result's; the log-sum-exp lacks the last of them.
      for (size_t i = 0; i < v->shape.size(); ++i)
        m.index.push_back(Expr::axis(c.axes[i].id, c.axes[i].extent));
      if (v->is(Op::attention)) c.anchor = v;
    }
    c.members.push_back(std::move(m));
    home_[v] = static_cast<int>(k);
    return true;
  }
  return false;
}

// By node: how many fences there are on the way to it.
std::vector<int> Clustering::count_fences() const {
  std::vector<int> out(graph_.nodes().size(), 0);
  for (Value v : live_) {
    for (Value in : v->inputs) out[v->id] = std::max(out[v->id], out[in->id]);
    if (is_fence(v)) ++out[v->id];
  }
  return out;
}

void Clustering::make_clusters(const std::vector<int>& cost) {
  const std::vector<int> fences = count_fences();
  for (Value v : live_) {
    if (!root_[v->id] || v->is(Op::parameter) || v->is(Op::host_result)) continue;
    Cluster c;
    Member m{v, {}, {}};
    OpKind kind = ir::info(v->op).kind;
    if ((kind == OpKind::attention || kind == OpKind::attention_grad) && join_attention(v))
      continue;
    if (kind == OpKind::reduce || kind == OpKind::reduce_index) {
      Value x = v->input();
      Shape parallel, row;
      std::vector<char> reduced(x->shape.size(), 0);
      for (int64_t a : v->attrs.ints) reduced[static_cast<size_t>(a)] = 1;
      for (size_t i = 0; i < x->shape.size(); ++i)
        (reduced[i] ? row : parallel).push_back(x->shape[i]);
      m.index = axes_index(c, parallel, false);
      Index r = axes_index(c, row, true);
      size_t p = 0, q = 0;
      for (size_t i = 0; i < x->shape.size(); ++i)
        m.operand.push_back(reduced[i] ? r[q++] : m.index[p++]);
      c.split = should_split(v, parallel, row, reduces_columns(v, m), *options_.machine);
      if (r.empty() || std::none_of(c.axes.begin(), c.axes.end(), [](auto& a) { return a.row; }))
        c.axes.push_back(new_axis(Expr(1), true));
    } else if (kind == OpKind::dot) {
      c.kind = ClusterKind::product;
      c.anchor = v;
      for (size_t i = 0; i < v->shape.size(); ++i) {
        bool matrix = i + 2 >= v->shape.size();
        if (v->shape[i].is(1) && !matrix) {
          m.index.push_back(Expr(0));
          continue;
        }
        c.axes.push_back(new_axis(v->shape[i], false));
        m.index.push_back(Expr::axis(c.axes.back().id, v->shape[i]));
      }
      c.axes.push_back(new_axis(v->input(0)->shape.back(), true));
    } else if (kind == OpKind::attention) {
      c.kind = ClusterKind::attention;
      c.anchor = v;
      Shape out = v->input(0)->shape;
      out.back() = v->input(2)->shape.back();
      for (const Expr& d : out) {
        c.axes.push_back(new_axis(d, false));
        if (m.index.size() < v->shape.size()) m.index.push_back(Expr::axis(c.axes.back().id, d));
      }
      c.axes.push_back(new_axis(v->input(1)->shape[v->input(1)->shape.size() - 2], true));
      c.axes.push_back(new_axis(v->input(0)->shape.back(), true));
    } else if (kind == OpKind::attention_grad) {
      c.kind = ClusterKind::attention_grad;
      c.anchor = v;
    } else if (kind == OpKind::scan) {
      c.kind = ClusterKind::scan;
      c.anchor = v;
      auto axis = static_cast<size_t>(v->attrs.ints[0]);
      for (size_t i = 0; i < v->shape.size(); ++i) {
        ClusterAxis a = new_axis(v->shape[i], i == axis);
        m.index.push_back(Expr::axis(a.id, a.extent));
        c.axes.push_back(a);
      }
      std::stable_partition(c.axes.begin(), c.axes.end(),
                            [](const ClusterAxis& a) { return !a.row; });
      m.operand = m.index;
    } else if (kind == OpKind::scatter) {
      c.kind = ClusterKind::scatter;
      c.anchor = v;
    } else if (kind == OpKind::sort) {
      c.kind = ClusterKind::sort;
      c.anchor = v;
    } else if (kind == OpKind::external) {
      c.kind = ClusterKind::host;
      c.anchor = v;
    } else {
      m.index = axes_index(c, v->shape, false);
    }
    c.members.push_back(std::move(m));
    c.cost = cost[v->id];
    c.fences = fences[v->id];
    home_[v] = static_cast<int>(clusters_.size());
    clusters_.push_back(std::move(c));
  }
  for (Value v : live_)
    if (v->is(Op::host_result)) home_[v] = home_.at(v->input());
  accesses_.resize(clusters_.size());
  for (const Cluster& c : clusters_) depends_.push_back(dependencies(c));
}

Clustering::Clustering(const ir::Graph& graph, const Options& options)
    : graph_(graph), options_(options), live_(ir::live_nodes(graph)) {
  RootChoice choice = choose_roots(graph, options, live_);
  root_ = std::move(choice.root);
  make_clusters(choice.cost);
  fuse();
  sort();
}

// Drops dead clusters and orders the rest so that producers come first; among ready ones the
// earliest node goes first.
void Clustering::sort() {
  std::vector<int> order;
  std::vector<char> done(clusters_.size(), 0);
  std::function<void(int)> visit = [&](int k) {
    auto i = static_cast<size_t>(k);
    if (done[i]) return;
    done[i] = 1;
    for (int d : depends_[i]) visit(d);
    order.push_back(k);
  };
  for (size_t i = 0; i < clusters_.size(); ++i)
    if (!clusters_[i].dead) visit(static_cast<int>(i));
  std::vector<int> place(clusters_.size(), -1);
  std::vector<Cluster> sorted;
  for (int k : order) {
    place[static_cast<size_t>(k)] = static_cast<int>(sorted.size());
    sorted.push_back(std::move(clusters_[static_cast<size_t>(k)]));
  }
  for (auto& [node, k] : home_) k = place[static_cast<size_t>(k)];
  clusters_ = std::move(sorted);
  accesses_.assign(clusters_.size(), std::nullopt);
  depends_.clear();
  for (const Cluster& c : clusters_) depends_.push_back(dependencies(c));
}

}  // namespace hologram::schedule
