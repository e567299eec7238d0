// tests/support/machine.h: machines for planning in tests
#pragma once

#include "schedule/machine.h"

namespace hologram::test {

/// One that packs right operands in panels of so many columns.
struct PanelMachine : schedule::Machine {
  explicit PanelMachine(int columns) : width(columns) {}
  schedule::Panel panel(DType, DType) const override { return {.width = width}; }
  int word_columns(const atlas::ProductBlock&, int) const override { return words; }
  int width, words = 0;
};

/// One that has nothing that a plan can do without, of narrow vectors and little memory.
struct PoorMachine : schedule::Machine {
  PoorMachine() {
    vector = 4;
    units = 1;
    near_bytes = 1024;
    far_bytes = 8192;
    row_scratch = 64;
    small_total = 0;
    unrolls_windows = tails = parts = symbolic_products = false;
    in_place_rows = waiting_rows = gathered_rows = 1;
  }
};

}  // namespace hologram::test
