// backend/cuda/attention/rows.h: which rows and keys of attention a CTA has, and the bodies around
// its softmax.
#pragma once

#include <functional>

#include "backend/cuda/attention/plan.h"
#include "backend/cuda/operands.h"

namespace hologram::cuda {

class AttentionRows : public Operands {
 public:
  /// `threads` of a CTA. Emits which rows and keys are the CTA's; of the kernel that merges parts
  /// (`row_each`), whose CTAs have a row each, which unit and row.
  AttentionRows(CudaFunction& k, const AttentionPlan& plan, int threads, bool row_each = false)
      : AttentionRows(k, plan, threads, k.root(), k.cta(), row_each) {}
  /// The same for unit number `cta` (i32), inside `outer`, where the builder stands.
  AttentionRows(CudaFunction& k, const AttentionPlan& plan, int threads, Scope& outer, Value* cta,
                bool row_each = false);

  Scope& scope() { return scope_; }             ///< of all that the CTA does
  const Factor& queries() const { return q_; }  ///< x: rows
  const Factor& keys() const { return k_factor_; }
  /// x: columns, k: keys.
  const Factor& values() const { return v_; }
  /// The keys that are the CTA's, from a multiple of a block on; behind the end none is seen.
  Value* key_begin() const { return key_begin_; }
  Value* key_end() const { return key_end_; }
  Value* unit() const { return unit_; }     ///< i64
  Value* row_each() const { return row_; }  ///< i32

  /// Fixes the axes of row number `r` (i32) of the CTA, or the last one's, and gives its query.
  Value* set_row(Scope& scope, Value* r);
  /// The final score of a sum of products: -infinity where the key is not seen.
  Value* score(Scope& row, Value* query, Value* key, Value* sum);
  Value* exponential(Scope& at, Value* x, Value* largest);  ///< of x - largest
  /// NaN counts as none: its own exponential is NaN.
  Value* larger(Value* x, Value* y) { return ir_.CreateSelect(ir_.CreateFCmpOGT(x, y), x, y); }
  Value* finite(Value* maximum);  ///< 0 for -infinity
  /// Stores the logarithm of the row's sum of exponentials, if the block has it.
  void store_log_sum(Scope& row, Value* r, Value* maximum, Value* total);
  llvm::Constant* lowest() const { return llvm::ConstantFP::getInfinity(type_, true); }
  llvm::Constant* zero() const { return llvm::Constant::getNullValue(type_); }

  /// What the CTA has computed, by number of row and of column (i32).
  struct Results {
    std::function<Value*(Value* row, Value* column)> sum;  ///< of exponentials times values
    std::function<Value*(Value*row)> maximum, total;       ///< total: of exponentials
  };
  /// Of rows [first, first + count): runs the epilogue, or leaves a part in the workspace.
  void finish(const Results& results, int first, int count);
  /// The same for one row: the loops run over its columns.
  void finish_row(const Results& results);

 private:
  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  Value* wide(Value* v) { return ir_.CreateZExt(v, ir_.getInt64Ty()); }
  Value* value(const Expr& e);
  Value* exists(Value* row);
  void find_keys();
  void emit_point(Scope& point, Value* row, Value* column, const Results& results);
  void emit_log_sum(Scope& point, Value* row, const Results& results);
  void leave_part(Scope& at, const Results& results, int first, int count);

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  const AttentionPlan& plan_;
  const atlas::AttentionBlock& a_;
  int threads_, query_axis_, key_axis_;
  llvm::Type* type_;
  atlas::Body exp_, log_sum_;
  Scope scope_;
  Factor q_, k_factor_, v_;
  Value *thread_, *unit_, *part_ = nullptr, *row_ = nullptr, *first_head_ = nullptr, *queries_,
                          *panel_, *first_column_, *key_begin_, *key_end_;
};

}  // namespace hologram::cuda
