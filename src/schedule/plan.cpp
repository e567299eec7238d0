// schedule/plan.cpp: clusters → steps, slots and shared programs.
#include "schedule/plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "atlas/empty.h"
#include "schedule/check.h"
#include "schedule/cluster/layouts.h"
#include "schedule/lower/lower.h"
#include "schedule/memory.h"
#include "schedule/overlap.h"
#include "schedule/windows/expansion.h"
#include "schedule/windows/stem.h"
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

class Planner {
 public:
  Planner(const ir::Graph& graph, const Options& options)
      : graph_(graph),
        options_(options),
        clustering_(graph, options),
        layouts_(graph, clustering_, options) {}

  Plan run();

 private:
  using Order = std::vector<int>;
  using Copies = std::vector<std::pair<int, int>>;  // (from slot, to slot)

  void make_input_slots();
  void place_outputs();
  void join_expansions();
  void place_intermediates();
  bool try_in_place(const ir::Output& o);
  bool reads_only_in_place(const Cluster& c, Value parameter, const Member& m) const;
  bool depends(int cluster, int on) const;
  Order order() const;
  int new_slot(Slot s);
  int slot_for(Value v, SlotKind kind, int index, const Shape& strides);
  void emit(const Cluster& c);
  void emit_host(const Cluster& c);
  void emit_kernel(Lowered k);
  void keep_if_static(const Cluster& c, std::vector<Lowered>& kernels, Storage& storage);
  void emit_copies(const Copies& copies);
  void link_steps();

  const ir::Graph& graph_;
  const Options& options_;
  Clustering clustering_;
  Layouts layouts_;
  Plan plan_;
  std::map<int, int> input_slot_;  // by parameter index
  std::map<Value, std::vector<int>>
      stores_;  // slots a root is written to; the first is the one it is read from
  std::set<Value> in_place_scatter_;
  std::map<const Cluster*, Expansion> expansions_;  // by the depthwise convolution's cluster
  std::set<Value> inlined_;                         // images that these compute for themselves
  std::vector<std::vector<int>> clusters_read_;     // by cluster: the clusters it needs
  std::vector<std::pair<int, int>> before_;         // (reader, writer of the parameter it reads)
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
    input_slot_.emplace(index, slot_for(&n, SlotKind::input, index, n.attrs.exprs));
  }
}

bool Planner::depends(int cluster, int on) const {
  std::vector<int> stack{cluster};
  std::set<int> seen;
  while (!stack.empty()) {
    int k = stack.back();
    stack.pop_back();
    if (k == on) return true;
    if (!seen.insert(k).second) continue;
    const auto& next = clusters_read_[static_cast<size_t>(k)];
    stack.insert(stack.end(), next.begin(), next.end());
    for (auto [reader, writer] : before_)
      if (writer == k) stack.push_back(reader);
  }
  return false;
}

// Whether the cluster that computes m reads `parameter` only at the element it is about to write.
bool Planner::reads_only_in_place(const Cluster& c, Value parameter, const Member& m) const {
  if (c.kind == ClusterKind::scatter) {
    Value written = c.anchor->input(0);
    bool elsewhere = false;
    for (size_t i = 1; i < 3; ++i) {
      Value in = c.anchor->input(i);
      auto visit = [&](Value v, const Index&) { elsewhere |= v == parameter || v == written; };
      Index any;
      for (const Expr& d : in->shape) any.push_back(Expr::value(static_cast<int>(any.size()), d));
      if (in == parameter || in == written) return false;
      if (!in->is(Op::constant) && !in->is(Op::iota) && !clustering_.is_root(in))
        clustering_.walk(in, any, visit, [](Value) { return false; });
    }
    return !elsewhere;
  }
  if (c.kind != ClusterKind::loop && c.kind != ClusterKind::product) return false;
  bool ok = !c.split;
  // A product may compute an element twice (its last tile reaches back), so it must not read what
  // it writes.
  clustering_.for_each_access(c, [&](Value v, const Index& at) {
    if (v == parameter) ok = ok && c.kind == ClusterKind::loop && !c.has_rows() && at == m.index;
  });
  return ok;
}

