// schedule/plan.cpp: clusters → steps, slots and shared programs.
#include "schedule/plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "atlas/empty.h"
#include "schedule/check.h"
#include "schedule/cluster/layouts.h"
#include "schedule/cluster/views.h"
#include "schedule/groups.h"
#include "schedule/in_place.h"
#include "schedule/lower/lower.h"
#include "schedule/memory.h"
#include "schedule/order.h"
#include "schedule/windows/direct_convolution.h"
#include "schedule/windows/fused_depthwise.h"
#include "schedule/windows/window.h"

namespace hologram::schedule {
namespace {

using ir::Op;
using ir::Value;

Expr span_bytes(DType dtype, const Shape& shape, const Shape& strides) {
  Expr n(1);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].is(0)) return Expr(0);
    n += (shape[i] - Expr(1)) * strides[i];
  }
  return n * Expr(size_of(dtype));
}

// What a cluster computes: its roots, and down to the next ones what is computed where it is read.
std::vector<uint32_t> computed_by(const Cluster& c, const Clustering& clustering, Value inlined) {
  std::vector<Value> open;
  if (c.anchor) open.push_back(c.anchor);
  if (inlined) open.push_back(inlined);
  for (const auto* members : {&c.members, &c.tail})
    for (const Member& m : *members) open.push_back(m.node);
  std::set<Value> seen(open.begin(), open.end());
  std::vector<uint32_t> out;
  while (!open.empty()) {
    Value v = open.back();
    open.pop_back();
    const bool view = ir::info(v->op).kind == ir::OpKind::movement;
    if (!view || v->is(Op::concat) || v->is(Op::pad)) out.push_back(v->id);
    for (Value x : v->inputs)
      if (ir::info(x->op).kind != ir::OpKind::leaf && !clustering.is_root(x) &&
          seen.insert(x).second)
        open.push_back(x);
  }
  std::ranges::sort(out);
  return out;
}

class Planner {
 public:
  Planner(const ir::Graph& graph, const Options& options)
      : graph_(graph),
        options_(options),
        clustering_(graph, options),
        layouts_(graph, clustering_, options),
        order_(clustering_) {}

  Plan run();

 private:
  using Copies = std::vector<std::pair<int, int>>;  // (from slot, to slot)

  void make_input_slots();
  void place_outputs();
  void fuse_depthwise();
  void place_intermediates();
  int output_with(Value v) const;
  int read_slot(Value v) const;
  int new_slot(Slot s);
  int slot_for(Value v, SlotKind kind, int index, const Shape& strides);
  void emit(const Cluster& c);
  void emit_host(const Cluster& c);
  void emit_kernel(Lowered k, const std::vector<uint32_t>& nodes = {});
  void keep_if_static(const Cluster& c, std::vector<Lowered>& kernels, Storage& storage);
  void emit_copies(const Copies& copies);
  void link_steps();

  const ir::Graph& graph_;
  const Options& options_;
  Clustering clustering_;
  Layouts layouts_;
  ClusterOrder order_;
  Stores stores_;
  Plan plan_;
  std::map<const Cluster*, FusedDepthwise> fused_;  // by the depthwise convolution's cluster
  std::set<Value> inlined_;                         // images that these compute for themselves
  std::set<Value> read_by_host_;
  std::map<int, int> memory_of_;                    // slots that lie in the memory of other ones
  Copies early_copies_;                             // of parameters, before anything is written
  Copies copies_;                                   // after everything else
  std::map<Fingerprint, int> program_number_;
};

int Planner::new_slot(Slot s) {
  plan_.slots.push_back(std::move(s));
  return static_cast<int>(plan_.slots.size()) - 1;
}

int Planner::slot_for(Value v, SlotKind kind, int index, const Shape& strides) {
  Slot s{kind, v->dtype, v->shape, strides};
  s.index = index;
  s.bytes = v->dtype == DType::host ? Expr(0) : span_bytes(v->dtype, v->shape, strides);
  s.name = std::string(ir::name_of(v->op));
  return new_slot(std::move(s));
}

void Planner::make_input_slots() {
  for (const ir::Node& n : graph_.nodes()) {
    if (!n.is(Op::parameter)) continue;
    int index = static_cast<int>(n.attrs.ints[0]);
    stores_.input.emplace(index, slot_for(&n, SlotKind::input, index, n.attrs.exprs));
  }
}

