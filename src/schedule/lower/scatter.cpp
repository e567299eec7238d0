// schedule/lower/scatter.cpp: scatters: a copy of the operand, then writes in order.
#include <algorithm>

#include "schedule/lower/kinds.h"

namespace hologram::schedule {

using atlas::Access;
using atlas::AxisKind;
using atlas::Val;
using ir::Op;
using ir::Value;

Kernels lower_scatter(const Context& cx) {
  Value s = cx.cluster.anchor, operand = s->input(0), indices = s->input(1), updates = s->input(2);
  std::vector<Lowered> out;
  std::vector<int> targets = cx.storage.stores_of(s);
  for (int slot : targets) {
    if (!cx.storage.in_place(s)) {
      // Axes of one element are left out.
      Shape shape;
      for (const Expr& d : s->shape)
        if (!d.is(1)) shape.push_back(d);
      out.push_back(cx.map_loop("copy", shape, [&](Emitter& e, const Index& point) {
        Index at;
        size_t next = 0;
        for (const Expr& d : s->shape) at.push_back(d.is(1) ? Expr(0) : point[next++]);
        e.store(slot, at, e.value(operand, at));
      }));
    }
    ProgramBuilder k(cx.storage.slots);
    atlas::LoopBlock& loop = k.program.loop();
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
    Emitter e = cx.emitter(k, stage.body);
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
    simplify_axes(loop, *cx.options.machine);
    out.push_back(finish(k, "scatter"));
  }
  return out;
}

}  // namespace hologram::schedule
