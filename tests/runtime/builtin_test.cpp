// tests/runtime/builtin_test.cpp: the kernels that come with the library
#include <gtest/gtest.h>

#include "backend/cpu/backend.h"
#include "builtin/definitions.h"
#include "canon/canon.h"
#include "schedule/plan.h"

namespace hologram::runtime {
namespace {

std::vector<atlas::Program> programs_of(const builtin::Definition& d, const Backend& backend) {
  ir::Graph graph, canonical;
  d.build(graph);
  canon::Report report;
  canon::canonicalize(graph, canonical, report);
  schedule::Options options;
  options.machine = &backend.machine();
  return schedule::make_plan(canonical, options).programs;
}

// Compiling every one would take a minute.
TEST(Builtin, KernelsAreLaunchedAsIfTheyWereCompiledHere) {
  const auto backend = cpu::make_backend(cpu::generic_target(cpu::host_target().isa));
  int number = 0;
  for (const builtin::Definition& d : builtin::precompiled())
    for (const atlas::Program& p : programs_of(d, *backend)) {
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
