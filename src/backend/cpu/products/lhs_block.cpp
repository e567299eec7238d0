// backend/cpu/products/lhs_block.cpp: the left operand of a product's units, in place or copied.
//
// A copy has rows with a stride of a whole number of vectors plus one, or lies k by k where m is
// the contiguous axis. Chunks of one thread that follow each other share it: the kernel notes which
// block it made in front of the thread's scratch memory, where the note lasts as long as the launch
// and the memory do (Context::launch). Rows that are taken by their numbers (x[indices] @ w, 32 or
// more) are found by this copy where they lie.
#include "backend/cpu/products/lhs_block.h"

#include <llvm/IR/Intrinsics.h>

#include "backend/cpu/operands/pack.h"
#include "codegen/nest.h"

namespace hologram::cpu {

LhsBlock::LhsBlock(CpuFunction& kernel, const ProductPlan& plan, Value* depth)
    : IndexBuilder(kernel),
      p_(kernel.program.product()),
      plan_(plan),
      type_(p_.acc_type),
      m_axis_(p_.batch_rank),
      k_axis_(m_axis_ + 2),
      depth_(depth),
      size_(k_.i64(0)) {
  const int lanes = plan_.tile.lanes;
  if (plan_.lhs == LhsPath::rows) {
    runs_ = split_axis(p_.lhs, k_axis_, plan_.k, k_axis_ + 1);
    // A little more than a whole number of vectors, so that rows do not meet in the same cache
    // sets.
    stride_ = add(round_up(depth_, lanes), k_.i64(lanes));
    size_ = mul(stride_, plan_.block_rows);
  } else if (plan_.lhs == LhsPath::columns) {
    if (!first_stride(p_.lhs, m_axis_)) runs_ = split_axis(p_.lhs, m_axis_, plan_.m, k_axis_ + 1);
    // No wider than there are rows, or a few columns of them would lie a page apart.
    stride_ = number(ceil_div(min(plan_.m, Expr(plan_.block_rows)), Expr(lanes)) * Expr(lanes) +
                     Expr(lanes));
    k_.root().seek();
    size_ = mul(stride_, add(depth_, k_.i64(1)));
  }
}

void LhsBlock::place(Value* scratch, GroupPacker* groups) {
  scratch_ = scratch;
  groups_ = groups;
  if (plan_.lhs != LhsPath::direct) {
    copied_ = emit_block_note(k_.root(), scratch_);
    k_.root().seek();
  }
  if (plan_.lhs_load) in_place_ = number(plan_.lhs_load->x_stride);
}

LhsRows LhsBlock::emit(Scope& scope, Value* number, Value* begin, Value* rows) {
  if (plan_.lhs == LhsPath::direct) {
    Value* first = emit_expr(scope, plan_.lhs_load->base).v;
    scope.seek();
    Value* base =
        element(k_, type_, k_.buffer(plan_.lhs_load->buffer), add(first, mul(in_place_, begin)));
    return {base, in_place_, k_.i64(1)};
  }
  scope.seek();
  Value *have = k_.ir.CreateLoad(k_.ir.getInt64Ty(), copied_), *note = add(number, 1);
  emit_if(scope, k_.ir.CreateICmpNE(have, note), [&](Scope& s) {
    s.seek();
    k_.ir.CreateStore(note, copied_);
    copy(s, begin, rows);
  });
  if (plan_.lhs == LhsPath::rows) return {scratch_, stride_, k_.i64(1)};
  return {scratch_, k_.i64(1), stride_};
}

void LhsBlock::copy(Scope& scope, Value* begin, Value* rows) {
  const bool by_rows = plan_.lhs == LhsPath::rows;
  if (groups_) groups_->start_block(scope);
  Operand lhs{p_.lhs, p_.operand_type, type_, plan_.tile.lanes};
  auto row = [&](Scope& s, Value* i, Value* out) {
    s.set_axis(m_axis_, add(begin, i));
    if (groups_) return groups_->pack_row(s, out);
    if (runs_) return gather_runs(s, *runs_, p_.operand_type, type_, plan_.tile.lanes, out);
    lhs.gather(s, {k_axis_, k_.i64(0), depth_}, out);
  };
  auto step = [&](Scope& s, Value* i, Value* out) {
    if (groups_) return groups_->pack_step(s, i, begin, rows, out);
    s.set_axis(k_axis_, i);
    if (runs_) return gather_pieces(s, begin, rows, out);
    lhs.gather(s, {m_axis_, begin, rows}, out);
  };
  emit_loop(scope, k_.i64(0), by_rows ? rows : depth_, k_.i64(1), by_rows, [&](Scope& s, Value* i) {
    s.seek();
    Value* out = element(k_, type_, scratch_, mul(i, stride_));
    by_rows ? row(s, i, out) : step(s, i, out);
  });
}

// out = the rows where these lie in several runs.
void LhsBlock::gather_pieces(Scope& scope, Value* begin, Value* rows, Value* out) {
  const Level &runs = runs_->levels[0], &inside = runs_->levels[1];
  Operand lhs{runs_->body, p_.operand_type, type_, plan_.tile.lanes};
  scope.seek();
  Value *size = k_.i64(runs.stride), *end = add(begin, rows);
  Value *first = div(begin, size), *last = div(sub(end, k_.i64(1)), size);
  emit_loop(scope, first, add(last, 1), k_.i64(1), true, [&](Scope& s, Value* run) {
    s.set_axis(runs.axis, run);
    s.seek();
    Value* origin = mul(run, size);
    Value* from = k_.ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, origin, begin);
    Value* to = least(add(origin, size), end);
    lhs.gather(s, {inside.axis, sub(from, origin), sub(to, from)},
               element(k_, type_, out, sub(from, begin)));
  });
}

}  // namespace hologram::cpu
