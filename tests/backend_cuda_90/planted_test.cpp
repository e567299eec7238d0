// tests/backend_cuda_90/planted_test.cpp: products by warpgroups: what is missing is found; and
// what the programs of the corpus become
#include <fmt/format.h>

#include <regex>

#include "backend_cuda/cuda_test.h"

namespace hologram::test {
namespace {

// Code from the disk cache, changed there.
class CudaWidePlanted : public CudaCubins {
 protected:
  void SetUp() override {
    CudaCubins::SetUp();
    inject("capability", 90);
    set("HOLOGRAM_CUDA_ASSEMBLER", "driver");
  }

  // Runs the program with every match of `what` in its code replaced: what the driver says.
  static std::string said(const atlas::Program& program, const std::string& what,
                          const std::string& by) {
    Runtime fresh("cuda");
    const auto& block = program.product();
    const int64_t size = size_of(block.operand_type), sums = size_of(block.acc_type);
    constexpr int64_t m = 136, n = 264;
    const int64_t depth = 640 / size;  // bytes: as many steps as there are slots, and another one
    cuda::Stored made = cuda::compile(program, 90);
    const std::string changed = std::regex_replace(made.code, std::regex(what), by);
    EXPECT_EQ(changed == made.code, what == by) << what;
    made.code = changed;
    fresh.kernels().disk().put(key(fresh, program), cuda::to_text(made));
    std::vector<std::byte> left(static_cast<size_t>(m * depth * size)),
        right(static_cast<size_t>(n * depth * size)), out(static_cast<size_t>(m * n * sums));
    const Bytes buffers[] = {left, right, out};
    runtime::KernelSource from;
    fresh.kernels().get(program, &from);
    EXPECT_EQ(from, runtime::KernelSource::disk);
    const int64_t maps = counted("maps");
    std::string words;
    try {
      run_program(fresh, program, buffers, std::array{m, depth, n});
    } catch (const Error& e) {
      words = e.what();
    }
    EXPECT_EQ(counted("maps") - maps, 2);
    return words;
  }

  static void expect_said(const atlas::Program& program, const std::string& what,
                          const std::string& by, const std::vector<std::string>& any) {
    const std::string words = said(program, what, by);
    for (const std::string& one : any)
      if (words.find(one) != words.npos) return;
    ADD_FAILURE() << what << ": " << words;
  }
};

TEST_F(CudaWidePlanted, IsFoundInEveryKernel) {
  const atlas::Program programs[] = {float_product("bf16", false, true), byte_product("i8", "i8"),
                                     float_product("f32", false, false)};
  for (const atlas::Program& program : programs) {
    SCOPED_TRACE(name_of(program.product().operand_type));
    EXPECT_EQ(said(program, "ret;", "ret;"), "");
    const std::string race = "a race", early = "is read before it is written",
                      never = "never comes";
    // Nobody waits: for slots, for products, for lanes.
    expect_said(program, "bra WAIT[0-9]+;", "", {race, early, "more arrivals", never});
    expect_said(program, "wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 2;",
                {"under way", race});
    expect_said(program, "bar.warp.sync\\s+-1;", "", {race, early});
    // No fences.
    expect_said(program, "wgmma.fence.sync.aligned;", "", {"without wgmma.fence"});
    expect_said(program, "fence.mbarrier_init.release.cluster;", "", {"made without a fence"});
    // A slot that is never free; other shared memory than the descriptor says.
    expect_said(program, "@p mbarrier.arrive.shared::cta.b64 _, \\[[^;]*;", "", {never});
  }
}

// The numbers of the left factor are a warp's own: all lanes have read them when a slot is freed.
TEST_F(CudaWidePlanted, SlotsThatLanesStillReadAreFound) {
  expect_said(float_product("f32", false, false),
              "bar.warp.sync\\s+-1;([^@]{0,300}@p mbarrier.arrive)", "$1", {"a race"});
}

// Whatever the factors and the epilogue do: the code rounds as the others' does, and assembles.
TEST_F(CudaWidePlanted, TheCorpusHasWideKernels) {
  int kernels = 0, split = 0;
  for (const auto& [name, program] : corpus()) {
    if (cuda::unrendered(program) || !cuda::is_special(program, 90)) continue;
    SCOPED_TRACE(name);
    const std::string ptx = cuda::dump_ptx(program, 90);
    ++kernels;
    split += ptx.find(".visible .entry hologram_split") != ptx.npos;
    ASSERT_NE(ptx.find(".visible .entry hologram_wide"), ptx.npos);
    for (const char* banned : {".ftz", ".approx", ".full", "ld.global.nc", "\tatom.", "\tred."})
      EXPECT_EQ(ptx.find(banned), ptx.npos) << banned;
    if (ptxas().empty()) continue;
    const std::string words = test::assembled(ptx, "sm_90a");
    EXPECT_EQ(words.find("C75"), words.npos) << words;
    expect_registers(words, 255);
  }
  EXPECT_GT(kernels, split);
  EXPECT_GT(split, 3);
}

}  // namespace
}  // namespace hologram::test
