// schedule/lower/context.cpp: what the kinds of clusters share; scatter and scans.
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

Expr of_channel(const Expr& e, const Expr& columns, const Expr& channel) {
  auto outer = e.linear_in_axis(group_id);
  auto inner = outer ? outer->second.linear_in_axis(column_id) : std::nullopt;
  if (inner && outer->first == inner->first * columns)
    return inner->second + inner->first * channel;
  return e.substitute([&](const Atom& a) -> std::optional<Expr> {
    if (a.kind != Atom::Kind::axis) return std::nullopt;
    if (a.id == group_id) return floor_div(channel, columns);
    if (a.id == column_id) return mod(channel, columns);
    return std::nullopt;
  });
}

Emitter Lowering::emitter(Kernel& k, atlas::Body& body, Emitter::Local local) {
  if (!local) local = [](Value, const Index&) { return std::optional<atlas::Val>(); };
  return Emitter(
      k, body, storage_.slot_of,
      [this](ir::Value v) {
        return v->is(ir::Op::parameter) ||
               (clustering_.is_root(v) && (v == c_.anchor || !c_.find(v)));
      },
      std::move(local));
}

Index Lowering::placed(const Index& index, const std::vector<ClusterAxis>& order) const {
  AxisMap places;
  for (size_t i = 0; i < order.size(); ++i)
    places.emplace(order[i].id, Expr::axis(static_cast<int>(i), order[i].extent));
  return substitute(index, places);
}

// Bodies of operands end with their value.
void Lowering::end_with(atlas::Body& body, Val v) {
  if (v.id + 1 == body.instrs.size()) return;
  atlas::Instr copy;
  copy.code = atlas::Code::arithmetic;
  copy.op = Op::bitcast;
  copy.type = copy.from = v.type;
  copy.args[0] = v.id;
  body.add(copy);
}

// The members of a product's or attention's cluster, computed from the accumulated element and
// stored.
void Lowering::epilogue(Kernel& k, atlas::Body& body, DType acc_type,
                        const std::vector<ClusterAxis>& order) {
  Emitter* self = nullptr;
  Emitter e = emitter(k, body, [&](Value v, const Index& at) -> std::optional<Val> {
    if (v != c_.anchor) return std::nullopt;
    int part = 0;
    if (c_.parts > 1) {
      const Expr& size = c_.column.extent;
      Expr first = at.back() - Expr::axis(static_cast<int>(order.size()) - 1, size);
      check(first.is_const(), "product: a part that is not known");
      part = static_cast<int>(first.constant_value() / size.constant_value());
    }
    return self->convert(self->builder().accumulator(part, acc_type), v->dtype);
  });
  self = &e;
  for (const Member& m : c_.members) {
    std::vector<int> slots = storage_.stores_of(m.node);
    if (m.node->is(Op::attention_lse)) slots.clear();
    if (auto kept = kept_.find(m.node); kept != kept_.end()) slots.push_back(kept->second);
    for (int slot : slots) {
      Index at = placed(m.index, order);
      e.store(slot, at, e.value(m.node, at));
    }
  }
}

std::vector<Lowered> Lowering::scatter() {
  Value s = c_.anchor, operand = s->input(0), indices = s->input(1), updates = s->input(2);
  std::vector<Lowered> out;
  std::vector<int> targets = storage_.stores_of(s);
  for (int slot : targets) {
    if (!storage_.in_place(s)) {
      Kernel k(storage_.slots);
      atlas::LoopBlock& loop = k.program.loop;
      Index at;
      for (const Expr& d : s->shape) {
        at.push_back(d.is(1) ? Expr(0) : Expr::axis(static_cast<int>(loop.axes.size()), d));
        if (!d.is(1)) loop.axes.push_back({AxisKind::parallel, d});
      }
      loop.parallel_rank = static_cast<int>(loop.axes.size());
      atlas::Stage stage{atlas::StageKind::point, {}, {}, {}};
      Emitter e = emitter(k, stage.body);
      e.store(slot, at, e.value(operand, at));
      loop.stages.push_back(std::move(stage));
      simplify_axes(loop);
      out.push_back(finish(k, "copy"));
    }
    Kernel k(storage_.slots);
    atlas::LoopBlock& loop = k.program.loop;
    size_t axis = static_cast<size_t>(s->attrs.ints[0]);
    size_t rank = indices->shape.size() - static_cast<size_t>(s->attrs.ints[2]);
    Index at(updates->shape.size());
    auto add_axes = [&](size_t first, size_t last, AxisKind kind) {
      for (size_t i = first; i < last; ++i) {
        at[i] = Expr::axis(static_cast<int>(loop.axes.size()), updates->shape[i]);
        loop.axes.push_back({kind, updates->shape[i]});
      }
    };
    add_axes(0, axis, AxisKind::parallel);
    add_axes(axis + rank, at.size(), AxisKind::parallel);
    loop.parallel_rank = static_cast<int>(loop.axes.size());
    add_axes(axis, axis + rank, AxisKind::row);
    if (rank == 0) loop.axes.push_back({AxisKind::row, Expr(1)});
    atlas::Stage stage{atlas::StageKind::serial_row, {}, {}, {}};
    Emitter e = emitter(k, stage.body);
    TakeParts parts = split_take(s, at);
    Index to = parts.before;
    const Expr& extent = s->shape[axis];
    // An index out of range sets the sticky error and writes nothing.
    Val place = e.place(indices, parts.indices, extent, {});
    to.push_back(e.checked(place, extent));
    Val inside = e.builder().lt(e.builder().cast(place, DType::u64),
                                e.builder().cast(e.builder().index(extent), DType::u64));
    to.insert(to.end(), parts.after.begin(), parts.after.end());
    Val u = e.value(updates, at);
    static constexpr Op combine[] = {Op::add, Op::add, Op::mul, Op::max, Op::min};
    if (int64_t mode = s->attrs.ints[1]; mode != 0) {
      int buffer = k.buffer(slot, Access::read_write);
      // A place that is checked can be read, if there are any.
      Val guard = provably_less(Expr(0), extent) ? Val{} : inside;
      Val old = e.builder().load(buffer, s->dtype, offset_of(to, k.slot(slot).strides), guard);
      u = e.convert(e.builder().op(combine[mode], e.widen(old), e.widen(u)), s->dtype);
    }
    e.store(slot, to, u, inside);
    loop.stages.push_back(std::move(stage));
    simplify_axes(loop);
    out.push_back(finish(k, "scatter"));
  }
  return out;
}

