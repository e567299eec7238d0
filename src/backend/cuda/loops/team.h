// backend/cuda/loops/team.h: the threads that work on one parallel point together.
#pragma once

#include <functional>

#include "backend/cuda/function.h"
#include "gpu/loops.h"

namespace hologram::cuda {

using gpu::Mapping;  // teams are warps; of columns, 32 points share a CTA, with eight threads each
inline constexpr gpu::Teams teams{.columns = true, .scans = true};

/// Values that belong together, one of each in every thread.
using State = std::vector<Value*>;
/// Two states as one, the same whichever comes first.
using Merge = std::function<State(const State&, const State&)>;

class Team {
 public:
  Team(CudaFunction& k, Mapping mapping);

  static int threads(Mapping m) { return m == Mapping::team ? 128 : 256; }  ///< of a CTA
  static int points(Mapping m) {
    return m == Mapping::thread ? 256 : m == Mapping::team ? 4 : columns;
  }
  static int members(Mapping m) {
    return m == Mapping::thread ? 1 : m == Mapping::team ? 32 : 256 / columns;
  }

  Mapping mapping() const { return mapping_; }
  int size() const { return members(mapping_); }
  Value* number() const { return number_; }  ///< of the team in the launch, i64
  Value* rank() const { return rank_; }      ///< of the thread in the team, i64
  Value* leads();                            ///< rank 0 (i1)

  // At the builder's place, where all threads of the team are:

  /// Halves the members until one state is left, rank j with j + size / 2 first; every member gets
  /// it.
  State tree(State own, const Merge& merge);
  /// The value of another member (warps only).
  Value* from(Value* value, Value* rank);
  /// What members wrote is seen by the others.
  void sync();

 private:
  static constexpr int columns = 32;

  State column_tree(const State& own, const Merge& merge);
  void barrier();

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  Mapping mapping_;
  Value *number_, *rank_;
  Value *column_ = nullptr, *group_ = nullptr;  // columns: i32
  std::vector<Value*> exchange_;  // columns: shared memory of all reductions, by value of a state
};

}  // namespace hologram::cuda
