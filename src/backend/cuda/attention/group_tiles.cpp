// backend/cuda/attention/group_tiles.cpp: tiles, slots and sums of attention by warpgroups.
//
// A CTA has tiles of 64 rows for each of two or three warpgroups. A thread of the first warpgroup
// has a tile's queries and block after block of keys and their values copied into shared memory,
// two of each; the others multiply.
#include "backend/cuda/attention/group_tiles.h"

#include <llvm/IR/Intrinsics.h>

#include "backend/cuda/warp.h"
#include "backend/cuda/warpgroups.h"
#include "codegen/nest.h"

namespace hologram::cuda {

GroupTiles::GroupTiles(CudaFunction& k, const GroupsPlan& plan, bool exact)
    : k_(k),
      ir_(k.ir),
      async_(k),
      a_(k.program.attention()),
      plan_(plan.plan),
      shape_(plan.shape),
      real_(ir_.getFloatTy()),
      matrices_(plan.matrices),
      exact_(exact) {}

void GroupTiles::run() {
  k_.root().seek();
  base_ = async_.memory();
  auto make_barriers = [&] {
    for (const AttentionKind kind : attention_kinds)
      for (int s = 0; s < (kind == queries_kind ? 1 : GroupsShape::slots); ++s) {
        async_.make_barrier(full(kind, number(s)), 1);
        async_.make_barrier(empty(kind, number(s)), 4 * shape_.groups);  // of each warp
      }
  };
  auto prepare = [&] {
    stride_ = number_of_ctas(k_);
    tiles_ = ir_.CreateTrunc(k_.total(), ir_.getInt32Ty());
  };
  auto take = [&](Scope& consumer, Value* group) {
    group_ = group;
    take_tiles(consumer);
  };
  const bool three = shape_.groups == most_groups;
  emit_warpgroups(k_, async_,
                  {make_barriers, prepare, three ? 32 : 40, three ? 160 : 232,
                   [&](Scope& one) { bring_tiles(one); }, take});
}

Value* GroupTiles::full(AttentionKind kind, Value* slot) {
  const int first = kind == queries_kind ? 0 : kind == keys_kind ? 1 : 1 + GroupsShape::slots;
  return ir_.CreateAdd(ir_.CreateAdd(base_, number(shape_.barriers_at() + 16 * first)),
                       ir_.CreateShl(slot, 4));
}
Value* GroupTiles::empty(AttentionKind kind, Value* slot) {
  return ir_.CreateAdd(full(kind, slot), number(8));
}
Value* GroupTiles::place(AttentionKind kind, Value* slot) {
  if (kind == queries_kind) return base_;
  const int first = kind == keys_kind ? shape_.keys_at() : shape_.values_at();
  return ir_.CreateAdd(ir_.CreateAdd(base_, number(first)),
                       ir_.CreateMul(slot, number(part(kind).size())));
}
std::pair<Value*, Value*> GroupTiles::next(Value* slot, Value* parity) {
  return {ir_.CreateXor(slot, number(1)), ir_.CreateXor(parity, slot)};
}

std::pair<Value*, Value*> GroupTiles::keys_of(AttentionRows& rows) {
  Value* least = ir_.CreateAdd(rows.key_begin(), k_.i64(1));
  return {rows.key_begin(),
          ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, rows.key_end(), least)};
}

// The coordinates behind the neighbours and rows.
GroupTiles::Values GroupTiles::batch_of(Scope& at, const MappedFactor& f) {
  Values out;
  auto coordinate = [&](int b) {
    Value* x = narrow(emit_expr(at, Expr::axis(b, a_.axes[static_cast<size_t>(b)].extent)).v);
    at.seek();
    return x;
  };
  if (f.planes) {
    Value* plane = number(0);
    for (const int b : *f.planes) {
      Value* size = narrow(emit_expr(at, a_.axes[static_cast<size_t>(b)].extent).v);
      at.seek();
      plane = ir_.CreateAdd(ir_.CreateMul(plane, size), coordinate(b));
    }
    return {plane, number(0)};
  }
  for (int b = 0; b < a_.batch_rank; ++b) {
    const auto axis = static_cast<size_t>(b);
    Value* x = number(0);
    if (!f.matrix.sizes[axis + 2].is(1)) {
      x = coordinate(b);
      if (f.shared[axis] > 1) x = ir_.CreateUDiv(x, number(static_cast<int>(f.shared[axis])));
    }
    out.push_back(x);
  }
  return out;
}

void GroupTiles::bring(AttentionKind kind, Value* slot, Value* first, const Values& batch) {
  const GroupsShape::Part& p = part(kind);
  async_.expect(full(kind, slot), p.size());
  for (int b = 0; b < p.boxes; ++b) {
    Values at{number(b * p.numbers), first};
    at.insert(at.end(), batch.begin(), batch.end());
    async_.copy(ir_.CreateAdd(place(kind, slot), number(b * p.bytes)), k_.map(kind), at,
                full(kind, slot));
  }
}

