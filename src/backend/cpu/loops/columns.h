// backend/cpu/loops/columns.h: nests whose row stages reduce down columns, a block of columns at a
// time.
#pragma once

#include "backend/cpu/loops/lanes.h"

namespace hologram::cpu {

/// Each stage runs over a block of columns before the next one does, and the elements of a block of
/// 4,096 rows come partial by partial, these in bit-reversed order: the current partial is in
/// registers, and the tree needs seven values in memory instead of 64. Of the rows of one partial
/// (or of a few rows, where nothing is reduced) all columns of the block are read, vector by
/// vector: a good part of each page.
class LoopColumns {
 public:
  LoopColumns(const LoopFrame& frame, LoopLanes& lanes)
      : f_(frame), lanes_(lanes), k_(frame.k), ir_(frame.k.ir) {}

  /// All stages at points [low, high) of the lane axis.
  void line(Scope& scope, Value* low, Value* high);

 private:
  /// Vectors of columns: `each` runs what it is given in a scope for each of them, with its number
  /// (i64), which is below `most`.
  struct Vectors {
    int lanes, most;
    std::function<void(Scope&, const std::function<void(Scope&, Value*)>&)> each;
  };
  /// The accumulators of finished stages, by number: one for each vector.
  using Kept = std::vector<llvm::AllocaInst*>;

  void stages(Scope& scope, const Vectors& vectors);
  void reduce_rows(Scope& scope, const atlas::Stage& s, const Vectors& vectors, Kept& kept);
  void reduce(Scope& scope, const atlas::Stage& s, const Vectors& vectors, Kept& kept);
  void each_row(Scope& scope, const atlas::Stage& s, const Vectors& vectors, const Kept& kept);
  void show(Scope& scope, const Vectors& vectors, const Kept& kept, Value* number);

  const LoopFrame& f_;
  LoopLanes& lanes_;
  CpuFunction& k_;
  llvm::IRBuilder<>& ir_;
};

}  // namespace hologram::cpu
