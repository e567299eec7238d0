// backend/cpu/loops/columns.cpp: row stages down columns, a block of columns at a time.
#include "backend/cpu/loops/columns.h"

#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <bit>

#include "atlas/order.h"
#include "backend/cpu/loops/block_tree.h"
#include "backend/cpu/loops/columns_plan.h"
#include "backend/cpu/loops/prefetch.h"
#include "backend/cpu/loops/reduce.h"
#include "codegen/nest.h"

namespace hologram::cpu {
namespace {

namespace Intrinsic = llvm::Intrinsic;

constexpr int64_t block_rows = atlas::sum_block, partial_rows = atlas::sum_partials;
static_assert(partial_rows == 64, "their numbers are six bits, reversed");

// One reduction of `most` vectors of columns.
class ColumnSum {
 public:
  ColumnSum(CpuFunction& k, const atlas::Reduction& r, const Expr& rows, int lanes, int most,
            int together)
      : k_(k),
        r_(r),
        lanes_(lanes),
        most_(most),
        tree_levels_(std::countr_zero(static_cast<unsigned>(partial_rows / together))),
        type_(k.lane_type(r.type, lanes)) {
    llvm::Constant* one = k.identity(r.op, r.type);
    identity_ = lanes > 1 ? llvm::ConstantVector::getSplat(
                                llvm::ElementCount::getFixed(static_cast<unsigned>(lanes)), one)
                          : one;
    const int64_t numbers = partial_rows / together;
    for (int p = 0; p < together && (p == 0 || p * numbers < rows.constant_value()); ++p)
      partials_.push_back(k.slot(type_, "partial"));
    levels_ = k.slot(type_, "tree", (tree_levels_ + 1) * most);
    if (const int levels = block_levels(rows); levels > 0)
      blocks_ = std::make_unique<BlockTree>(k, r, type_, levels, most);
  }

  BlockTree* blocks() { return blocks_.get(); }

  void begin_partial(Scope& scope) {
    scope.seek();
    for (Value* p : partials_) k_.ir.CreateStore(identity_, p);
  }
  /// `first`: nothing has come before. Only the first partial takes the identity then: one +0 among
  /// zeros is enough for a sum's sign.
  void update(int number, LaneValue value, bool first) {
    auto& ir = k_.ir;
    Value* x = splat(k_, value, lanes_);
    Value* partial = partials_[static_cast<size_t>(number)];
    if (!first || number == 0) x = combine(k_, r_.op, r_.type, ir.CreateLoad(type_, partial), x);
    ir.CreateStore(x, partial);
  }
  void end_partial(Scope& scope, Value* number, Value* vector) {
    scope.seek();
    auto& ir = k_.ir;
    std::vector<Value*> all;
    for (Value* p : partials_) all.push_back(ir.CreateLoad(type_, p));
    for (size_t half = std::bit_ceil(all.size()) / 2; half > 0; half /= 2) {
      for (size_t p = 0; p + half < all.size(); ++p)
        all[p] = combine(k_, r_.op, r_.type, all[p], all[p + half]);
      all.resize(std::min(all.size(), half));
    }
    Value* full = ir.CreateBinaryIntrinsic(Intrinsic::cttz, ir.CreateNot(number), ir.getFalse());
    auto sum = emit_loop(scope, k_.i64(0), full, k_.i64(1), false, {all[0]},
                         [&](Scope&, Value* level, std::vector<Value*> v) -> std::vector<Value*> {
                           Value* x = ir.CreateLoad(type_, at(level, vector));
                           return {combine(k_, r_.op, r_.type, x, v[0])};
                         });
    scope.seek();
    ir.CreateStore(sum[0], at(full, vector));
  }
  void end_block(Scope& scope, Value* vector) {
    scope.seek();
    blocks_->push(scope, k_.ir.CreateLoad(type_, top(vector)), vector);
  }
  Value* finish(Scope& scope, Value* vector) {
    scope.seek();
    return blocks_ ? blocks_->finish(scope, identity_, vector)
                   : k_.ir.CreateLoad(type_, top(vector));
  }