// Whether a host result lies as these strides say.
bool stored_as(Value v, const Shape& strides) {
  for (size_t i = 0; i < v->shape.size(); ++i)
    if (!v->shape[i].is(1) && v->attrs.exprs[i] != strides[i]) return false;
  return true;
}

void Planner::place_outputs() {
  int number = 0;
  plan_.outputs.resize(graph_.outputs.size());
  for (const ir::Output& o : graph_.outputs) {
    PlanOutput& out = plan_.outputs[static_cast<size_t>(number++)];
    if (o.parameter < 0) continue;
    out.mutation = true;
    out.slot = stores_.input.at(o.parameter);
    if (o.value->is(Op::parameter)) {
      int source = static_cast<int>(o.value->attrs.ints[0]), from = stores_.input.at(source);
      if (from == out.slot) continue;
      bool written =
          std::any_of(graph_.outputs.begin(), graph_.outputs.end(),
                      [&](const ir::Output& other) { return other.parameter == source; });
      if (written) {
        int kept = slot_for(o.value, SlotKind::arena, -1, contiguous_strides(o.value->shape));
        early_copies_.emplace_back(from, kept);
        from = kept;
      }
      copies_.emplace_back(from, out.slot);
    } else if (!write_in_place(o, graph_, clustering_, plan_.slots, order_, stores_)) {
      copies_.emplace_back(-1 - (number - 1), out.slot);  // resolved once the value has its slot
    }
  }
  number = 0;
  for (const ir::Output& o : graph_.outputs) {
    int index = number++;
    PlanOutput& out = plan_.outputs[static_cast<size_t>(index)];
    if (o.parameter >= 0) continue;
    if (o.value->is(Op::parameter)) {  // a new tensor all the same
      out.slot = slot_for(o.value, SlotKind::output, index, o.strides);
      early_copies_.emplace_back(stores_.input.at(static_cast<int>(o.value->attrs.ints[0])),
                                 out.slot);
    } else if (o.value->is(Op::host_result)) {
      auto& s = stores_.of[o.value];
      const bool first = s.empty();
      if (first) s.push_back(slot_for(o.value, SlotKind::host, -1, o.value->attrs.exprs));
      if (o.value->dtype == DType::host || (first && stored_as(o.value, o.strides))) {
        out.slot = s[0];
      } else {  // each output is a tensor of its own
        out.slot = slot_for(o.value, SlotKind::output, index, o.strides);
        copies_.emplace_back(s[0], out.slot);
      }
    } else {
      out.slot = slot_for(o.value, SlotKind::output, index, o.strides);
      if (stores_.in_place_scatters.count(o.value))
        copies_.emplace_back(stores_.of.at(o.value)[0], out.slot);
      else
        stores_.of[o.value].push_back(out.slot);
    }
  }
}

// Finds depthwise convolutions that compute their image themselves.
void Planner::fuse_depthwise() {
  std::optional<Uses> uses;
  for (const Cluster& c : clustering_.clusters()) {
    if (c.kind != ClusterKind::product || !is_depthwise(c, options_)) continue;
    std::set<int> makers;
    clustering_.for_each_access(
        c, [&](Value v, const Index&) { makers.insert(clustering_.cluster_of(v)); });
    for (int k : makers) {
      if (k < 0 || fused_.count(&c)) continue;
      const Cluster& maker = clustering_.clusters()[static_cast<size_t>(k)];
      if (!uses) uses = uses_in(graph_);
      if (auto x = fused_depthwise_of(c, maker, clustering_, graph_, *uses, options_)) {
        inlined_.insert(x->image);
        fused_.emplace(&c, std::move(*x));
      }
    }
  }
}

// The slot of an output which the same kernel writes with v's elements in the order of v's layout
// (a convolution's rows of pixels, and the image that they are), or -1. The host takes slots as
// they are.
int Planner::output_with(Value v) const {
  const int k = clustering_.cluster_of(v);
  if (k < 0 || read_by_host_.count(v)) return -1;
  const Cluster& c = clustering_.clusters()[static_cast<size_t>(k)];
  if ((c.kind != ClusterKind::loop && c.kind != ClusterKind::product) || !c.tail.empty()) return -1;
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    const ir::Output& o = graph_.outputs[i];
    if (o.parameter >= 0 || o.value == v || below_views(o.value) != v || !c.find(o.value)) continue;
    Index at;
    for (const Expr& d : o.value->shape) at.push_back(Expr::axis(static_cast<int>(at.size()), d));
    const Expr place = offset_of(at, o.strides);
    Value x = o.value;
    for (; x != v && (x->is(Op::reshape) || x->is(Op::permute)); x = x->input())
      at = input_index(x, 0, at);
    if (x == v && offset_of(at, layouts_.strides_of(v)) == place) return plan_.outputs[i].slot;
  }
  return -1;
}

