// backend/cpu/loops/tail.h: the loop behind a product's rows.
#pragma once

#include "backend/cpu/loops/stages.h"

namespace hologram::cpu {

class LoopTail {
 public:
  /// Makes the tail's row scratch at the end of the kernel's root.
  explicit LoopTail(CpuFunction& kernel);

  /// All stages for rows [first, end) of the product; `scope` fixes its batch axes.
  void emit(Scope& scope, Value* first, Value* end);

 private:
  CpuFunction& k_;
  LoopFrame frame_;
  LoopLanes lanes_;
  LoopStages stages_;
};

}  // namespace hologram::cpu
