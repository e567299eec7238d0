// tests/backend_cuda_90/programs_test.cpp: products by warpgroups whose operands, batches and epilogues are of every kind
#include <fmt/format.h>

#include "backend_cuda/cuda_test.h"

namespace hologram::test {
namespace {

struct OfCorpus {
  const char* program;  ///< of the corpus
  std::vector<int64_t> sizes;
  int64_t maps = 2, launches = 1;
};

const OfCorpus programs[] = {{"bias_gelu", {130, 136, 264}},
                             {"crossed", {40, 136, 72}},
                             {"crossed_1", {40, 136, 72}, 2, 2},
                             // What is computed of the right factor is computed once, where it is split.
                             {"scaled_columns", {72, 68, 60}, 2, 2},
                             // Of 16-bit floats it comes by a single plane. Rows of 132 bfloat16 are 264 bytes: the other kernel.
                             {"weight_of_bytes", {520, 132, 137}, 0, 1},
                             {"weight_of_bytes", {520, 128, 137}, 2, 2},
                             // Parts along k: each epilogue runs once.
                             {"bias_abs", {125, 1024, 251}, 2, 2},
                             // A window whose rows are two apart is no matrix.
                             {"dilated", {250, 264}, 2, 2}};

// On a GPU too.
using CudaWideProgramsDevice = CudaDevice90;

TEST_F(CudaWideProgramsDevice, HaveTheInterpretersValues) {
  for (const OfCorpus& r : programs) {
    SCOPED_TRACE(fmt::format("{} {}", r.program, testing::PrintToString(r.sizes)));
    expect_interpreters(runtime(), corpus().at(r.program), r.sizes, r.maps, r.launches);
  }
}

TEST(CudaWidePrograms, AssembleWithoutSpills) {
  for (const atlas::Program& p : {float_product("bf16", false, true), float_product("f16", true, false), byte_product("i8", "i8")}) {
    const std::string ptx = cuda::dump_ptx(p, 90);
    EXPECT_NE(ptx.find("wgmma.mma_async"), ptx.npos);
    expect_assembles(ptx, is_float(p.product().operand_type) ? 168 : 255);
  }
}

// The first lines of stored code, and what they must not be changed to.
TEST(CudaWidePrograms, FactsAreStored) {
  for (const auto& [program, what, others] : std::vector<std::tuple<const char*, std::string, std::vector<std::string>>>{
           {"bias_gelu", "|64|256", {"|64|257", "|64", "|64|0", "|64|256|1", "|x|256"}},
           {"scaled_columns", "|-1|bf16|", {"|-2|bf16|"}},
           {"scaled_columns", "|f32|", {"|f64|"}}}) {
    const cuda::Stored made = cuda::compile(corpus().at(program), 90);
    ASSERT_TRUE(made.facts.wide);
    const std::string text = cuda::to_text(made);
    EXPECT_EQ(cuda::to_text(cuda::from_text(text, 3)), text);
    const size_t field = text.substr(0, text.find('\n')).rfind(what);
    ASSERT_NE(field, text.npos) << text.substr(0, text.find('\n'));
    for (const std::string& other : others) {
      std::string changed = text;
      EXPECT_THROW(cuda::from_text(changed.replace(field, what.size(), other), 3), Error) << other;
    }
  }
  EXPECT_FALSE(cuda::compile(corpus().at("bias_gelu")).facts.wide);
}

}  // namespace
}  // namespace hologram::test