// Lets the cluster that computes o.value write straight into the parameter.
bool Planner::try_in_place(const ir::Output& o) {
  Value v = o.value;
  if (v->is(Op::parameter) || v->is(Op::host_result) || stores_.count(v)) return false;
  int writer = clustering_.cluster_of(v);
  const Cluster& c = clustering_.clusters()[static_cast<size_t>(writer)];
  const Slot& target = plan_.slots[static_cast<size_t>(input_slot_.at(o.parameter))];
  if (target.dtype != v->dtype || !(target.shape == v->shape) || c.kind == ClusterKind::host)
    return false;
  Value parameter = nullptr;
  for (const ir::Node& n : graph_.nodes())
    if (n.is(Op::parameter) && n.attrs.ints[0] == o.parameter) parameter = &n;
  if (!reads_only_in_place(c, parameter, *c.find(v))) return false;
  std::vector<Value> chain{v};  // scatters that build on one another, the last first
  std::vector<int> writers{writer};
  while (c.kind == ClusterKind::scatter && chain.back()->input(0) != parameter) {
    Value before = chain.back()->input(0);
    int k = before->is(Op::scatter) && !stores_.count(before) ? clustering_.cluster_of(before) : -1;
    if (k < 0) return false;
    const Cluster& b = clustering_.clusters()[static_cast<size_t>(k)];
    if (b.kind != ClusterKind::scatter || !reads_only_in_place(b, parameter, *b.find(before)))
      return false;
    if (std::any_of(graph_.outputs.begin(), graph_.outputs.end(),
                    [&](const auto& other) { return other.value == before; }))
      return false;
    chain.push_back(before);
    writers.push_back(k);
  }
  std::vector<std::pair<int, int>> added;
  for (size_t k = 0; k < clustering_.clusters().size(); ++k) {
    int reader = static_cast<int>(k);
    auto own = std::find(writers.begin(), writers.end(), reader);
    bool reads = false, reads_chain = false;
    clustering_.for_each_access(clustering_.clusters()[k], [&](Value leaf, const Index&) {
      reads |= leaf == parameter;
      for (size_t i = 1; i < chain.size(); ++i)
        reads_chain |= leaf == chain[i] &&
                       (own == writers.end() ||
                        chain[static_cast<size_t>(own - writers.begin())]->input(0) != leaf);
    });
    if (reads_chain) return false;  // what an earlier scatter left would be overwritten
    if (!reads || own != writers.end()) continue;
    if (depends(reader, writers.back())) return false;
    added.emplace_back(reader, writers.back());
  }
  before_.insert(before_.end(), added.begin(), added.end());
  for (Value s : chain) {
    stores_[s].push_back(input_slot_.at(o.parameter));
    if (c.kind == ClusterKind::scatter) in_place_scatter_.insert(s);
  }
  return true;
}

void Planner::place_outputs() {
  int number = 0;
  plan_.outputs.resize(graph_.outputs.size());
  for (const ir::Output& o : graph_.outputs) {
    PlanOutput& out = plan_.outputs[static_cast<size_t>(number++)];
    if (o.parameter < 0) continue;
    out.mutation = true;
    out.slot = input_slot_.at(o.parameter);
    if (o.value->is(Op::parameter)) {
      int source = static_cast<int>(o.value->attrs.ints[0]), from = input_slot_.at(source);
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
    } else if (!try_in_place(o)) {
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
      early_copies_.emplace_back(input_slot_.at(static_cast<int>(o.value->attrs.ints[0])),
                                 out.slot);
    } else if (o.value->is(Op::host_result)) {
      auto& s = stores_[o.value];
      if (s.empty()) s.push_back(slot_for(o.value, SlotKind::host, -1, o.value->attrs.exprs));
      out.slot = s[0];
    } else {
      out.slot = slot_for(o.value, SlotKind::output, index, o.strides);
      if (in_place_scatter_.count(o.value))
        copies_.emplace_back(stores_.at(o.value)[0], out.slot);
      else
        stores_[o.value].push_back(out.slot);
    }
  }
}

// Finds depthwise convolutions that compute their image themselves.
void Planner::join_expansions() {
  std::optional<Uses> uses;
  for (const Cluster& c : clustering_.clusters()) {
    if (c.kind != ClusterKind::product || !is_depthwise(c, options_)) continue;
    std::set<int> makers;
    clustering_.for_each_access(
        c, [&](Value v, const Index&) { makers.insert(clustering_.cluster_of(v)); });
    for (int k : makers) {
      if (k < 0 || expansions_.count(&c)) continue;
      const Cluster& maker = clustering_.clusters()[static_cast<size_t>(k)];
      if (!uses) uses = uses_in(graph_);
      if (auto x = expansion_of(c, maker, clustering_, graph_, *uses, options_)) {
        inlined_.insert(x->image);
        expansions_.emplace(&c, std::move(*x));
      }
    }
  }
}

