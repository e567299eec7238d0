// tests/backend_cuda_90/witness_test.cpp: kernels that multiply from registers, by assemblers that are known to use these again too early
#include "backend/cuda/witness.h"

#include <fmt/format.h>

#include "backend_cuda/cuda_test.h"
#include "codegen/attentions.h"

namespace hologram::test {
namespace {

class CudaWitness : public CudaCubins {
 protected:
  void SetUp() override {
    CudaCubins::SetUp();
    inject("capability", 90);
    inject("version", 13000);
    set("FAKE_PTXAS_VERSION", "13.0.88");
    set("HOLOGRAM_CUDA_WITNESS", "");
  }

  struct Heard {
    cuda::Verdict verdict;
    int64_t launches;
    std::vector<std::string> notes;
    bool used;  ///< the wide kernel, by a call whose sizes suit it
  };
  // What compiling it and calling it once comes to, of small sizes or those that are known.
  static Heard hear(const atlas::Program& program, std::vector<int64_t> symbols = {}) {
    Runtime fresh("cuda");
    const int64_t before = counted("launches");
    fresh.kernels().get(program);
    Heard out{cuda::Verdict::trusted, counted("launches") - before, {}, false};
    const auto code = fresh.kernels().disk().get(key(fresh, program));
    out.verdict = cuda::from_text(code.value(), program.num_symbols).verdict;
    out.notes = fresh.backend().notes();
    Runtime later("cuda");  // from the disk, where nobody is asked again
    const int64_t heard = counted("launches");
    runtime::KernelSource from;
    later.kernels().get(program, &from);
    EXPECT_EQ(from, runtime::KernelSource::disk);
    EXPECT_EQ(counted("launches"), heard);
    if (symbols.empty()) return out;
    std::vector<std::vector<std::byte>> data;
    for (const atlas::Buffer& b : program.buffers) data.emplace_back(static_cast<size_t>(b.extent.eval(symbols) * size_of(b.dtype)));
    run_program(later, program, std::vector<Bytes>(data.begin(), data.end()), symbols);
    out.used = counts("wide_launches", later) > 0;
    return out;
  }
  static atlas::Program attends(DType type) {
    attentions::Case c{1, 2, 2, 200, 300, 64, 64};
    c.dtype = type;
    c.causal = true;
    return attentions::attention(c);
  }
  static atlas::Program multiplies(const char* type) { return float_product(type, false, false); }
};

const std::vector<int64_t> sizes{136, 160, 264};

TEST_F(CudaWitness, SoundCodeIsUsed) {
  const Heard product = hear(multiplies("f32"), sizes);
  EXPECT_EQ(product.verdict, cuda::Verdict::right);
  EXPECT_GE(product.launches, 3);  // the kernel, the right factor's terms, the wide kernel
  EXPECT_TRUE(product.used);
  EXPECT_TRUE(product.notes.empty());
  EXPECT_EQ(hear(attends(DType::bf16)).verdict, cuda::Verdict::right);
}

// Registers of left factors are read twice.
TEST_F(CudaWitness, CodeThatFailsIsNotUsed) {
  set("FAKE_PTXAS_SPOILS", "1");
  const Heard product = hear(multiplies("f32"), sizes);
  EXPECT_EQ(product.verdict, cuda::Verdict::wrong);
  EXPECT_FALSE(product.used);
  ASSERT_EQ(product.notes.size(), 1u);
  EXPECT_TRUE(
      product.notes[0].starts_with(fmt::format("cuda: hologram_wide of kernel {}, assembled by ptxas 13.0.88, is not used: it multiplies "
                                               "wrongly, as ptxas before 13.3 may do: element 0 of buffer 2 is ",
                                               atlas::fingerprint(multiplies("f32")).hex().substr(0, 12))))
      << product.notes[0];
  for (const DType type : {DType::f16, DType::f32}) EXPECT_EQ(hear(attends(type)).verdict, cuda::Verdict::wrong) << name_of(type);
}

TEST_F(CudaWitness, IsHeardWhereItIsNeeded) {
  const Heard shared = hear(multiplies("bf16"));  // both factors come from shared memory
  EXPECT_EQ(shared.verdict, cuda::Verdict::trusted);
  EXPECT_EQ(shared.launches, 0);
  set("FAKE_PTXAS_VERSION", "13.4.59");
  EXPECT_EQ(hear(multiplies("f32")).verdict, cuda::Verdict::trusted);
  // The driver's own assembler is of its version.
  set("HOLOGRAM_CUDA_ASSEMBLER", "driver");
  EXPECT_EQ(hear(multiplies("f32")).verdict, cuda::Verdict::right);
  inject("version", 13030);
  EXPECT_EQ(hear(multiplies("f32")).verdict, cuda::Verdict::trusted);
  inject("version", 13000);
  set("HOLOGRAM_CUDA_WITNESS", "0");
  EXPECT_EQ(hear(multiplies("f32")).verdict, cuda::Verdict::trusted);
  const cuda::Assembler old{"", 12, 9, ""}, fresh{"", 13, 3, ""};
  EXPECT_TRUE(cuda::reuses_registers(&old, 13030));
  EXPECT_FALSE(cuda::reuses_registers(&fresh, 13000));
}

TEST_F(CudaWitness, WithoutMemoryNothingIsKnownAndItIsAskedAgain) {
  inject("allocate", 1);
  Runtime fresh("cuda");
  fresh.kernels().get(multiplies("f32"));
  ASSERT_EQ(fresh.backend().notes().size(), 1u);
  EXPECT_NE(fresh.backend().notes()[0].find("nothing is known of its products cuda: the device has no room for "), std::string::npos);
  Runtime later("cuda");
  const int64_t before = counted("launches");
  later.kernels().get(multiplies("f32"));
  EXPECT_GT(counted("launches"), before);
  EXPECT_TRUE(later.backend().notes().empty());
}

}  // namespace
}  // namespace hologram::test
