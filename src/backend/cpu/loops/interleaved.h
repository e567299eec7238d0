// backend/cpu/loops/interleaved.h: points whose last axis is a short run (LoopPlan::interleaved):
// vectors along the axis before it, one for each element of the run, are stored interleaved.
#pragma once

#include <deque>
#include <vector>

#include "backend/cpu/loops/frame.h"

namespace hologram::cpu {

class Interleaved {
 public:
  explicit Interleaved(const LoopFrame& frame);

  /// Points [low, high) of the axis before the last, at least one; the axes before it are set.
  void emit(Scope& unit, Value* low, Value* high);

 private:
  using Bodies = std::vector<const atlas::Body*>;  ///< what the body is at each element of the run

  void ranges(Scope& scope, const Bodies& bodies, Value* low, Value* high);
  void side(Scope& scope, const Bodies& bodies, const Expr& known, Value* low, Value* high);
  void points(Scope& scope, const Bodies& bodies, Value* low, Value* high);
  void vectors(Scope& scope, const Bodies& bodies, Value* i);

  const LoopFrame& f_;
  CpuFunction& k_;
  llvm::IRBuilder<>& ir_;
  int run_, line_, lanes_;
  int ranges_ = 0, most_ranges_;     ///< comparisons that are decided
  std::deque<atlas::Body> assumed_;  ///< scopes remember what they hold of a body by its address
};

}  // namespace hologram::cpu