// Slots for roots that other clusters read and for what is copied into parameters at the end.
void Planner::place_intermediates() {
  auto need = [&](Value v) {
    const bool placed = stores_.of.count(v) || stores_.seen_as.count(v);
    if (v->is(Op::parameter) || placed || inlined_.count(v)) return;
    bool host = v->is(Op::host_result);
    const int slot = slot_for(v, host ? SlotKind::host : SlotKind::arena, -1,
                              host ? v->attrs.exprs : layouts_.strides_of(v));
    if (int output = host ? -1 : output_with(v); output >= 0) {
      stores_.seen_as.emplace(v, slot);
      memory_of_.emplace(slot, output);
    } else {
      stores_.of[v].push_back(slot);
    }
  };
  for (const ir::Node& n : graph_.nodes())
    if (n.is(Op::host_call)) read_by_host_.insert(n.inputs.begin(), n.inputs.end());
  for (const Cluster& c : clustering_.clusters())
    clustering_.for_each_access(c, [&](Value v, const Index&) {
      if (!c.find(v)) need(v);
    });
  for (auto& [from, to] : copies_) {
    if (from >= 0) continue;
    Value v = graph_.outputs[static_cast<size_t>(-1 - from)].value;
    need(v);
    from = read_slot(v);
  }
}

int Planner::read_slot(Value v) const {
  if (v->is(Op::parameter)) return stores_.input.at(static_cast<int>(v->attrs.ints[0]));
  auto it = stores_.seen_as.find(v);
  return it == stores_.seen_as.end() ? stores_.of.at(v)[0] : it->second;
}

void Planner::emit_kernel(Lowered k, const std::vector<uint32_t>& nodes) {
  if (atlas::is_empty(k.program)) return;
  Step step{StepKind::kernel};
  step.symbols = atlas::number_symbols(k.program);
  step.buffers = std::move(k.buffers);
  for (int& b : step.buffers)
    if (auto it = memory_of_.find(b); it != memory_of_.end()) b = it->second;
  step.name = std::move(k.name);
  step.cached = k.cached;
  step.nodes = nodes;
  Fingerprint f = atlas::fingerprint(k.program);
  auto [it, added] = program_number_.emplace(f, static_cast<int>(plan_.programs.size()));
  if (added) {
    check_planned(k.program);
    plan_.programs.push_back(std::move(k.program));
    plan_.fingerprints.push_back(f);
  }
  step.program = it->second;
  plan_.steps.push_back(std::move(step));
}

void Planner::emit_host(const Cluster& c) {
  Value call = c.anchor;
  Step step{StepKind::host_call};
  step.callee = static_cast<int>(call->attrs.ints[0]);
  step.name = call->attrs.text;
  step.nodes = {call->id};
  step.sizes = call->attrs.exprs;
  for (Value in : call->inputs)
    step.arguments.push_back(read_slot(in));
  for (const auto& [v, slots] : stores_.of) {
    if (!v->is(Op::host_result) || v->input() != call) continue;
    auto i = static_cast<size_t>(v->attrs.ints[0]);
    if (step.results.size() <= i) step.results.resize(i + 1, -1);
    step.results[i] = slots[0];
  }
  plan_.steps.push_back(std::move(step));
}

