// schedule/lower/loop_split.cpp: sums over long rows with few results, in two kernels.
#include "atlas/order.h"
#include "schedule/lower/context.h"
#include "schedule/lower/loop_lowering.h"

namespace hologram::schedule {

using atlas::Access;
using atlas::AxisKind;
using atlas::Val;
using ir::Op;
using ir::Value;

// First half of a split reduction: every block of 4,096 row elements is a parallel unit of its own.
Lowered LoopLowering::partial_blocks() {
  Shape parallel_shape, row_shape;
  for (size_t i = 0; i < order_.size(); ++i)
    (i < parallel_ ? parallel_shape : row_shape).push_back(order_[i].extent);
  Expr n = numel(row_shape), blocks = ceil_div(n, Expr(atlas::sum_block));
  ProgramBuilder k(storage_.slots);
  atlas::LoopBlock& loop = k.program.nest();
  // The block axis comes first, so that neighbouring points stay neighbours.
  Expr b = Expr::axis(0, blocks),
       count = min(Expr(atlas::sum_block), n - Expr(atlas::sum_block) * b);
  loop.axes.push_back({AxisKind::parallel, blocks});
  AxisMap map;
  for (size_t i = 0; i < parallel_; ++i) {
    loop.axes.push_back({AxisKind::parallel, order_[i].extent});
    map.emplace(static_cast<int>(i), Expr::axis(static_cast<int>(i) + 1, order_[i].extent));
  }
  loop.parallel_rank = static_cast<int>(parallel_) + 1;
  loop.axes.push_back({AxisKind::row, count});
  Expr position = Expr(atlas::sum_block) * b + Expr::axis(loop.parallel_rank, count);
  Index rows = through_reshape(row_shape, {n}, {position});
  for (size_t i = 0; i < rows.size(); ++i) map.emplace(static_cast<int>(parallel_ + i), rows[i]);

  atlas::Stage s{atlas::StageKind::row, {}, {}, {}}, p{atlas::StageKind::point, {}, {}, {}};
  Emitter e = emitter(k, s.body, 0), pe = emitter(k, p.body, 0);
  Shape partial_shape{blocks};
  partial_shape.insert(partial_shape.end(), parallel_shape.begin(), parallel_shape.end());
  Index partial_at{b};
  for (size_t i = 0; i < parallel_; ++i) partial_at.push_back(map.at(static_cast<int>(i)));
  for (const Member& m : members_) {
    if (is_reduce(m.node)) {
      Val x = e.widen(e.value(m.node->input(), substitute(m.operand, map)));
      int number = static_cast<int>(s.reductions.size());
      s.reductions.push_back({m.node->op, x.type, x.id, false, atlas::no_value});
      partials_.push_back(storage_.temporary(x.type, partial_shape, "partials"));
      pe.store(partials_.back(), partial_at, pe.builder().accumulator(number, x.type));
    } else if (is_row_level(m)) {
      Index at = substitute(m.index, map);
      for (int slot : storage_.stores_of(m.node)) e.store(slot, at, e.value(m.node, at));
    }
  }
  loop.stages.push_back(std::move(s));
  loop.stages.push_back(std::move(p));
  simplify_axes(loop, machine_);
  return {std::move(k.program), std::move(k.buffers), cluster_name(c_) + " (blocks)", -1};
}

// Second half: the binary counter over the blocks' results, then everything with one element per
// point.
Lowered LoopLowering::combine_blocks() {
  Expr n(1);
  for (size_t i = parallel_; i < order_.size(); ++i) n *= order_[i].extent;
  Expr blocks = ceil_div(n, Expr(atlas::sum_block));
  ProgramBuilder k(storage_.slots);
  atlas::LoopBlock& loop = k.program.nest();
  Index at{Expr::axis(static_cast<int>(parallel_), blocks)};
  for (size_t i = 0; i < parallel_; ++i) {
    loop.axes.push_back({AxisKind::parallel, order_[i].extent});
    at.push_back(axis(i));
  }
  loop.parallel_rank = static_cast<int>(parallel_);
  loop.axes.push_back({AxisKind::row, blocks});
  atlas::Stage s{atlas::StageKind::row, {}, {}, {}};
  atlas::BodyBuilder body(s.body);
  size_t next = 0;
  for (const Member& m : members_) {
    if (!is_reduce(m.node)) continue;
    int slot = partials_[next];
    const Slot& from = storage_.slots[static_cast<size_t>(slot)];
    Val x = body.load(k.buffer(slot, Access::read), from.dtype, offset_of(at, from.strides));
    s.reductions.push_back({m.node->op, x.type, x.id, true, atlas::no_value});
    accumulators_[m.node] = {static_cast<int>(next++), x.type, 0};
  }
  loop.stages.push_back(std::move(s));
  point_stage(k, 1);
  simplify_axes(loop, machine_);
  return {std::move(k.program), std::move(k.buffers), cluster_name(c_), -1};
}

}  // namespace hologram::schedule
