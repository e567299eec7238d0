// runtime/loop_operand.h: how a step that is repeated gets its operands.
#pragma once

#include <cstdint>

namespace hologram::runtime {

/// How a parameter of the step is read.
struct LoopOperand {
  enum class Role : uint8_t {
    each,   ///< one place of a sequence per step
    carry,  ///< what the step before gave as `result`; at the first step the operand itself
    fixed,  ///< the same every time
  };
  Role role = Role::fixed;
  int result = -1;

  bool operator==(const LoopOperand&) const = default;
};

}  // namespace hologram::runtime
