// tests/codegen/in_turn.h: which instruction sets try a program, where many programs try the same.
#pragma once

#include "codegen/run_kernel.h"

namespace hologram::test {

/// Compiling is most of what these tests take. The widest instruction set has the most kinds of code and tries every program; each
/// program is tried by one of the others as well, whichever its number (of its text or bytes) falls to.
inline bool in_turn(cpu::Isa isa, size_t number) {
  const std::vector<cpu::Isa> all = runnable_isas();
  return isa == all.back() || all.size() < 3 || isa == all[number % (all.size() - 1)];
}

inline bool in_turn(cpu::Isa isa, std::string_view text) {
  size_t number = 0;
  for (char c : text) number = number * 31 + static_cast<unsigned char>(c);
  return in_turn(isa, number >> 4);
}

}  // namespace hologram::test
