// codegen/loop_tail.h: the loop behind a product's rows.
#pragma once

#include "codegen/loop_stages.h"

namespace hologram::codegen {

class LoopTail {
 public:
  /// Makes the tail's row scratch at the end of the kernel's root.
  explicit LoopTail(Kernel& kernel);

  /// All stages for rows [first, end) of the product; `scope` fixes its batch axes.
  void emit(Scope& scope, Value* first, Value* end);

 private:
  Kernel& k_;
  LoopFrame frame_;
  LoopLanes lanes_;
  LoopStages stages_;
};

}  // namespace hologram::codegen