 private:
  Value* at(Value* level, Value* vector) {
    Value* first = k_.ir.CreateMul(level, k_.i64(most_));
    return k_.ir.CreateGEP(type_, levels_, k_.ir.CreateAdd(first, vector));
  }
  Value* top(Value* vector) { return at(k_.i64(tree_levels_), vector); }

  CpuFunction& k_;
  const atlas::Reduction& r_;
  int lanes_, most_, tree_levels_;
  llvm::Type* type_;
  llvm::Constant* identity_;
  std::vector<Value*> partials_;
  Value* levels_;
  std::unique_ptr<BlockTree> blocks_;
};

}  // namespace

void LoopColumns::line(Scope& scope, Value* low, Value* high) {
  const int axis = f_.rank - 1, lanes = f_.plan.lanes;
  scope.seek();
  Value* whole = ir_.CreateAnd(ir_.CreateSub(high, low), k_.i64(-lanes));
  Value* stop = ir_.CreateAdd(low, whole);
  Value* step = k_.i64(int64_t{lanes} * f_.plan.columns);
  emit_loop(scope, low, stop, step, false, [&](Scope& block, Value* first) {
    Value* left = ir_.CreateBinaryIntrinsic(Intrinsic::smin, step, ir_.CreateSub(stop, first));
    Value* count = ir_.CreateUDiv(left, k_.i64(lanes));
    auto each = [&](Scope& outer, const std::function<void(Scope&, Value*)>& fill) {
      emit_loop(outer, k_.i64(0), count, k_.i64(1), true, [&](Scope& one, Value* number) {
        one.set_axis(axis, ir_.CreateAdd(first, ir_.CreateMul(number, k_.i64(lanes))));
        f_.set_lanes(one, axis, lanes);
        fill(one, number);
      });
    };
    stages(block, {lanes, f_.plan.columns, each});
  });
  lanes_.rest(scope, axis, stop, high, [&](Scope& one) {
    auto each = [&](Scope& outer, const std::function<void(Scope&, Value*)>& fill) {
      fill(outer, k_.i64(0));
    };
    stages(one, {one.lanes(), 1, each});
  });
}

void LoopColumns::stages(Scope& scope, const Vectors& vectors) {
  Kept kept;
  for (const atlas::Stage& s : f_.block.stages) {
    if (s.kind == atlas::StageKind::point)
      vectors.each(scope, [&](Scope& one, Value* number) {
        show(one, vectors, kept, number);
        emit_body(one, s.body);
      });
    else if (s.reductions.empty())
      each_row(scope, s, vectors, kept);
    else
      reduce(scope, s, vectors, kept);
  }
}

/// What the accumulators are at a vector of columns.
void LoopColumns::show(Scope& scope, const Vectors& vectors, const Kept& kept, Value* number) {
  scope.seek();
  for (size_t a = 0; a < kept.size(); ++a) {
    llvm::Type* type = kept[a]->getAllocatedType();
    Value* value = ir_.CreateLoad(type, ir_.CreateGEP(type, kept[a], number));
    scope.set_accumulator(static_cast<int>(a), {value, vectors.lanes > 1});
  }
}

void LoopColumns::each_row(Scope& scope, const atlas::Stage& s, const Vectors& vectors,
                           const Kept& kept) {
  constexpr int64_t together = 32;  // rows
  Value* n = emit_expr(scope, f_.extent(f_.rank)).v;
  const bool some = f_.at_least_one(f_.rank);
  emit_loop(scope, k_.i64(0), n, k_.i64(together), some, [&](Scope& rows, Value* first) {
    Value* end =
        ir_.CreateBinaryIntrinsic(Intrinsic::smin, ir_.CreateAdd(first, k_.i64(together)), n);
    vectors.each(rows, [&](Scope& one, Value* number) {
      show(one, vectors, kept, number);
      emit_loop(one, first, end, k_.i64(1), true, [&](Scope& row, Value* i) {
        if (some) row.make_certain();
        row.set_axis(f_.rank, i);
        prefetch_down(f_, row, s.body, together / 2);
        emit_body(row, s.body);
      });
    });
  });
}

/// What has no order: row after row, some of them for each vector of columns.
void LoopColumns::reduce_rows(Scope& scope, const atlas::Stage& s, const Vectors& vectors,
                              Kept& kept) {
  constexpr int64_t together = 32;
  const int lanes = vectors.lanes;
  Value* n = emit_expr(scope, f_.extent(f_.rank)).v;
  const bool some = f_.at_least_one(f_.rank);
  std::vector<llvm::AllocaInst*> results;
  for (const atlas::Reduction& r : s.reductions)
    results.push_back(k_.slot(k_.lane_type(r.type, lanes), "column", vectors.most));
  auto place = [&](size_t r, Value* vector) {
    return ir_.CreateGEP(results[r]->getAllocatedType(), results[r], vector);
  };
  vectors.each(scope, [&](Scope& one, Value* vector) {
    one.seek();
    for (size_t r = 0; r < results.size(); ++r) {
      const atlas::Reduction& what = s.reductions[r];
      ir_.CreateStore(splat(k_, {k_.identity(what.op, what.type), false}, lanes), place(r, vector));
    }
  });
  emit_loop(scope, k_.i64(0), n, k_.i64(together), some, [&](Scope& rows, Value* first) {
    Value* end =
        ir_.CreateBinaryIntrinsic(Intrinsic::smin, ir_.CreateAdd(first, k_.i64(together)), n);
    vectors.each(rows, [&](Scope& one, Value* vector) {
      show(one, vectors, kept, vector);
      std::vector<Value*> start;
      for (size_t r = 0; r < results.size(); ++r)
        start.push_back(ir_.CreateLoad(results[r]->getAllocatedType(), place(r, vector)));
      auto reduced =
          emit_loop(one, first, end, k_.i64(1), true, start,
                    [&](Scope& row, Value* i, std::vector<Value*> now) -> std::vector<Value*> {
                      if (some) row.make_certain();
                      row.set_axis(f_.rank, i);
                      std::vector<LaneValue> values = emit_body(row, s.body);
                      row.seek();
                      for (size_t r = 0; r < now.size(); ++r) {
                        const atlas::Reduction& what = s.reductions[r];
                        now[r] = combine(k_, what.op, what.type, now[r],
                                         splat(k_, values[what.value], lanes));
                      }
                      return now;
                    });
      one.seek();
      for (size_t r = 0; r < results.size(); ++r) ir_.CreateStore(reduced[r], place(r, vector));
    });
  });
  kept.insert(kept.end(), results.begin(), results.end());
}

void LoopColumns::reduce(Scope& scope, const atlas::Stage& s, const Vectors& vectors, Kept& kept) {
  if (std::ranges::all_of(s.reductions, in_any_order)) return reduce_rows(scope, s, vectors, kept);
  const Expr& rows = f_.extent(f_.rank);
  Value* n = emit_expr(scope, rows).v;
  const bool some = f_.at_least_one(f_.rank);
  const int64_t last = some ? (rows.constant_value() - 1) % block_rows + 1 : 0;
  const int together = partials_together(f_.block, k_.target);
  const int64_t numbers = partial_rows / together;
  std::vector<ColumnSum> sums;
  sums.reserve(s.reductions.size());
  for (const atlas::Reduction& r : s.reductions)
    sums.emplace_back(k_, r, rows, vectors.lanes, vectors.most, together);
  const bool several = sums[0].blocks() != nullptr;
  for (ColumnSum& sum : sums)
    if (several) sum.blocks()->reset(scope);
  const auto unused_bits =
      static_cast<uint64_t>(8 - std::countr_zero(static_cast<uint64_t>(numbers)));
  auto update = [&](Scope& row, Value* i, int number, bool starts) {
    row.seek();
    row.set_axis(f_.rank, i);
    if (together == 1) prefetch_down(f_, row, s.body, partial_rows);
    std::vector<LaneValue> values = emit_body(row, s.body);
    row.seek();
    for (size_t r = 0; r < sums.size(); ++r)
      sums[r].update(number, values[s.reductions[r].value], starts);
  };
  auto group = [&](Scope& scope, Value* i, int count, bool starts) {
    for (int p = 0; p < count; ++p) {
      scope.seek();
      Scope row(scope, false);
      row.make_certain();
      update(row, ir_.CreateAdd(i, k_.i64(p * numbers)), p, starts);
      row.seek();
      scope.move_to(ir_.GetInsertBlock());
    }
  };
  // Of known rows, `first` being one of the first `numbers`.
  auto partials = [&](Scope& one, Value* first) {
    const int64_t count = rows.constant_value(), whole = count - count % partial_rows;
    if (whole > 0) group(one, first, together, true);
    if (whole > partial_rows) {
      one.seek();
      emit_loop(one, ir_.CreateAdd(first, k_.i64(partial_rows)), k_.i64(whole),
                k_.i64(partial_rows), true,
                [&](Scope& row, Value* i) { group(row, i, together, false); });
    }
    one.seek();
    Value* i = ir_.CreateAdd(first, k_.i64(whole));
    const int64_t left = count - whole;
    group(one, i, static_cast<int>(left / numbers), whole == 0);
    if (left % numbers == 0) return;
    one.seek();
    const auto p = static_cast<int>(left / numbers);
    Value* row = ir_.CreateAdd(i, k_.i64(p * numbers));
    emit_if(one, ir_.CreateICmpSLT(row, n), [&](Scope& rest) { update(rest, row, p, false); });
  };
  auto partial = [&](Scope& one, Value* number, Value* first, Value* end, Value* vector) {
    show(one, vectors, kept, vector);
    for (ColumnSum& sum : sums) sum.begin_partial(one);
    if (together > 1)
      partials(one, first);
    else
      emit_loop(one, first, end, k_.i64(partial_rows), last >= partial_rows,
                [&](Scope& row, Value* i) {
                  if (some) row.make_certain();
                  update(row, i, 0, false);
                });
    for (ColumnSum& sum : sums) sum.end_partial(one, number, vector);
  };
  emit_loop(scope, k_.i64(0), n, k_.i64(block_rows), some, [&](Scope& block, Value* base) {
    Value* end =
        ir_.CreateBinaryIntrinsic(Intrinsic::smin, ir_.CreateAdd(base, k_.i64(block_rows)), n);
    emit_loop(block, k_.i64(0), k_.i64(numbers), k_.i64(1), true, [&](Scope& of, Value* number) {
      Value* reversed =
          ir_.CreateUnaryIntrinsic(Intrinsic::bitreverse, ir_.CreateTrunc(number, ir_.getInt8Ty()));
      Value* first = ir_.CreateAdd(
          base, ir_.CreateZExt(ir_.CreateLShr(reversed, unused_bits), ir_.getInt64Ty()));
      vectors.each(of,
                   [&](Scope& one, Value* vector) { partial(one, number, first, end, vector); });
    });
    if (!several) return;
    vectors.each(block, [&](Scope& one, Value* vector) {
      for (ColumnSum& sum : sums) sum.end_block(one, vector);
    });
    for (ColumnSum& sum : sums) sum.blocks()->next_block(block);
  });
  std::vector<llvm::AllocaInst*> results;
  for (const atlas::Reduction& r : s.reductions)
    results.push_back(k_.slot(k_.lane_type(r.type, vectors.lanes), "column", vectors.most));
  vectors.each(scope, [&](Scope& one, Value* vector) {
    for (size_t r = 0; r < sums.size(); ++r) {
      Value* value = sums[r].finish(one, vector);
      ir_.CreateStore(value, ir_.CreateGEP(value->getType(), results[r], vector));
    }
  });
  kept.insert(kept.end(), results.begin(), results.end());
}

}  // namespace hologram::cpu
