// schedule/cluster/layouts.cpp: how intermediates lie in memory.
#include "schedule/cluster/layouts.h"

#include <algorithm>

#include "schedule/cluster/index.h"
#include "schedule/lower/lower.h"
#include "schedule/windows/direct_convolution.h"
#include "schedule/windows/window.h"

namespace hologram::schedule {

using ir::Op;
using ir::Value;

namespace {

// Whether neighbours along the axis are neighbours of e too, but for some: e is linear in it, or
// its remainder.
bool densest_along(const Expr& e, int axis) {
  if (auto part = e.linear_in_axis(axis)) return part->first.is(1);
  const Atom* a = e.as_atom();
  const Atom* of = a && a->kind == Atom::Kind::mod ? single_axis(*a->a) : nullptr;
  return of && of->id == axis;
}

// Whether a short last axis of v behind `axis` may stay innermost: lines along `axis` are stored
// interleaved.
bool stays_interleaved(Value v, int axis) {
  constexpr int64_t longest = 4;
  const Expr& last = v->shape.back();
  return axis == v->rank() - 2 && last.is_const() && last.constant_value() > 1 &&
         last.constant_value() <= longest && size_of(v->dtype) > 1;
}

}  // namespace

Layouts::Layouts(const ir::Graph& graph, const Clustering& clustering, const Options& options)
    : graph_(graph), clustering_(clustering), options_(options) {
  for (const ir::Node& n : graph_.nodes())
    if (n.is(Op::host_call)) promised_.insert(n.inputs.begin(), n.inputs.end());
  prefer_for_products();
  for (const ir::Node& n : graph_.nodes())
    if (is_short_sum(&n, options_) && !clustering_.is_root(&n)) prefer_for_sum(&n);
}

// A depthwise convolution that a loop sums reads its image and its weights along the channels.
void Layouts::prefer_for_sum(Value dot) {
  const int channel = dot->rank() - 3;
  for (Value v : dot->inputs) {
    Index at;
    for (const Expr& d : v->shape) at.push_back(Expr::axis(static_cast<int>(at.size()), d));
    for (; !clustering_.is_root(v) && ir::is_movement(v->op); v = v->input())
      at = input_index(v, 0, at);
    if (!clustering_.is_root(v)) continue;
    for (size_t i = 0; i < at.size(); ++i)
      if (at[i].has_axis(channel)) prefer(v, {static_cast<int>(i)});
  }
}

// Lays an intermediate out so that the axes `densest`, the densest one first, lie innermost.
void Layouts::prefer(Value v, const std::vector<int>& densest) {
  if (v->rank() < 3 || densest.empty() || promised_.count(v)) return;
  std::vector<int> order;
  for (int i = 0; i < v->rank(); ++i)
    if (!std::count(densest.begin(), densest.end(), i)) order.push_back(i);
  order.insert(order.end(), densest.rbegin(), densest.rend());
  if (!std::is_sorted(order.begin(), order.end())) memory_order_.emplace(v, std::move(order));
}

// What a sum for each tap reads as a factor, and its results, lie along the channels.
void Layouts::prefer_channels(const Cluster& c) {
  Value v = c.anchor->input(0);
  Index at;
  for (const Expr& d : v->shape) at.push_back(Expr::axis(static_cast<int>(at.size()), d));
  for (; !clustering_.is_root(v) && !v->inputs.empty(); v = v->input()) at = input_index(v, 0, at);
  auto densest = [](const Index& index, int column, int group) {
    std::vector<int> out;
    for (int id : {column, group})
      for (size_t i = 0; i < index.size(); ++i)
        if (index[i].has_axis(id) && !std::count(out.begin(), out.end(), static_cast<int>(i)))
          out.push_back(static_cast<int>(i));
    return out;
  };
  if (!v->is(Op::parameter)) prefer(v, densest(at, 2, 0));
  const int column = c.axes[c.axes.size() - 3].id, group = c.axes[0].id;
  for (const Member& m : c.members) prefer(m.node, densest(m.index, column, group));
}

// Windows that are laid out as a matrix are copied in runs where the image lies along its columns.
void Layouts::prefer_window_lines(Value matrix) {
  if (!clustering_.is_root(matrix) || !ir::is_movement(matrix->op)) return;
  Index at;
  for (const Expr& d : matrix->shape) at.push_back(Expr::axis(static_cast<int>(at.size()), d));
  std::vector<int64_t> symbols(static_cast<size_t>(graph_.num_symbols), 64), here(at.size(), 0),
      next = here;
  next.back() = 1;
  bool windows = false;
  Value v = matrix;
  for (; v == matrix || !clustering_.is_root(v); v = v->input()) {
    if (v->is(Op::concat) || !ir::is_movement(v->op)) return;
    windows = windows || v->is(Op::window);
    at = input_index(v, 0, at);
  }
  if (!windows) return;
  for (size_t i = 0; i < at.size(); ++i)
    if (at[i].eval(symbols, here) != at[i].eval(symbols, next)) prefer(v, {static_cast<int>(i)});
  copied_images_.insert(v);
}

// Products decide how intermediates of three and more dimensions lie in memory: what they write has
// their columns densest, what they read lies along k as far as it can (a convolution's channels,
// the heads of attention).
void Layouts::prefer_for_products() {
  for (const Cluster& c : clustering_.clusters()) {
    if (c.kind != ClusterKind::product) continue;
    if (is_weight_gradient(c.anchor, options_)) {
      prefer_channels(c);
      continue;
    }
    prefer_window_lines(c.anchor->input(1));
    ProductLayout layout = product_layout(c, graph_.num_symbols);
    if (Value image = direct_image(c, clustering_, graph_, options_)) {
      direct_.insert(&c);
      int line = line_axis_of(c, image, graph_.num_symbols);
      if (line >= 0) prefer(image, {line});
    }
    if (!layout.read->is(Op::parameter)) prefer(layout.read, layout.read_axes);
    for (const std::vector<Member>* members : {&c.members, &c.tail})
      for (const Member& m : *members)
        for (size_t i = 0; i < m.index.size(); ++i)
          if (densest_along(m.index[i], layout.written_axis)) prefer(m.node, {static_cast<int>(i)});
  }
}

// What a loop computes lies as what it reads does: where that runs along another axis than the last
// one in all of the loop's reads (an image with its channels last), so do its results.
void Layouts::follow(const std::vector<int>& order) {
  std::set<Value> for_products = copied_images_;  // which lie as these read them
  for (const Cluster& c : clustering_.clusters())
    if (c.kind != ClusterKind::loop)
      clustering_.for_each_access(c, [&](Value v, const Index&) { for_products.insert(v); });
  for (int k : order) {
    const Cluster& c = clustering_.clusters()[static_cast<size_t>(k)];
    if (c.kind != ClusterKind::loop) continue;
    std::set<int> along;
    clustering_.for_each_access(c, [&](Value v, const Index& index) {
      if (c.find(v) || v->rank() < 2) return;
      Expr place = offset_of(index, v->is(Op::parameter) ? v->attrs.exprs : strides_of(v));
      // Numbers along one axis alone (a factor for each channel) are few.
      auto varies = [&](const ClusterAxis& a) { return place.has_axis(a.id); };
      if (c.axes.size() > 1 && std::count_if(c.axes.begin(), c.axes.end(), varies) < 2) return;
      int found = -1;
      for (const ClusterAxis& a : c.axes)
        if (auto step = place.linear_in_axis(a.id); step && step->first.is(1)) found = a.id;
      along.insert(found);
    });
    if (along.size() != 1 || *along.begin() < 0) continue;
    for (const Member& m : c.members)
      for (size_t i = 0; i < m.index.size(); ++i)
        if (const Atom* a = single_axis(m.index[i]);
            a && a->id == *along.begin() && !for_products.count(m.node) &&
            !stays_interleaved(m.node, static_cast<int>(i)))
          prefer(m.node, {static_cast<int>(i)});
  }
}

Shape Layouts::strides_of(Value v) const {
  auto it = memory_order_.find(v);
  if (it == memory_order_.end()) return contiguous_strides(v->shape);
  Shape sizes, strides(v->shape.size());
  for (int i : it->second) sizes.push_back(v->shape[static_cast<size_t>(i)]);
  Shape dense = contiguous_strides(sizes);
  for (size_t i = 0; i < dense.size(); ++i) strides[static_cast<size_t>(it->second[i])] = dense[i];
  return strides;
}

}  // namespace hologram::schedule
