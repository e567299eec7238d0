// backend/cpu/products/lhs_block.cpp: the left operand of a product's units, in place or copied.
//
// A copy has rows with a stride of a whole number of vectors plus one, or lies k by k where m is
// the contiguous axis and it is not turned over. Chunks of one thread that follow each other share
// it: the kernel notes which block it made in front of the thread's scratch memory, where the note
// lasts as long as the launch and the memory do (Context::launch). Rows that are taken by their
// numbers (x[indices] @ w, 32 or more) are found by this copy where they lie.
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
      size_(k_.i64(0)) {
  const int lanes = plan_.tile.lanes;
  if (plan_.lhs == LhsPath::rows || plan_.lhs == LhsPath::turned) {
    if (plan_.lhs == LhsPath::rows)
      runs_ = split_axis(p_.lhs, k_axis_, plan_.k, k_axis_ + 1);
    else
      square_ = k_.slot(k_.memory_type(type_), "lhs_square", int64_t{lanes} * lanes);
    // A little more than a whole number of vectors, so that rows do not meet in the same cache
    // sets.
    stride_ = add(round_up(depth, lanes), k_.i64(lanes));
    size_ = mul(stride_, plan_.block_rows);
  } else if (plan_.lhs == LhsPath::columns) {
    if (!first_stride(p_.lhs, m_axis_)) runs_ = split_axis(p_.lhs, m_axis_, plan_.m, k_axis_ + 1);
    // No wider than there are rows, or a few columns of them would lie a page apart.
    stride_ = number(ceil_div(min(plan_.m, Expr(plan_.block_rows)), Expr(lanes)) * Expr(lanes) +
                     Expr(lanes));
    k_.root().seek();
    size_ = mul(stride_, add(depth, k_.i64(1)));
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

LhsRows LhsBlock::emit(Scope& scope, Value* number, Value* begin, Value* rows,
                       const StepRange& steps) {
  if (plan_.lhs == LhsPath::direct) {
    Value* first = emit_expr(scope, plan_.lhs_load->base).v;
    scope.seek();
    first = add(add(first, mul(in_place_, begin)), steps.begin);
    Value* base = element(k_, type_, k_.buffer(plan_.lhs_load->buffer), first);
    return {base, in_place_, k_.i64(1)};
  }
  scope.seek();
  Value *have = k_.ir.CreateLoad(k_.ir.getInt64Ty(), copied_), *note = add(number, 1);
  emit_if(scope, k_.ir.CreateICmpNE(have, note), [&](Scope& s) {
    s.seek();
    k_.ir.CreateStore(note, copied_);
    copy(s, begin, rows, steps);
  });
  if (plan_.lhs == LhsPath::columns) return {scratch_, k_.i64(1), stride_};
  return {scratch_, stride_, k_.i64(1)};
}

void LhsBlock::copy(Scope& scope, Value* begin, Value* rows, const StepRange& steps) {
  const bool by_rows = plan_.lhs == LhsPath::rows;
  if (groups_) groups_->start_block(scope);
  Operand lhs{p_.lhs, p_.operand_type, type_, plan_.tile.lanes};
  if (square_)  // of a known depth
    return lhs.transpose(scope, {k_axis_, steps.begin, steps.count}, {m_axis_, begin, rows},
                         square_, scratch_, fixed(stride_).value());
  auto part = [&](Scope& s, Value* from, Value* count, Value* out) {
    gather_part(s, *runs_, p_.operand_type, type_, plan_.tile.lanes, from, count, out);
  };
  auto row = [&](Scope& s, Value* i, Value* out) {
    s.set_axis(m_axis_, add(begin, i));
    if (groups_) return groups_->pack_row(s, out);
    if (runs_ && plan_.block_depth == 0)
      return gather_runs(s, *runs_, p_.operand_type, type_, plan_.tile.lanes, out);
    if (runs_) return part(s, steps.begin, steps.count, out);
    lhs.gather(s, {k_axis_, steps.begin, steps.count}, out);
  };
  auto step = [&](Scope& s, Value* i, Value* out) {
    if (groups_) return groups_->pack_step(s, i, begin, rows, out);
    s.set_axis(k_axis_, add(steps.begin, i));
    if (runs_) return part(s, begin, rows, out);
    lhs.gather(s, {m_axis_, begin, rows}, out);
  };
  Value* count = by_rows ? rows : steps.count;
  emit_loop(scope, k_.i64(0), count, k_.i64(1), by_rows, [&](Scope& s, Value* i) {
    s.seek();
    Value* out = element(k_, type_, scratch_, mul(i, stride_));
    by_rows ? row(s, i, out) : step(s, i, out);
  });
}

}  // namespace hologram::cpu
