// backend/cuda/attention_grad/tile.h: which rows of gradients of attention a CTA has, what it sums
// over, and the bodies between its products.
#pragma once

#include <algorithm>
#include <functional>

#include "backend/cuda/attention_grad/plan.h"
#include "backend/cuda/operands.h"

namespace hologram::cuda {

/// A CTA's rows are keys, its steps queries of one member after the other, or its rows are queries
/// of a member and its steps keys. Scores are products of the first operands of rows and steps (q
/// and k), their gradients come of products of the second ones (g and v).
class GradTile : public Operands {
 public:
  /// Shared memory for what is known of queries, of the plan's type.
  static int numbers(const AttentionGradPlan& plan) { return 2 * std::max(plan.rows, plan.steps); }

  /// Emits which rows are those of unit number `unit` (i64) of the share, inside `outer`.
  GradTile(CudaFunction& k, const AttentionGradPlan& plan, int threads, Scope& outer, Value* unit,
           GradShare share, Value* numbers);

  Scope& scope() { return scope_; }  ///< of all that the CTA does
  bool sums_keys() const { return share_ == GradShare::queries; }
  const Factor& rows(int operand) const { return rows_[operand]; }
  /// Operands of the steps of a round, along depth or width.
  Factor steps(int operand, Value* first) const;
  /// The same as the right factor of a sum over steps: x is a column from the CTA's first one on.
  Factor columns(int operand) const;
  /// The extent along which operand 0 or 1 is multiplied.
  const Expr& depth(int operand) const { return operand == 0 ? plan_.depth : plan_.width; }

  /// A round of the CTA's loop has `plan.steps` steps.
  Value* rounds() const { return rounds_; }  ///< how many, i64
  /// Where round `n` (i64) begins; fixes its member in `at`.
  Value* begin_round(Scope& at, Value* n);

  /// What is known of queries: each thread loads one, number thread mod `count` (a power of two)
  /// from `first` on, and writes it to shared memory.
  struct Query {
    Value *lse, *delta;
  };
  Query load_query(Scope& at, Value* first, int count);
  void write_query(Scope& at, const Query& query, int count);
  /// The same of the rows, if these are queries: once.
  void keep_rows(Scope& at);

  /// The probability of a score, and the gradient of its product, of row `row` (i32, of the tile)
  /// and step `step` (i32, of the round that begins at `first`).
  struct Weights {
    Value *p, *s;
  };
  Weights weigh(Scope& at, Value* row, Value* step, Value* first, Value* product, Value* gradient);

  /// A result: which body stores it, and the weights and operand of the steps that it is a sum of.
  struct Result {
    const atlas::Body* body;
    bool of_p;
    int operand;
  };
  std::vector<Result> results() const;
  /// Runs a result's body over its sums of `columns`, by number of row and of column (i32).
  void store(const Result& result, int columns,
             const std::function<Value*(Value* row, Value* column)>& sum);

 private:
  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  Value* wide(Value* v) { return ir_.CreateZExt(v, ir_.getInt64Ty()); }
  Value* value(const Expr& e);
  Value* run(Scope& at, const atlas::Body& body);
  Factor factor(const atlas::Body& body, int axis, Value* count, int depth_axis) const;
  void find_rounds();
  void find_keys(Value*& begin, Value*& end);
  void find_queries(Value*& begin, Value*& end);

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  const AttentionGradPlan& plan_;
  const atlas::AttentionGradBlock& a_;
  const GradShare share_;
  int threads_, member_axis_, query_axis_, key_axis_, depth_axis_;
  llvm::Type* type_;
  atlas::Body exp_;
  Scope scope_;
  Factor rows_[2], steps_[2];
  Value *first_column_, *extents_[2], *begin_ = nullptr, *blocks_ = nullptr, *rounds_ = nullptr;
  Value *lse_, *delta_;  // of queries, shared
};

}  // namespace hologram::cuda
