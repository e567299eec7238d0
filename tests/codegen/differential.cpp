// tests/codegen/differential.cpp: programs against the interpreter on every instruction set.
#include "codegen/differential.h"

#include "backend/cpu/machine.h"
#include "codegen/in_turn.h"

namespace hologram::test {

namespace {

// Tests of every operation, each of which is other code on each instruction set, are named so; elsewhere others try in turn.
std::vector<cpu::Isa> isas_for(const atlas::Program& p) {
  std::vector<cpu::Isa> isas = runnable_isas();
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  if (std::string_view(test.name()).starts_with("Every") || std::string_view(test.test_suite_name()) == "Ops") return isas;
  std::erase_if(isas, [&](cpu::Isa isa) { return !in_turn(isa, atlas::fingerprint(p).bytes[0]); });
  return isas;
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
