// backend/cuda/loops/counter.h: results of blocks combined as a binary counter does.
#pragma once

#include "backend/cuda/loops/team.h"

namespace hologram::cuda {

/// The sums of 1, 2, 4, … blocks that wait for their equal. A warp keeps them in one register of
/// each lane; other teams in memory of the thread. Every member does the same.
class Counter {
 public:
  Counter(CudaFunction& k, Team& team, ir::Op op, DType type);
  /// Takes part in a loop: what is carried from round to round.
  Value* initial() const;
  /// Adds a sum of 2^level blocks, where `count` (i64) blocks came before; returns what is carried.
  Value* push(Scope& scope, Value* carried, Value* count, Value* sum, Value* level);
  /// The sum of `count` blocks.
  Value* finish(Scope& scope, Value* carried, Value* count);

 private:
  Value* get(Value* carried, Value* level);
  Value* place(Value* level);

  CudaFunction& k_;
  Team& team_;
  ir::Op op_;
  DType type_;
  llvm::Type* kept_;
  Value* memory_ = nullptr;
};

}  // namespace hologram::cuda
