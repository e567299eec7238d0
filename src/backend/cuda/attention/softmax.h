// backend/cuda/attention/softmax.h: the softmax of scores as warpgroups have them.
#pragma once

#include <array>

#include "backend/cuda/attention/rows.h"

namespace hologram::cuda {

/// Of a thread of a warpgroup. Its scores are as wgmma leaves them: of every eight keys two
/// neighbours, in rows lane / 4 and eight below that.
class GroupSoftmax {
 public:
  static constexpr size_t halves = 2;  ///< the rows of a thread
  using Values = std::vector<Value*>;
  using Halves = std::array<Value*, halves>;

  /// group, lane: i32; warp_row: the first row of the warp among those of the CTA. `exact`:
  /// exponentials are those of other backends; else powers of two by ex2.approx.
  GroupSoftmax(CudaFunction& k, const AttentionPlan& plan, Value* group, Value* lane,
               Value* warp_row, bool exact);

  /// The row among those of the CTA.
  Value* row_of(size_t half);
  /// Runs the score's body on those of the keys from `key` (i64) on; of keys that a row does not
  /// see they become -infinity.
  void finish_scores(AttentionRows& rows, Scope& part, Value* key, Values& scores);
  /// Of the rows: the largest of finish_scores()' values, and the thread's share of their sums of
  /// exponentials.
  struct State {
    Halves maxima, totals;
  };
  /// Scores become exponentials; gives what earlier sums shrink by.
  Halves take_exponentials(AttentionRows& rows, Scope& part, Values& scores, State& state);
  /// The largest score of the block itself.
  Value* score_of(Value* maximum);
  /// Of the four threads that have a row.
  Value* across_row(Value* v, const std::function<Value*(Value*, Value*)>& merge);

 private:
  // Which value of a thread is a key's: of an eight, a half of the rows and a neighbour.
  static size_t at(int eight, size_t half, size_t neighbour) {
    return static_cast<size_t>(4 * eight) + 2 * half + neighbour;
  }
  // Values are plain products where the block only scales these, and by more than 0.
  bool scales_late() const { return !exact_ && is_scaled(); }
  bool is_scaled() const { return a_.score.instrs.empty() && a_.scale > 0; }
  llvm::Constant* scale_of_power();
  Value* power(Value* e);
  void run_bodies(AttentionRows& rows, Scope& part, Value* first, Values& scores);
  void hide(AttentionRows& rows, Value* first, Values& scores);
  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  Value* wide(Value* n) { return ir_.CreateZExt(n, ir_.getInt64Ty()); }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  const atlas::AttentionBlock& a_;
  const AttentionPlan& plan_;
  Value *group_, *lane_, *warp_row_;
  const bool exact_;
};

}  // namespace hologram::cuda
