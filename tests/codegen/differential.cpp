// tests/codegen/differential.cpp: programs against the interpreter on every instruction set.
#include "codegen/differential.h"

#include "backend/cpu/machine.h"

namespace hologram::test {

void expect_same(const atlas::Program& p, const Inputs& inputs) {
  Inputs own = inputs;
  own.tolerance =
      std::min(own.tolerance, 0x1p-7);  // what 16-bit floats of tensor cores are granted beyond
  expect_same_on(p, {own});
}

void expect_same_on_each(const ProgramFor& program, const Inputs& inputs) {
  for (cpu::Isa isa : runnable_isas())
    expect_same_on(program(cpu::CpuMachine(cpu::generic_target(isa))), {inputs, {isa}});
}

}  // namespace hologram::test
