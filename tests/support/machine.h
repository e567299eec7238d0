// tests/support/machine.h: machines for planning in tests
#pragma once

#include "schedule/machine.h"

namespace hologram::test {

/// One that packs right operands in panels of so many columns.
struct PanelMachine : schedule::Machine {
  explicit PanelMachine(int columns) : width(columns) {}
  schedule::Panel panel(DType, DType) const override { return {.width = width}; }
  int width;
};

}  // namespace hologram::test
