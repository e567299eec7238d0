// backend/cuda/attention/softmax.cpp: masks, maxima and exponentials in registers.
//
// Where operands of 16 bits round exponentials to their type at once, these are powers of two by
// ex2.approx, of differences that fma has scaled.
#include "backend/cuda/attention/softmax.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <numbers>

#include "backend/cuda/warp.h"
#include "codegen/nest.h"

namespace hologram::cuda {

namespace Intrinsic = llvm::Intrinsic;

GroupSoftmax::GroupSoftmax(CudaFunction& k, const AttentionPlan& plan, Value* group, Value* lane,
                           Value* warp_row, bool exact)
    : k_(k),
      ir_(k.ir),
      a_(k.program.attention()),
      plan_(plan),
      group_(group),
      lane_(lane),
      warp_row_(warp_row),
      exact_(exact) {}

Value* GroupSoftmax::row_of(size_t half) {
  Value* row = ir_.CreateAdd(warp_row_, ir_.CreateLShr(lane_, 2));
  return ir_.CreateAdd(row, number(static_cast<int>(8 * half)));
}

llvm::Constant* GroupSoftmax::scale_of_power() {
  return llvm::ConstantFP::get(ir_.getFloatTy(),
                               std::numbers::log2e * (scales_late() ? a_.scale : 1));
}

Value* GroupSoftmax::power(Value* e) {
  return ir_.CreateIntrinsic(Intrinsic::nvvm_ex2_approx_ftz_f, {}, {e});
}

Value* GroupSoftmax::score_of(Value* maximum) {
  if (!scales_late()) return maximum;
  return ir_.CreateFMul(maximum, llvm::ConstantFP::get(ir_.getFloatTy(), a_.scale));
}

Value* GroupSoftmax::across_row(Value* v, const std::function<Value*(Value*, Value*)>& merge) {
  for (int distance = 1; distance <= 2; distance *= 2)
    v = merge(v, shuffle(ir_, v, number(distance), true));
  return v;
}

void GroupSoftmax::finish_scores(AttentionRows& rows, Scope& part, Value* key, Values& scores) {
  Value* first = ir_.CreateShl(ir_.CreateAnd(lane_, number(3)), 1);
  first = ir_.CreateAdd(key, wide(first));
  if (!is_scaled()) return run_bodies(rows, part, first, scores);
  if (!scales_late())
    for (Value*& x : scores)
      x = ir_.CreateFMul(x, llvm::ConstantFP::get(ir_.getFloatTy(), a_.scale));
  // Where all rows of the group see all keys of the block nothing is to be done.
  Value* behind = ir_.CreateAdd(key, k_.i64(plan_.key_block));
  Value* hidden = ir_.CreateICmpSGT(behind, rows.key_end());
  if (a_.causal) {
    Value* row =
        ir_.CreateAdd(rows.queries().first, wide(ir_.CreateMul(group_, number(group_rows))));
    hidden = ir_.CreateOr(hidden, ir_.CreateICmpSGT(behind, ir_.CreateAdd(row, k_.i64(1))));
  }
  llvm::BasicBlock *before = ir_.GetInsertBlock(), *masks = k_.block("hide"), *on = k_.block("on");
  ir_.CreateCondBr(hidden, masks, on);
  ir_.SetInsertPoint(masks);
  Values masked = scores;
  hide(rows, first, masked);
  ir_.CreateBr(on);
  ir_.SetInsertPoint(on);
  for (size_t n = 0; n < scores.size(); ++n) {
    llvm::PHINode* both = ir_.CreatePHI(ir_.getFloatTy(), 2);
    both->addIncoming(scores[n], before);
    both->addIncoming(masked[n], masks);
    scores[n] = both;
  }
  part.move_to(on);
}

void GroupSoftmax::run_bodies(AttentionRows& rows, Scope& part, Value* first, Values& scores) {
  for (size_t h = 0; h < halves; ++h) {
    Scope row(part, false);
    row.seek();
    Value* query = rows.set_row(row, row_of(h));
    for (int n = 0; n < plan_.key_block / 8; ++n)
      for (size_t c = 0; c < 2; ++c) {
        Value*& x = scores[at(n, h, c)];
        row.seek();
        x = rows.score(row, query, ir_.CreateAdd(first, k_.i64(8 * n + static_cast<int>(c))), x);
      }
    row.seek();
    part.move_to(ir_.GetInsertBlock());
  }
  part.seek();
  sync_warp(ir_);
}

void GroupSoftmax::hide(AttentionRows& rows, Value* first, Values& scores) {
  for (size_t h = 0; h < halves; ++h) {
    Value* end = rows.key_end();
    if (a_.causal) {
      Value* row = ir_.CreateAdd(rows.queries().first, wide(row_of(h)));
      end = ir_.CreateBinaryIntrinsic(Intrinsic::smin, end, ir_.CreateAdd(row, k_.i64(1)));
    }
    Value* seen = ir_.CreateSub(end, first);
    seen = ir_.CreateBinaryIntrinsic(Intrinsic::smin, seen, k_.i64(plan_.key_block));
    seen = ir_.CreateBinaryIntrinsic(Intrinsic::smax, seen, k_.i64(0));
    seen = ir_.CreateTrunc(seen, ir_.getInt32Ty());
    for (int n = 0; n < plan_.key_block / 8; ++n)
      for (size_t c = 0; c < 2; ++c) {
        Value* sees = ir_.CreateICmpSGT(seen, number(8 * n + static_cast<int>(c)));
        Value*& x = scores[at(n, h, c)];
        x = ir_.CreateSelect(sees, x, rows.lowest());
      }
  }
}

GroupSoftmax::Halves GroupSoftmax::take_exponentials(AttentionRows& rows, Scope& part,
                                                     Values& scores, State& state) {
  Halves shrink;
  auto larger = [&](Value* x, Value* y) {  // of which NaN is none, as in AttentionRows
    return ir_.CreateBinaryIntrinsic(Intrinsic::maxnum, x, y);
  };
  for (size_t h = 0; h < halves; ++h) {
    Value* largest = state.maxima[h];
    for (int n = 0; n < plan_.key_block / 8; ++n)
      for (size_t c = 0; c < 2; ++c) largest = larger(scores[at(n, h, c)], largest);
    largest = across_row(largest, larger);
    Value* finite = rows.finite(largest);
    std::function<Value*(Value*)> exponential;
    if (exact_) {
      exponential = [&](Value* x) { return rows.exponential(part, x, finite); };
      shrink[h] = exponential(state.maxima[h]);
    } else {
      Value* less = ir_.CreateFMul(finite, scale_of_power());
      Value* before = ir_.CreateFMul(state.maxima[h], scale_of_power());
      shrink[h] = power(ir_.CreateFSub(before, less));
      exponential = [this, negative = ir_.CreateFNeg(less)](Value* x) {
        return power(multiply_add(k_, DType::f32, x, scale_of_power(), negative));
      };
    }
    Value* total = nullptr;
    for (int n = 0; n < plan_.key_block / 8; ++n)
      for (size_t c = 0; c < 2; ++c) {
        Value*& x = scores[at(n, h, c)];
        x = exponential(x);
        total = total ? ir_.CreateFAdd(total, x) : x;
      }
    part.seek();
    state.totals[h] = multiply_add(k_, DType::f32, state.totals[h], shrink[h], total);
    state.maxima[h] = largest;
  }
  return shrink;
}

}  // namespace hologram::cuda