std::vector<Lowered> Lowering::scan() {
  Value s = c_.anchor;
  Kernel k(storage_.slots);
  atlas::LoopBlock& loop = k.program.loop;
  for (const ClusterAxis& a : c_.axes)
    loop.axes.push_back({a.row ? AxisKind::row : AxisKind::parallel, a.extent});
  loop.parallel_rank = static_cast<int>(c_.axes.size()) - 1;
  // What the axis is fixes the order, however many rows there are: along memory in blocks.
  auto axis = s->shape.begin() + static_cast<ptrdiff_t>(s->attrs.ints[0]);
  bool along = std::all_of(axis + 1, s->shape.end(), [](const Expr& d) { return d.is(1); });
  atlas::Stage stage{along ? atlas::StageKind::scan : atlas::StageKind::serial_row, {}, {}, {}};
  Emitter e = emitter(k, stage.body);
  Index at = placed(c_.members[0].index, c_.axes);
  Val x = e.widen(e.value(s->input(), at));
  static const std::pair<Op, Op> running[] = {{Op::cumsum, Op::reduce_sum},
                                              {Op::cumprod, Op::reduce_prod},
                                              {Op::cummax, Op::reduce_max},
                                              {Op::cummin, Op::reduce_min}};
  Op reduce = Op::reduce_sum;
  for (auto& [scan_op, r] : running)
    if (scan_op == s->op) reduce = r;
  stage.running.push_back({reduce, x.type});
  Val sum = e.builder().accumulate(reduce, 0, x);
  for (int slot : storage_.stores_of(s)) e.store(slot, at, e.convert(sum, s->dtype));
  loop.stages.push_back(std::move(stage));
  simplify_axes(loop);
  std::vector<Lowered> out;
  out.push_back(finish(k, std::string(ir::name_of(s->op))));
  return out;
}

std::vector<Lowered> Lowering::sort() {
  Value s = c_.anchor, x = s->input();
  auto axis = static_cast<size_t>(s->attrs.ints[0]);
  Kernel k(storage_.slots);
  k.program.kind = atlas::BlockKind::sort;
  atlas::SortBlock& b = k.program.sort;
  Index from, to;
  for (size_t i = 0; i < s->shape.size(); ++i) {
    const Expr& d = s->shape[i];
    from.push_back(i == axis || d.is(1) ? Expr(0) : Expr::axis(static_cast<int>(b.axes.size()), d));
    if (i != axis && !d.is(1)) b.axes.push_back({AxisKind::parallel, d});
  }
  to = from;
  b.batch_rank = static_cast<int>(b.axes.size());
  from[axis] = Expr::axis(b.batch_rank, x->shape[axis]);
  to[axis] = Expr::axis(b.batch_rank + 1, s->shape[axis]);
  b.axes.push_back({AxisKind::row, x->shape[axis]});
  b.axes.push_back({AxisKind::parallel, s->shape[axis]});
  b.descending = s->attrs.ints[1] != 0;
  {
    Emitter e = emitter(k, b.key);
    Val key = e.widen(e.value(x, from));
    b.key_type = key.type;
    end_with(b.key, key);
  }
  Emitter e = emitter(k, b.epilogue);
  for (int slot : storage_.stores_of(s)) e.store(slot, to, e.builder().accumulator(0, DType::i64));
  std::vector<Lowered> out;
  out.push_back(finish(k, "argsort"));
  return out;
}

}  // namespace hologram::schedule
