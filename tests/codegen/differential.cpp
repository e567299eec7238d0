// tests/codegen/differential.cpp: programs against the interpreter on every instruction set.
#include "codegen/differential.h"

#include "backend/cpu/machine.h"

namespace hologram::test {

namespace {

// A kernel of attention takes the compiler as long as ten loops do: there the widest instruction set, which has the most kinds of
// code, is tried by each program, and the others in turn.
std::vector<cpu::Isa> isas_for(const atlas::Program& p) {
  std::vector<cpu::Isa> all = runnable_isas();
  const atlas::BlockKind kind = p.kind();
  if (all.size() < 3 || (kind != atlas::BlockKind::attention && kind != atlas::BlockKind::attention_grad)) return all;
  return {all[atlas::fingerprint(p).bytes[0] % (all.size() - 1)], all.back()};
}

}  // namespace

void expect_same(const atlas::Program& p, const Inputs& inputs) {
  Inputs own = inputs;
  if (own.tolerance > 1e-4) own.tolerance /= 4;  // tensor cores are granted more in 16-bit floats
  expect_same_on(p, {own, isas_for(p)});
}

void expect_same_on_each(const ProgramFor& program, const Inputs& inputs) {
  for (cpu::Isa isa : runnable_isas()) expect_same_on(program(cpu::CpuMachine(cpu::generic_target(isa))), {inputs, {isa}});
}

}  // namespace hologram::test
