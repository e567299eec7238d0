// schedule/lower/context.cpp: what the lowerings of all kinds of clusters share.
#include "schedule/lower/context.h"

#include <algorithm>

namespace hologram::schedule {

using atlas::Access;
using atlas::AxisKind;
using atlas::Val;
using ir::Op;
using ir::Value;

std::optional<std::vector<int>> static_sources(const Clustering& clustering, const Options& options,
                                               Value v) {
  if (!numel(v->shape).is_const()) return std::nullopt;
  std::vector<int> out;
  bool ok = true;
  auto visit = [&](Value leaf, const Index&) {
    if (leaf->is(Op::parameter) && options.is_static(static_cast<int>(leaf->attrs.ints[0])))
      out.push_back(static_cast<int>(leaf->attrs.ints[0]));
    else
      ok = false;
  };
  if (v->is(Op::parameter) || clustering.is_root(v)) {
    visit(v, {});
  } else {
    Index any(v->shape.size());
    for (size_t i = 0; i < any.size(); ++i) any[i] = Expr::axis(static_cast<int>(i), v->shape[i]);
    clustering.walk(v, any, visit, [](Value) { return false; });
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  if (!ok || out.empty()) return std::nullopt;
  return out;
}

Emitter Context::emitter(ProgramBuilder& k, atlas::Body& body, Emitter::Local local) const {
  if (!local) local = [](Value, const Index&) { return std::optional<atlas::Val>(); };
  return Emitter(
      k, body, storage.slot_of,
      [this](ir::Value v) {
        return v->is(ir::Op::parameter) ||
               (clustering.is_root(v) && (v == cluster.anchor || !cluster.find(v)));
      },
      std::move(local));
}

Index Context::placed(const Index& index, const std::vector<ClusterAxis>& order) const {
  AxisMap places;
  for (size_t i = 0; i < order.size(); ++i)
    places.emplace(order[i].id, Expr::axis(static_cast<int>(i), order[i].extent));
  return substitute(index, places);
}

void end_with(atlas::Body& body, Val v) {
  if (v.id + 1 == body.instrs.size()) return;
  atlas::Instr copy;
  copy.code = atlas::Code::arithmetic;
  copy.op = Op::bitcast;
  copy.type = copy.from = v.type;
  copy.args[0] = v.id;
  body.add(copy);
}

void Context::epilogue(ProgramBuilder& k, atlas::Body& body, DType acc_type,
                       const std::vector<ClusterAxis>& order,
                       const std::map<Value, int>& kept) const {
  Emitter* self = nullptr;
  Emitter e = emitter(k, body, [&](Value v, const Index& at) -> std::optional<Val> {
    if (v != cluster.anchor) return std::nullopt;
    int part = 0;
    if (cluster.parts > 1) {
      const Expr& size = cluster.column.extent;
      Expr first = at.back() - Expr::axis(static_cast<int>(order.size()) - 1, size);
      check(first.is_const(), "product: a part that is not known");
      part = static_cast<int>(first.constant_value() / size.constant_value());
    }
    return self->convert(self->builder().accumulator(part, acc_type), v->dtype);
  });
  self = &e;
  for (const Member& m : cluster.members) {
    std::vector<int> slots = storage.stores_of(m.node);
    if (m.node->is(Op::attention_lse)) slots.clear();
    if (auto it = kept.find(m.node); it != kept.end()) slots.push_back(it->second);
    for (int slot : slots) {
      Index at = placed(m.index, order);
      e.store(slot, at, e.value(m.node, at));
    }
  }
}

Lowered finish(ProgramBuilder& k, std::string name) {
  return {std::move(k.program), std::move(k.buffers), std::move(name), -1};
}

namespace {

// A kernel of one point for each element of `shape`.
template <class MakeEmitter>
Lowered map_kernel(const std::vector<Slot>& slots, const Machine& machine, std::string name,
                   const Shape& shape, const MakeEmitter& emitter, const Context::PointBody& fill) {
  ProgramBuilder k(slots);
  atlas::LoopBlock& loop = k.program.loop();
  Index at;
  for (const Expr& d : shape) {
    at.push_back(Expr::axis(static_cast<int>(loop.axes.size()), d));
    loop.axes.push_back({AxisKind::parallel, d});
  }
  loop.parallel_rank = static_cast<int>(shape.size());
  atlas::Stage stage{atlas::StageKind::point, {}, {}, {}};
  Emitter e = emitter(k, stage.body);
  fill(e, at);
  loop.stages.push_back(std::move(stage));
  simplify_axes(loop, machine);
  return finish(k, std::move(name));
}

}  // namespace

Lowered Context::map_loop(std::string name, const Shape& shape, const PointBody& fill) const {
  auto make = [&](ProgramBuilder& k, atlas::Body& body) { return emitter(k, body); };
  return map_kernel(storage.slots, *options.machine, std::move(name), shape, make, fill);
}

Lowered lower_copy(const std::vector<Slot>& slots, int from, int to, const Machine& machine) {
  auto make = [](ProgramBuilder& k, atlas::Body& body) { return Emitter(k, body, {}, {}, {}); };
  const Shape& shape = slots[static_cast<size_t>(to)].shape;
  return map_kernel(slots, machine, "copy", shape, make,
                    [&](Emitter& e, const Index& at) { e.store(to, at, e.read(from, at)); });
}

int Context::lay_out(Value v, const Shape& shape, const std::function<Index(const Index&)>& from,
                     std::vector<Lowered>& out) const {
  int slot = storage.temporary(v->dtype, shape, "taps");
  out.push_back(map_loop("taps", shape, [&](Emitter& e, const Index& at) {
    e.store(slot, at, e.value(v, from(at)));
  }));
  if (auto sources = static_sources(clustering, options, v); sources && numel(shape).is_const())
    out.back().cached = storage.cache(slot, *sources);
  return slot;
}

void Context::store_results(Emitter& e, const AxisMap& place) const {
  for (const Member& m : cluster.members)
    for (int slot : storage.stores_of(m.node)) {
      Index at = substitute(m.index, place);
      e.store(slot, at, e.value(m.node, at));
    }
}

atlas::Val or_zero(Emitter& e, Val guard, Val v) {
  if (guard.id == atlas::no_value) return v;
  return e.builder().select(guard, v, e.builder().constant(v.type, 0));
}

}  // namespace hologram::schedule
