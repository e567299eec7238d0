// tests/backend_cuda/builtin_test.cpp: GPU kernels that come with the library
#include "backend/cuda/builtin.h"
#include "backend/cuda/compile.h"
#include "backend/registry.h"
#include "builtin/programs.h"
#include "canon/canon.h"
#include "runtime/run_program.h"
#include "schedule/plan.h"
#include "support/test.h"

namespace hologram::test {
namespace {

using runtime::Bytes;
using runtime::Runtime;

// All operations of executors but what is not rendered, as if they were compiled here.
TEST(CudaBuiltin, EveryOperationOfExecutorsComesWithTheLibrary) {
  const auto backend = make_backend("cuda");
  int number = 0, operations = 0;
  for (const builtin::Definition& d : builtin::precompiled()) {
    bool whole = true;
    for (const atlas::Program& p : builtin::programs_of(d, backend->machine())) {
      if (cuda::unrendered(p)) {
        whole = false;
        continue;
      }
      const cuda::BuiltinKernel* found = cuda::find_builtin(atlas::fingerprint(p).hex());
      ASSERT_NE(found, nullptr) << d.name << "\n" << atlas::disassemble(p);
      if (number++ % 24 != 0) continue;
      const cuda::Stored stored = cuda::from_text(found->stored, p.num_symbols);
      EXPECT_EQ(cuda::to_text(stored), cuda::to_text(cuda::compile(p))) << d.name;
      EXPECT_TRUE(stored.cubin.empty());
      for (const std::string_view cubin : found->cubins)
        EXPECT_TRUE(cubin.empty() || cubin.starts_with("\x7f"
                                                       "ELF"))
            << d.name;
    }
    operations += whole;
  }
  EXPECT_GT(operations, 100);
  EXPECT_LE(cuda::builtin_kernels().size(), static_cast<size_t>(number));
}

TEST(CudaBuiltin, ArePackedAndUnpacked) {
  const auto all = cuda::builtin_kernels();
  size_t bytes = 0;
  for (const cuda::BuiltinKernel& k : all) bytes += k.stored.size() + k.cubins[0].size();
  EXPECT_LT(4 * cuda::packed_kernels().size(), bytes);
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &cuda::BuiltinKernel::key));
  EXPECT_EQ(cuda::find_builtin("0"), nullptr);
}

// Machine code of the table is NVIDIA's, which the fake driver refuses: PTX is the way out.
TEST(CudaBuiltin, KernelsRunWithoutACompiler) {
  Runtime runtime("cuda");
  const auto add = builtin::find_elementwise("add");
  ASSERT_TRUE(add.has_value());
  ir::Graph graph, canonical;
  builtin::build_elementwise(graph, add->id, DType::f32);
  canon::Report report;
  canon::canonicalize(graph, canonical, report);
  schedule::Options options;
  options.machine = &runtime.backend().machine();
  const auto programs = schedule::make_plan(canonical, options).programs;
  ASSERT_EQ(programs.size(), 1u);
  runtime::KernelSource from;
  runtime.kernels().get(programs[0], &from);
  EXPECT_EQ(from, runtime::KernelSource::builtin);
  std::vector<float> x(300, 2), y(300, 0.5f), out(300);
  const auto bytes = [](std::vector<float>& v) { return std::as_writable_bytes(std::span(v)); };
  const Bytes buffers[] = {bytes(x), bytes(y), bytes(out)};
  run_program(runtime, programs[0], buffers, std::array<int64_t, 1>{300});
  EXPECT_EQ(out, std::vector<float>(300, 2.5f));
  EXPECT_EQ(runtime.kernels().stats().misses, 0u);
}

}  // namespace
}  // namespace hologram::test
