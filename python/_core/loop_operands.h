// python/_core/loop_operands.h: operands of a repeated step, as Python writes them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>

#include <vector>

#include "runtime/loop_operand.h"

namespace hologram::python {

/// From pairs ("each" | "carry" | "fixed", result or -1).
inline std::vector<runtime::LoopOperand> loop_operands(const nanobind::list& roles) {
  using Role = runtime::LoopOperand::Role;
  std::vector<runtime::LoopOperand> out;
  for (nanobind::handle h : roles) {
    const auto name = nanobind::cast<std::string_view>(h[0]);
    const Role role = name == "each" ? Role::each : name == "carry" ? Role::carry : Role::fixed;
    out.push_back({role, nanobind::cast<int>(h[1])});
  }
  return out;
}

}  // namespace hologram::python
