// backend/cpu/loops/tail.cpp: the loop behind a product's rows.
#include "backend/cpu/loops/tail.h"

#include "codegen/nest.h"

namespace hologram::cpu {

LoopTail::LoopTail(CpuFunction& kernel)
    : k_(kernel),
      frame_(kernel, plan_loop(kernel.program, kernel.target)),
      lanes_(frame_),
      stages_(frame_, lanes_) {
  k_.make_scratch(1);
}

void LoopTail::emit(Scope& scope, Value* first, Value* end) {
  k_.set_in_tail(true);
  emit_loop(scope, first, end, k_.i64(1), true, [&](Scope& row, Value* m) {
    row.set_axis(frame_.rank - 1, m);
    stages_.emit(row);
  });
  k_.set_in_tail(false);
}

}  // namespace hologram::cpu
