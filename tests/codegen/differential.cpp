// tests/codegen/differential.cpp: programs against the interpreter on every instruction set.
#include "codegen/differential.h"

namespace hologram::test {

void expect_same(const atlas::Program& p, const Inputs& inputs) { expect_same_on(p, {inputs}); }

}  // namespace hologram::test
