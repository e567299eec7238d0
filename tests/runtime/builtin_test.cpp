// tests/runtime/builtin_test.cpp: the kernels that come with the library
#include "backend/cpu/backend.h"
#include "builtin/programs.h"
#include "support/test.h"

namespace hologram::runtime {
namespace {

// Compiling every one would take a minute.
TEST(Builtin, KernelsAreLaunchedAsIfTheyWereCompiledHere) {
  const auto backend = cpu::make_backend(cpu::generic_target(cpu::host_target().isa));
  int number = 0;
  for (const builtin::Definition& d : builtin::precompiled())
    for (const atlas::Program& p : builtin::programs_of(d, backend->machine())) {
      const std::optional<Kernel> found = backend->builtin(p, atlas::fingerprint(p));
      ASSERT_TRUE(found) << atlas::disassemble(p);
      EXPECT_EQ(found->code_bytes, 0u);
      if (number++ % 24 != 0) continue;
      const Kernel compiled = backend->load(p, backend->compile(p));
      EXPECT_EQ(found->total.str(), compiled.total.str()) << atlas::disassemble(p);
      EXPECT_EQ(found->grain.str(), compiled.grain.str()) << atlas::disassemble(p);
      EXPECT_EQ(found->unit_work.str(), compiled.unit_work.str()) << atlas::disassemble(p);
    }
  EXPECT_GT(number, 100);
}

}  // namespace
}  // namespace hologram::runtime
