// backend/cpu/loops/stages.cpp: point, serial and row stages.
#include "backend/cpu/loops/stages.h"

#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "atlas/order.h"
#include "codegen/memory.h"
#include "codegen/nest.h"

namespace hologram::cpu {

namespace Intrinsic = llvm::Intrinsic;
using atlas::Stage;
using atlas::StageKind;

// Elements that a round along a row takes: one for each partial.
constexpr int64_t round_elements = atlas::sum_partials;
// Of what has no order, such as bytes, more: else a round is one vector.
constexpr int64_t widest_round = 256, most_together = 8;
// And that two rows take by turns: while one's are added the other's arrive.
constexpr int64_t turn_elements = 8 * round_elements;

LoopStages::LoopStages(const LoopFrame& frame, LoopLanes& lanes)
    : f_(frame), lanes_(lanes), prefetches_(frame), k_(frame.k), ir_(frame.k.ir) {
  int number = 0;
  for (const Stage& s : f_.block.stages) {
    first_accumulator_.push_back(number);
    number += static_cast<int>(s.reductions.size() + s.running.size());
  }
}

void LoopStages::emit_first(Scope& scope) {
  for (const atlas::Reduction& r : f_.block.stages[0].reductions)
    carried_.push_back(k_.slot(k_.type_of(r.type), "carried"));
  if (f_.plan.trailing)
    for (size_t n = 0; n < 2; ++n)
      for (const atlas::Reduction& r : f_.block.stages[n].reductions) {
        llvm::Type* type = k_.type_of(r.type);
        behind_.push_back(k_.slot(type, "behind"));
        ir_.CreateStore(llvm::Constant::getNullValue(type), behind_.back());
      }
  row_stage(scope, f_.block.stages[0], 0);
}

void LoopStages::set_behind(Scope& scope) {
  scope.seek();
  for (size_t r = 0; r < behind_.size(); ++r)
    scope.set_accumulator(f_.last_accumulator(static_cast<int>(r)),
                          {ir_.CreateLoad(behind_[r]->getAllocatedType(), behind_[r]), false});
}

void LoopStages::emit_last(Scope& scope) {
  set_behind(scope);
  row_stage(scope, f_.behind, 2);
}

void LoopStages::emit(Scope& scope) {
  prefetches_.emit_gathered(scope);
  if (f_.plan.trailing) set_behind(scope);
  emit(scope, 0, f_.plan.trailing ? 2 : f_.block.stages.size());
}

void LoopStages::emit_two(Scope& first, Scope& second) {
  const Stage& s = f_.block.stages[0];
  for (const atlas::Reduction& r : s.reductions)
    carried_.push_back(k_.slot(k_.type_of(r.type), "second"));
  row_stage(first, s, 0, true);
  emit(first, 1, f_.block.stages.size());
  first.seek();
  second.move_to(ir_.GetInsertBlock());
  second.seek();
  for (size_t r = 0; r < carried_.size(); ++r)
    second.set_accumulator(static_cast<int>(r),
                           {ir_.CreateLoad(carried_[r]->getAllocatedType(), carried_[r]), false});
  emit(second, 1, f_.block.stages.size());
}

/// Stages [first, last) at the point of `scope`.
void LoopStages::emit(Scope& scope, size_t first, size_t last) {
  for (size_t n = first; n < last; ++n) {
    const Stage& s = f_.block.stages[n];
    scope.seek();
    if (f_.plan.carried && n == 0)
      for (size_t r = 0; r < carried_.size(); ++r)
        scope.set_accumulator(
            static_cast<int>(r),
            {ir_.CreateLoad(carried_[r]->getAllocatedType(), carried_[r]), false});
    else if (s.kind == StageKind::point)
      emit_body(scope, s.body);
    else if (s.kind == StageKind::serial_row)
      serial_stage(scope, s, first_accumulator_[n]);
    else if (s.kind == StageKind::scan)
      scan_stage(scope, s);
    else
      row_stage(scope, s, n);
  }
}

bool LoopStages::walks_rows_first() const {
  const auto& stages = f_.block.stages;
  if (stages.size() != 1 || stages[0].kind != StageKind::serial_row || !stages[0].running.empty())
    return false;
  for (int a = f_.rank; a < f_.axes; ++a)
    if (f_.extent(a).has_axes()) return false;
  // Numbers that all lanes of a row share would be read ahead of the loop over the lanes, more of
  // them than there are registers.
  constexpr int64_t most_shared = 16;
  auto shared = [&](const atlas::Instr& i) {
    return i.code == atlas::Code::load && !i.expr.has_axis(f_.rank - 1);
  };
  return std::ranges::count_if(stages[0].body.instrs, shared) <= most_shared;
}

void LoopStages::emit_rows_first(Scope& scope, Value* low, Value* high) {
  const atlas::Body& body = f_.block.stages[0].body;
  row_loops(scope, f_.rank, f_.axes, [&](Scope& row) {
    lanes_.loop(row, f_.rank - 1, low, high, 1, {&body}, [&](Scope& s) { emit_body(s, body); });
  });
}

/// Loops over row axes [axis, last); `fill` runs inside them.
void LoopStages::row_loops(Scope& scope, int axis, int last,
                           const std::function<void(Scope&)>& fill) {
  if (axis == last) return fill(scope);
  Value* n = emit_expr(scope, f_.extent(axis)).v;
  scope.seek();
  emit_loop(scope, k_.i64(0), n, k_.i64(1), f_.at_least_one(axis), [&](Scope& s, Value* i) {
    s.set_axis(axis, i);
    row_loops(s, axis + 1, last, fill);
  });
}

/// Whether nothing that the kernel writes lies where the indices do: what was looked at stays.
Value* LoopStages::indices_apart(Scope& scope, const Checks& checks) {
  const auto& buffers = k_.program.buffers;
  auto range = [&](int number) {
    const atlas::Buffer& b = buffers[static_cast<size_t>(number)];
    Value* count = emit_expr(scope, b.extent).v;
    scope.seek();
    Value* begin = ir_.CreatePtrToInt(k_.buffer(number), ir_.getInt64Ty());
    return std::pair{begin, ir_.CreateAdd(begin, ir_.CreateMul(count, k_.i64(size_of(b.dtype))))};
  };
  Value* apart = ir_.getTrue();
  for (const atlas::Body& inside : checks.inside)
    for (const Instr& i : inside.instrs)
      for (int w = 0; i.code == Code::load && w < static_cast<int>(buffers.size()); ++w) {
        const atlas::Access access = buffers[static_cast<size_t>(w)].access;
        if (access == atlas::Access::read || access == atlas::Access::scratch) continue;
        const auto [begin, end] = range(i.buffer);
        const auto [first, last] = range(w);
        apart = ir_.CreateAnd(
            apart, ir_.CreateOr(ir_.CreateICmpULE(end, first), ir_.CreateICmpULE(last, begin)));
      }
  return apart;
}

/// The row of a serial stage at one point, several elements at a time: where all of their indices
/// are in range, none is looked at.
void LoopStages::checked_rows(Scope& scope, const atlas::Body& body, const Checks& checks) {
  constexpr int together = 8;
  const int axis = f_.rank;
  Value* n = emit_expr(scope, f_.extent(axis)).v;
  scope.seek();
  Value* apart = indices_apart(scope, checks);
  Value* whole = ir_.CreateSelect(apart, ir_.CreateAnd(n, k_.i64(-together)), k_.i64(0));
  auto element = [&](Scope& outer, Value* i, const atlas::Body& of) {
    Scope one(outer, false);
    one.set_axis(axis, i);
    emit_body(one, of);
    one.seek();
    outer.move_to(ir_.GetInsertBlock());
  };
  emit_loop(scope, k_.i64(0), whole, k_.i64(together), false, [&](Scope& group, Value* i) {
    Scope lanes(group, false);
    lanes.set_axis(axis, i);
    lanes.set_lanes(axis, together);
    Value* all = ir_.getTrue();
    for (const atlas::Body& inside : checks.inside) {
      Value* truth = splat(k_, emit_body(lanes, inside).back(), together);
      lanes.seek();
      all = ir_.CreateAnd(all, ir_.CreateAndReduce(truth));
    }
    group.move_to(ir_.GetInsertBlock());
    emit_if(group, all, [&](Scope& within) {
      for (int c = 0; c < together; ++c) {
        within.seek();
        element(within, ir_.CreateAdd(i, k_.i64(c)), checks.within);
      }
    });
    group.seek();
    emit_if(group, ir_.CreateNot(all), [&](Scope& some) {
      emit_loop(some, i, ir_.CreateAdd(i, k_.i64(together)), k_.i64(1), true,
                [&](Scope& s, Value* at) { element(s, at, body); });
    });
  });
  emit_loop(scope, whole, n, k_.i64(1), false,
            [&](Scope& rest, Value* at) { element(rest, at, body); });
  scope.seek();
}

void LoopStages::serial_stage(Scope& scope, const Stage& s, int accumulator) {
  int lanes = scope.lanes();
  std::vector<Value*> slots;
  for (size_t r = 0; r < s.running.size(); ++r) {
    auto [op, type] = s.running[r];
    Value* slot = k_.slot(k_.lane_type(type, lanes), "running");
    ir_.CreateStore(splat(k_, {k_.identity(op, type), false}, lanes), slot);
    slots.push_back(slot);
  }
  Scope inner(scope, false);
  for (size_t r = 0; r < slots.size(); ++r)
    inner.set_running(accumulator + static_cast<int>(r), slots[r], lanes > 1);
  auto checks = lanes == 1 && slots.empty() && f_.axes == f_.rank + 1
                    ? checks_of(k_.program, s.body, f_.rank)
                    : std::nullopt;
  if (checks)
    checked_rows(inner, s.body, checks_.emplace_back(*std::move(checks)));
  else
    row_loops(inner, f_.rank, f_.axes, [&](Scope& row) { emit_body(row, s.body); });
  inner.seek();
  scope.move_to(ir_.GetInsertBlock());
  for (size_t r = 0; r < slots.size(); ++r) {
    llvm::Type* type = k_.lane_type(s.running[r].second, lanes);
    scope.set_accumulator(accumulator + static_cast<int>(r),
                          {ir_.CreateLoad(type, slots[r]), lanes > 1});
  }
}

/// `turns`: over the next point's row too, by turns.
void LoopStages::row_stage(Scope& scope, const Stage& s, size_t number, bool turns) {
  int accumulator = first_accumulator_[number];
  bool along = f_.plan.mode == LaneMode::row;
  if (s.reductions.empty() && !(f_.plan.carried && number == 1)) {
    if (!along)
      return row_loops(scope, f_.rank, f_.axes, [&](Scope& row) { emit_body(row, s.body); });
    return row_loops(scope, f_.rank, f_.axes - 1, [&](Scope& row) {
      Value* n = emit_expr(row, f_.extent(f_.axes - 1)).v;
      auto fill = [&](Scope& line) {
        line.seek();
        int work = static_cast<int>(s.body.instrs.size()) + arithmetic_count(s.body);
        lanes_.loop(line, f_.axes - 1, k_.i64(0), n,
                    std::max(1, (work <= 10   ? 4
                                 : work <= 24 ? 2
                                              : 1) /
                                    f_.plan.vectors),
                    {&s.body}, [&](Scope& lane) {
                      if (!lane.mask()) prefetches_.emit(lane, number, 0);
                      emit_body(lane, s.body);
                    });
      };
      if (f_.at_least_one(f_.axes - 1)) return fill(row);
      emit_if(row, ir_.CreateICmpSGT(n, k_.i64(0)), fill);
    });
  }
  bool trees =
      std::any_of(s.reductions.begin(), s.reductions.end(), [](const auto& r) { return r.tree; });
  bool grouped =
      f_.axes == f_.rank + 1 || (f_.extent(f_.axes - 1).is_const() &&
                                 f_.extent(f_.axes - 1).constant_value() % round_elements == 0);
  RowShape shape;
  shape.total = extent_of(f_.block, f_.rank, f_.axes);
  shape.along_row = along && grouped && !trees;
  shape.lanes = shape.along_row ? f_.plan.lanes : scope.lanes();
  const int together = shape.along_row ? vectors_together(s, f_.plan, k_.target) : 1;
  int64_t step = together > 1 ? together * f_.plan.lanes : round_elements;
  shape.stepwise = step < round_elements;
  const int64_t wide = std::min<int64_t>(most_together * f_.plan.lanes, widest_round);
  if (shape.along_row && wide > step && !f_.plan.carried &&
      std::ranges::all_of(s.reductions, in_any_order) &&
      (f_.axes == f_.rank + 1 || f_.extent(f_.axes - 1).constant_value() % wide == 0))
    step = wide;
  shape.group = std::max(step, round_elements);
  shape.alternate = f_.alternate(shape.lanes);
  RowStage stage{s, number, shape, together, step, {}, nullptr},
      ahead{f_.ahead, 0, shape, together, step, {}, nullptr};
  auto begin = [&](RowStage& one) {
    for (const atlas::Reduction& r : one.stage.reductions)
      one.reducers.push_back(Reducer::make(scope, r, shape));
  };
  begin(stage);
  if (turns || (f_.plan.carried && number == 1)) {
    begin(ahead);
    stage.ahead = &ahead;
    stage.turns = turns;
    if (f_.plan.trailing) stage.behind = &f_.behind.body;
  }
  if (stage.behind)  // from now on this point is the one before
    for (size_t r = 0; r < carried_.size(); ++r)
      ir_.CreateStore(ir_.CreateLoad(carried_[r]->getAllocatedType(), carried_[r]), behind_[r]);
  scope.seek();
  Value* count = shape.along_row ? groups(scope, stage) : elements(scope, stage);
  auto carry = [&](size_t r, LaneValue value) {
    scope.seek();
    ir_.CreateStore(value.v, carried_[r]);
  };
  for (size_t r = 0; r < stage.reducers.size(); ++r) {
    LaneValue value = stage.reducers[r]->finish(scope, count);
    scope.set_accumulator(accumulator + static_cast<int>(r), value);
    if (f_.plan.carried && number == 0) carry(r, value);
    if (stage.behind) ir_.CreateStore(value.v, behind_[carried_.size() + r]);
  }
  for (size_t r = 0; r < ahead.reducers.size(); ++r)
    carry(r, ahead.reducers[r]->finish(scope, count));
  scope.seek();
}

void LoopStages::update(Scope& scope, RowStage& stage, int copy, Value* position,
                        Value* lanes_mask) {
  std::vector<LaneValue> values = emit_body(scope, stage.stage.body);
  const int lanes = stage.shape.lanes;
  for (int c = 0; c < scope.lanes() / lanes; ++c) {
    auto part = [&](atlas::ValueId id) -> LaneValue {
      if (id == atlas::no_value) return {};
      if (!values[id].varying || scope.lanes() == lanes) return values[id];
      std::vector<int> order;
      for (int l = 0; l < lanes; ++l) order.push_back(c * lanes + l);
      return {ir_.CreateShuffleVector(values[id].v, order), true};
    };
    for (size_t r = 0; r < stage.reducers.size(); ++r) {
      const atlas::Reduction& what = stage.stage.reductions[r];
      stage.reducers[r]->update(scope, copy + c, part(what.value), part(what.position), position,
                                lanes_mask);
    }
  }
}

void LoopStages::advance_all(Scope& scope, RowStage& stage, Value* count) {
  for (auto& r : stage.reducers) r->advance(scope, count);
  scope.seek();
}

/// One row element after the other; returns their number.
Value* LoopStages::elements(Scope& scope, RowStage& stage) {
  llvm::AllocaInst* counter = k_.slot(ir_.getInt64Ty(), "position");
  ir_.CreateStore(k_.i64(0), counter);
  row_loops(scope, f_.rank, f_.axes, [&](Scope& row) {
    row.seek();
    Value* position = ir_.CreateLoad(ir_.getInt64Ty(), counter);
    if (f_.plan.mode == LaneMode::parallel) prefetch_down(f_, row, stage.stage.body, 16);
    update(row, stage, 0, position, nullptr);
    row.seek();
    Value* next = ir_.CreateAdd(position, k_.i64(1));
    ir_.CreateStore(next, counter);
    advance_all(row, stage, next);
  });
  scope.seek();
  return ir_.CreateLoad(ir_.getInt64Ty(), counter);
}

/// Vectors along the row, in groups of round_elements; returns the number of elements.
Value* LoopStages::groups(Scope& scope, RowStage& stage) {
  int axis = f_.axes - 1;
  bool several = f_.axes > f_.rank + 1;
  llvm::AllocaInst* counter = several ? k_.slot(ir_.getInt64Ty(), "position") : nullptr;
  if (counter) ir_.CreateStore(k_.i64(0), counter);
  Value* total = nullptr;
  row_loops(scope, f_.rank, axis, [&](Scope& row) {
    Value* n = emit_expr(row, f_.extent(axis)).v;
    row.seek();
    Value* before =
        counter ? static_cast<Value*>(ir_.CreateLoad(ir_.getInt64Ty(), counter)) : k_.i64(0);
    const int64_t round = stage.shape.group;
    Value* whole = ir_.CreateAnd(n, k_.i64(-round));
    const bool nonempty = f_.at_least_one(axis) && f_.extent(axis).constant_value() >= round;
    if (stage.turns)
      emit_loop(row, k_.i64(0), whole, k_.i64(turn_elements), nonempty, [&](Scope& turn, Value* i) {
        Value* end = ir_.CreateBinaryIntrinsic(Intrinsic::smin,
                                               ir_.CreateAdd(i, k_.i64(turn_elements)), whole);
        rounds(turn, stage, i, end, before, true);
        turn.seek();
        rounds(turn, *stage.ahead, i, end, before, true);
      });
    else
      rounds(row, stage, k_.i64(0), whole, before, nonempty);
    row.seek();
    if (counter) {
      ir_.CreateStore(ir_.CreateAdd(before, n), counter);
      return;
    }
    total = n;
    emit_if(row, ir_.CreateICmpSLT(whole, n), [&](Scope& rest) {
      Value* left = ir_.CreateSub(n, whole);
      group(rest, stage, axis, whole, whole, left);
      if (stage.turns) group(rest, *stage.ahead, axis, whole, whole, left);
    });
  });
  scope.seek();
  return counter ? ir_.CreateLoad(ir_.getInt64Ty(), counter) : total;
}

/// Whole groups from coordinate `begin` to `end`, behind `before` elements of the rows before.
void LoopStages::rounds(Scope& row, RowStage& stage, Value* begin, Value* end, Value* before,
                        bool nonempty) {
  const int axis = f_.axes - 1;
  emit_loop(row, begin, end, k_.i64(stage.step), nonempty, [&](Scope& round, Value* i) {
    // With a constant extent every element exists, or none does; the tail shares the invariants
    // otherwise.
    if (f_.at_least_one(axis)) round.make_certain();
    Value* position = ir_.CreateAdd(before, i);
    group(round, stage, axis, i, position, nullptr);
    Value* count = ir_.CreateAdd(position, k_.i64(stage.step));
    advance_all(round, stage, count);
    if (stage.ahead && !stage.turns) advance_all(round, *stage.ahead, count);
  });
}

/// The vectors of one group, or step, that begins at coordinate i; `left` (or null): how many of a
/// group's elements exist.
void LoopStages::group(Scope& scope, RowStage& stage, int axis, Value* i, Value* position,
                       Value* left) {
  const int lanes = f_.plan.lanes, together = left ? 1 : stage.together;
  const auto vectors = static_cast<int>((left ? stage.shape.group : stage.step) / lanes);
  for (int c = 0; c < vectors; c += together) {
    auto vector = [&](Scope& s) {
      Scope copy(s, false);
      copy.set_axis(axis, c ? ir_.CreateAdd(i, k_.i64(c * lanes)) : i);
      Value* some =
          left ? lanes_.mask(c ? ir_.CreateSub(left, k_.i64(c * lanes)) : left, lanes) : nullptr;
      f_.set_lanes(copy, axis, together * lanes, some);
      if (some && copy.alternate()) some = to_alternate(k_, some);
      if (!left) prefetches_.emit(copy, stage.number, c);
      if (stage.behind) emit_body(copy, *stage.behind);
      update(copy, stage, c, position, some);
      if (stage.ahead && !stage.turns) update(copy, *stage.ahead, c, position, some);
      copy.seek();
      s.move_to(ir_.GetInsertBlock());
    };
    if (left && c > 0)
      emit_if(scope, ir_.CreateICmpSGT(left, k_.i64(c * lanes)), vector);
    else
      vector(scope);
    scope.seek();
  }
}

}  // namespace hologram::cpu
