// tests/backend_cuda_90/planted_test.cpp: products and attention by warpgroups: what is missing is
// found; and what the programs of the corpus become
#include <fmt/format.h>

#include <regex>

#include "backend_cuda/cuda_test.h"
#include "codegen/attentions.h"

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
  static std::string said(const atlas::Program& program, const std::string& what, const std::string& by) {
    inject("context", 0);  // the last one may be broken
    Runtime fresh("cuda");
    std::vector<int64_t> symbols;
    if (program.kind() == atlas::BlockKind::product)  // one more step along k than there are slots
      symbols = {136, 640 / size_of(program.product().operand_type), 264};
    cuda::Stored made = cuda::compile(program, 90);
    const std::string changed = std::regex_replace(made.code, std::regex(what), by);
    EXPECT_EQ(changed == made.code, what == by) << what;
    made.code = changed;
    fresh.kernels().disk().put(key(fresh, program), cuda::to_text(made));
    std::vector<std::vector<std::byte>> data;
    for (const atlas::Buffer& b : program.buffers) data.emplace_back(static_cast<size_t>(b.extent.eval(symbols) * size_of(b.dtype)));
    const std::vector<Bytes> buffers(data.begin(), data.end());
    runtime::KernelSource from;
    fresh.kernels().get(program, &from);
    EXPECT_EQ(from, runtime::KernelSource::disk);
    const int64_t maps = counted("maps");
    std::string words;
    try {
      run_program(fresh, program, buffers, symbols);
    } catch (const Error& e) {
      words = e.what();
    }
    EXPECT_EQ(counted("maps") - maps, made.facts.wide->matrices.size());
    return words;
  }

  static void expect_said(const atlas::Program& program, const std::string& what, const std::string& by,
                          const std::vector<std::string>& any) {
    const std::string words = said(program, what, by);
    for (const std::string& one : any)
      if (words.find(one) != words.npos) return;
    ADD_FAILURE() << what << ": " << words;
  }
};

TEST_F(CudaWidePlanted, IsFoundInEveryKernel) {
  attentions::Case c{1, 2, 2, 200, 500, 64, 64};
  c.dtype = DType::bf16;
  const std::pair<const char*, atlas::Program> programs[] = {{"bfloat16", float_product("bf16", false, true)},
                                                             {"bytes", byte_product("i8", "i8")},
                                                             {"float32", float_product("f32", false, false)},
                                                             {"attention", attentions::attention(c)}};
  for (const auto& [name, program] : programs) {
    SCOPED_TRACE(name);
    EXPECT_EQ(said(program, "ret;", "ret;"), "");
    const std::string race = "a race", early = "is read before it is written", never = "never comes";
    // Nobody waits: for slots, for products, for lanes.
    expect_said(program, "bra WAIT[0-9]+;", "", {race, early, "more arrivals", never});
    expect_said(program, "wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 2;", {"under way", race});
    expect_said(program, "bar.warp.sync\\s+-1;", "", {race, early});
    // No fences.
    expect_said(program, "wgmma.fence.sync.aligned;", "", {"without wgmma.fence"});
    expect_said(program, "fence.mbarrier_init.release.cluster;", "", {"made without a fence"});
    // A slot that is never free; other shared memory than the descriptor says.
    expect_said(program, "@p mbarrier.arrive.shared::cta.b64 _, \\[[^;]*;", "", {never});
    if (name != programs[0].first) continue;
    // Fewer bytes than a copy brings; all lanes arrive; registers that nobody gave, and more than there are.
    expect_said(program, "(expect_tx[^;]*, )[%r0-9]+;", "$011;", {race, early, never});
    expect_said(program, "@p (mbarrier.arrive.shared)", "$1", {"more arrivals", never});
    expect_said(program, "setmaxnreg.dec[^;]*;", "", {never});
    expect_said(program, "(setmaxnreg.dec[^;]* )[0-9]+;", "$01240;", {"other way round"});
  }
}

// The numbers of the left factor are a warp's own: all lanes have read them when a slot is freed.
TEST_F(CudaWidePlanted, SlotsThatLanesStillReadAreFound) {
  expect_said(float_product("f32", false, false), "bar.warp.sync\\s+-1;([^@]{0,300}@p mbarrier.arrive)", "$1", {"a race"});
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
    if (kernels % 2)
      expect_assembles(ptx, program.kind() == atlas::BlockKind::product && program.product().operand_type == DType::bf16 ? 168 : 255);
  }
  EXPECT_GT(kernels, split);
  EXPECT_GT(split, 3);
}

}  // namespace
}  // namespace hologram::test