void Planner::emit(const Cluster& c) {
  if (c.kind == ClusterKind::host) return emit_host(c);
  static const std::vector<int> nowhere;
  Storage storage{plan_.slots,
                  [this](Value v) { return read_slot(v); },
                  [this](Value v) {
                    auto it = stores_.of.find(v);
                    return it == stores_.of.end() ? nowhere : it->second;
                  },
                  [this](Value v) { return stores_.in_place_scatters.count(v) > 0; },
                  [this](DType dtype, const Shape& shape, const std::string& name) {
                    Slot s{SlotKind::arena, dtype, shape, contiguous_strides(shape)};
                    s.bytes = span_bytes(dtype, shape, s.strides);
                    s.name = name;
                    return new_slot(std::move(s));
                  },
                  [this](int slot, const std::vector<int>& parameters) {
                    Slot& s = plan_.slots[static_cast<size_t>(slot)];
                    s.kind = SlotKind::cached;
                    s.index = static_cast<int>(plan_.cache.size());
                    plan_.cache.push_back({slot, parameters});
                    return s.index;
                  }};
  auto stored = [&](const Member& m) { return stores_.of.count(m.node) > 0; };
  if (std::ranges::none_of(c.members, stored) && std::ranges::none_of(c.tail, stored)) return;
  auto joined = fused_.find(&c);
  const FusedDepthwise* fused = joined == fused_.end() ? nullptr : &joined->second;
  std::vector<Lowered> kernels =
      lower(c, clustering_, options_, storage, fused, layouts_.is_direct_convolution(c));
  keep_if_static(c, kernels, storage);
  const std::vector<uint32_t> nodes = computed_by(c, clustering_, fused ? fused->image : nullptr);
  for (Lowered& k : kernels) emit_kernel(std::move(k), nodes);
}

// A loop over static parameters alone runs only when one of them has changed.
void Planner::keep_if_static(const Cluster& c, std::vector<Lowered>& kernels, Storage& storage) {
  if (c.kind != ClusterKind::loop || kernels.size() != 1 || c.members.size() != 1) return;
  const std::vector<int>& slots = stores_.of.at(c.members[0].node);
  if (slots.size() != 1 || plan_.slots[static_cast<size_t>(slots[0])].kind != SlotKind::arena ||
      !plan_.slots[static_cast<size_t>(slots[0])].bytes.is_const())
    return;
  std::set<int> read;
  bool fixed = true;
  clustering_.for_each_access(c, [&](Value v, const Index&) {
    fixed = fixed && v->is(Op::parameter) && options_.is_static(static_cast<int>(v->attrs.ints[0]));
    if (fixed) read.insert(static_cast<int>(v->attrs.ints[0]));
  });
  if (fixed && !read.empty())
    kernels[0].cached = storage.cache(slots[0], {read.begin(), read.end()});
}

void Planner::emit_copies(const Copies& copies) {
  for (auto [from, to] : copies) emit_kernel(lower_copy(plan_.slots, from, to, *options_.machine));
}

void Planner::link_steps() {
  std::map<int, int> writer;
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    Step& step = plan_.steps[s];
    std::set<int> after;
    auto reads = [&](int slot) {
      if (auto it = writer.find(slot); it != writer.end()) after.insert(it->second);
    };
    for (int b : step.arguments) reads(b);
    for (int b : step.buffers) reads(b);
    step.after.assign(after.begin(), after.end());
    if (step.kind == StepKind::kernel) {
      const atlas::Program& p = plan_.programs[static_cast<size_t>(step.program)];
      size_t k = 0;
      for (const atlas::Buffer& b : p.buffers) {
        if (b.access == atlas::Access::scratch) continue;
        if (b.access != atlas::Access::read) writer[step.buffers[k]] = static_cast<int>(s);
        ++k;
      }
    }
    for (int b : step.results) writer[b] = static_cast<int>(s);
  }
}

Plan Planner::run() {
  plan_.num_symbols = graph_.num_symbols;
  plan_.num_parameters = graph_.num_parameters;
  make_input_slots();
  place_outputs();
  layouts_.follow(order_.list());
  fuse_depthwise();
  place_intermediates();
  emit_copies(early_copies_);
  for (int k : order_.list()) emit(clustering_.clusters()[static_cast<size_t>(k)]);
  emit_copies(copies_);
  group_steps(plan_, *options_.machine);
  plan_memory(plan_, *options_.machine);
  link_steps();
  for (Value v : ir::live_nodes(graph_)) {
    auto kind = ir::info(v->op).kind;
    if (kind == ir::OpKind::leaf || kind == ir::OpKind::external_result) continue;
    ++plan_.canonical_ops;
    bool view = kind == ir::OpKind::movement && !v->is(Op::concat) && !v->is(Op::pad);
    if (!view && v->dtype != DType::host)
      plan_.eager_bytes += numel(v->shape) * Expr(size_of(v->dtype));
  }
  return std::move(plan_);
}

}  // namespace

Plan make_plan(const ir::Graph& graph, const Options& options) {
  return Planner(graph, options).run();
}

}  // namespace hologram::schedule