void GroupTiles::bring_tiles(Scope& one) {
  emit_loop(one, k_.cta(), tiles_, stride_, true, {number(0), number(1), number(1)},
            [&](Scope& round, Value* tile, Values state) -> Values {
              round.seek();
              AttentionRows rows(k_, plan_, shape_.threads(), round, tile);
              Scope& scope = rows.scope();
              scope.seek();
              std::array<Values, 3> batch;
              for (const AttentionKind kind : attention_kinds)
                batch[kind] = batch_of(scope, matrices_[kind]);
              const auto [begin, end] = keys_of(rows);
              async_.wait(empty(queries_kind, number(0)), state[2]);
              bring(queries_kind, number(0), narrow(rows.queries().first), batch[queries_kind]);
              Value* parity = ir_.CreateXor(state[2], number(1));
              state.pop_back();
              state = emit_loop(scope, begin, end, k_.i64(plan_.key_block), true, state,
                                [&](Scope& block, Value* key, const Values& now) -> Values {
                                  block.seek();
                                  for (const AttentionKind kind : {keys_kind, values_kind}) {
                                    async_.wait(empty(kind, now[0]), now[1]);
                                    bring(kind, now[0], narrow(key), batch[kind]);
                                  }
                                  const auto [slot, after] = next(now[0], now[1]);
                                  return {slot, after};
                                });
              scope.seek();
              round.move_to(ir_.GetInsertBlock());
              state.push_back(parity);
              return state;
            });
}

void GroupTiles::take_tiles(Scope& consumer) {
  consumer.seek();
  Value* inside = ir_.CreateAnd(k_.thread(), number(GroupsShape::group - 1));
  lane_ = ir_.CreateAnd(inside, number(31));
  warp_ = ir_.CreateLShr(inside, 5);
  leads_ = ir_.CreateICmpEQ(lane_, number(0));
  warp_row_ = ir_.CreateAdd(ir_.CreateMul(group_, number(group_rows)), ir_.CreateShl(warp_, 4));
  softmax_.emplace(k_, plan_, group_, lane_, warp_row_, exact_);
  emit_loop(consumer, k_.cta(), tiles_, stride_, true, {number(0), number(0), number(0)},
            [&](Scope& round, Value* tile, Values state) {
              round.seek();
              AttentionRows rows(k_, plan_, shape_.threads(), round, tile);
              state = take_tile(rows, std::move(state));
              rows.scope().seek();
              round.move_to(ir_.GetInsertBlock());
              return state;
            });
}

void GroupTiles::finish(AttentionRows& rows, GroupSoftmax::State& state, Values& sums) {
  Scope& scope = rows.scope();
  scope.seek();
  GroupSoftmax::Halves scale;
  for (size_t h = 0; h < halves; ++h) {
    Value*& total = state.totals[h];
    total = softmax_->across_row(total, [&](Value* x, Value* y) { return ir_.CreateFAdd(x, y); });
    Value* inverse = ir_.CreateFDiv(llvm::ConstantFP::get(real_, 1.0), total);
    scale[h] = ir_.CreateSelect(ir_.CreateFCmpOEQ(total, zero()), zero(), inverse);
  }
  for (size_t n = 0; n < sums.size(); ++n) sums[n] = ir_.CreateFMul(sums[n], scale[n % 4 / 2]);
  check_results(scope, state, sums);
  scope.seek();
  const SumSlices slices = shape_.slices();
  Value* offset =
      ir_.CreateMul(ir_.CreateAdd(ir_.CreateShl(group_, 2), warp_), number(slices.bytes()));
  Value* memory = ir_.CreateIntToPtr(
      ir_.CreateAdd(ir_.CreateAdd(base_, number(shape_.sums_at())), offset), ir_.getPtrTy(3));
  auto exists = [&](Value* row) {
    Value* at = ir_.CreateAdd(rows.queries().first, wide(row));
    return ir_.CreateICmpSLT(at, rows.queries().count);
  };
  hand_out(k_, scope, slices, memory, lane_, sums,
           [&](Scope& some, Value* row, Value* column, Value* from) {
             row = ir_.CreateAdd(warp_row_, row);
             emit_if(some, exists(row), [&](Scope& point) {
               point.seek();
               rows.set_row(point, row);
               run_over(k_, point, a_.epilogue, a_.batch_rank + 3, wide(column),
                        rows.values().count, from, slices.lanes, real_);
             });
           });
  if (a_.lse.instrs.empty()) return;
  for (size_t h = 0; h < halves; ++h) {
    scope.seek();
    Value *maximum = softmax_->score_of(state.maxima[h]), *row = softmax_->row_of(h);
    Value* leads = ir_.CreateICmpEQ(ir_.CreateAnd(lane_, number(3)), number(0));
    emit_if(scope, ir_.CreateAnd(leads, exists(row)),
            [&](Scope& point) { rows.store_log_sum(point, row, maximum, state.totals[h]); });
  }
  scope.seek();
  sync_warp(ir_);  // the next tile's products are the whole warp's
}

}  // namespace hologram::cuda