// Slots for roots that other clusters read and for what is copied into parameters at the end.
void Planner::place_intermediates() {
  auto need = [&](Value v) {
    if (v->is(Op::parameter) || stores_.count(v) || inlined_.count(v)) return;
    bool host = v->is(Op::host_result);
    stores_[v].push_back(slot_for(v, host ? SlotKind::host : SlotKind::arena, -1,
                                  host ? v->attrs.exprs : layouts_.strides_of(v)));
  };
  for (const Cluster& c : clustering_.clusters())
    clustering_.for_each_access(c, [&](Value v, const Index&) {
      if (!c.find(v)) need(v);
    });
  for (auto& [from, to] : copies_) {
    if (from >= 0) continue;
    Value v = graph_.outputs[static_cast<size_t>(-1 - from)].value;
    need(v);
    from = stores_.at(v)[0];
  }
}

Planner::Order Planner::order() const {
  Order out;
  size_t n = clustering_.clusters().size();
  std::vector<char> done(n, 0);
  std::function<void(int)> visit = [&](int k) {
    if (done[static_cast<size_t>(k)]) return;
    done[static_cast<size_t>(k)] = 1;
    for (int d : clusters_read_[static_cast<size_t>(k)]) visit(d);
    for (auto [reader, writer] : before_)
      if (writer == k) visit(reader);
    out.push_back(k);
  };
  for (size_t k = 0; k < n; ++k) visit(static_cast<int>(k));
  std::vector<Timing> timing(n, Timing::any);
  for (size_t k = 0; k < n; ++k)
    if (clustering_.clusters()[k].kind == ClusterKind::host)
      timing[k] = static_cast<Timing>(clustering_.clusters()[k].anchor->attrs.ints[1]);
  if (std::ranges::count(timing, Timing::any) == static_cast<int64_t>(n)) return out;
  std::vector<std::vector<int>> needs = clusters_read_;
  for (auto [reader, writer] : before_) needs[static_cast<size_t>(writer)].push_back(reader);
  return overlapped(out, std::move(needs), timing);
}

void Planner::emit_kernel(Lowered k) {
  if (atlas::is_empty(k.program)) return;
  Step step{StepKind::kernel};
  step.symbols = atlas::number_symbols(k.program);
  step.buffers = std::move(k.buffers);
  step.name = std::move(k.name);
  step.cached = k.cached;
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
  step.sizes = call->attrs.exprs;
  for (Value in : call->inputs)
    step.arguments.push_back(in->is(Op::parameter)
                                 ? input_slot_.at(static_cast<int>(in->attrs.ints[0]))
                                 : stores_.at(in)[0]);
  for (const auto& [v, slots] : stores_) {
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
                  [this](Value v) {
                    return v->is(Op::parameter) ? input_slot_.at(static_cast<int>(v->attrs.ints[0]))
                                                : stores_.at(v)[0];
                  },
                  [this](Value v) {
                    auto it = stores_.find(v);
                    return it == stores_.end() ? nowhere : it->second;
                  },
                  [this](Value v) { return in_place_scatter_.count(v) > 0; },
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
  auto stored = [&](const Member& m) { return stores_.count(m.node) > 0; };
  if (std::ranges::none_of(c.members, stored) && std::ranges::none_of(c.tail, stored)) return;
  auto joined = expansions_.find(&c);
  const Expansion* expansion = joined == expansions_.end() ? nullptr : &joined->second;
  std::vector<Lowered> kernels =
      lower(c, clustering_, options_, storage, expansion, layouts_.is_stem(c));
  keep_if_static(c, kernels, storage);
  for (Lowered& k : kernels) emit_kernel(std::move(k));
}

// A loop over static parameters alone runs only when one of them has changed.
void Planner::keep_if_static(const Cluster& c, std::vector<Lowered>& kernels, Storage& storage) {
  if (c.kind != ClusterKind::loop || kernels.size() != 1 || c.members.size() != 1) return;
  const std::vector<int>& slots = stores_.at(c.members[0].node);
  if (slots.size() != 1 || plan_.slots[static_cast<size_t>(slots[0])].kind != SlotKind::arena)
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
  for (const Cluster& c : clustering_.clusters()) {
    std::set<int> reads;
    clustering_.for_each_access(c, [&](Value v, const Index&) {
      int k = clustering_.cluster_of(v);
      if (k >= 0 && &clustering_.clusters()[static_cast<size_t>(k)] != &c) reads.insert(k);
    });
    clusters_read_.emplace_back(reads.begin(), reads.end());
  }
  make_input_slots();
  place_outputs();
  layouts_.follow(order());
  join_expansions();
  place_intermediates();
  emit_copies(early_copies_);
  for (int k : order()) emit(clustering_.clusters()[static_cast<size_t>(k)]);
  emit_copies(copies_);
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
