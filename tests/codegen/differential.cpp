// tests/codegen/differential.cpp: programs against the interpreter on every instruction set.
#include "codegen/differential.h"

#include "backend/cpu/machine.h"

namespace hologram::test {

void expect_same(const atlas::Program& p, const Inputs& inputs) {
  Inputs own = inputs;
  if (own.tolerance > 1e-4) own.tolerance /= 4;  // tensor cores are granted more in 16-bit floats
  expect_same_on(p, {own});
}

void expect_same_on_each(const ProgramFor& program, const Inputs& inputs) {
  for (cpu::Isa isa : runnable_isas()) expect_same_on(program(cpu::CpuMachine(cpu::generic_target(isa))), {inputs, {isa}});
}

}  // namespace hologram::test
