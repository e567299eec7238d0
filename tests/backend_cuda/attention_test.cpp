// tests/backend_cuda/attention_test.cpp: attention in parts and on tensor cores
#include "cuda_test.h"

namespace hologram::test {
namespace {

// Runs attention of zeros over `keys` keys; gives how many kernels were launched.
int64_t launches_of(Runtime& runtime, const atlas::Program& program, int64_t queries, int64_t keys) {
  const int64_t depth = program.buffers[0].extent.eval(std::array<int64_t, 2>{0, 1});
  const int64_t size = size_of(program.buffers[0].dtype);
  std::vector<std::byte> q(static_cast<size_t>(queries * depth * size)), k(static_cast<size_t>(keys * depth * size)), v = k;
  std::vector<float> out(static_cast<size_t>(queries * depth), -1);
  const Bytes buffers[] = {q, k, v, std::as_writable_bytes(std::span(out))};
  const int64_t before = counted("launches");
  run_program(runtime, program, buffers, std::array{keys, queries});
  EXPECT_EQ(out, std::vector<float>(out.size(), 0));
  return counted("launches") - before;
}

// Keys of few queries in parts need a second kernel to merge them, and memory until then.
TEST_F(CudaBackend, LongCachesAreCutIntoParts) {
  for (const char* type : {"f32", "bf16"}) {
    const atlas::Program few = attention(type, "1", 16), many = attention(type, "s1", 16);
    EXPECT_EQ(launches_of(runtime(), few, 1, 1000), 2);
    EXPECT_EQ(launches_of(runtime(), few, 1, 256), 1);
    EXPECT_EQ(launches_of(runtime(), many, 1, 1000), 1);
    atlas::Program promised = few;
    promised.attention().reproducible = true;
    EXPECT_EQ(launches_of(runtime(), promised, 1, 1000), 1);
    runtime().device()->wait(nullptr);
    const int64_t blocks = counted("blocks");
    for (int n = 0; n < 3; ++n) launches_of(runtime(), few, 1, 600);
    runtime().device()->wait(nullptr);
    EXPECT_EQ(counted("blocks"), blocks);
  }
}

TEST_F(CudaBackend, AttentionOnTensorCoresUsesTheirInstructions) {
  auto ptx = [&](const atlas::Program& p) { return *runtime().backend().dump(p, "asm"); };
  for (const char* type : {"bf16", "f16"}) {
    const std::string text = ptx(attention(type, "s1", 64));
    for (const char* wanted :
         {"mma.sync.aligned.m16n8k16.row.col.f32", "ld.global.v4", "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "16x2.f32"})
      EXPECT_NE(text.find(wanted), text.npos) << type << ": " << wanted;
    EXPECT_EQ(text.find("hologram_merge"), text.npos);
    EXPECT_NE(ptx(attention(type, "1", 64)).find(".entry hologram_merge"), text.npos);
  }
  EXPECT_NE(ptx(attention("bf16", "s1", 256)).find("mma.sync"), std::string::npos);
  EXPECT_EQ(ptx(attention("bf16", "s1", 272)).find("mma.sync"), std::string::npos);
  EXPECT_EQ(ptx(attention("f32", "s1", 64)).find("mma.sync"), std::string::npos);
}

// A multiprocessor has 65,536 registers: for one CTA of 256 threads with up to 255.
TEST_F(CudaBackend, AttentionKeepsItsSumsInRegisters) {
  if (ptxas().empty()) GTEST_SKIP() << "no ptxas: PyPI's nvidia-cuda-nvcc has one";
  const std::tuple<const char*, const char*, int> cases[] = {{"bf16", "1", 128}, {"bf16", "s1", 128}, {"f16", "40", 64},
                                                             {"f32", "64", 64},  {"f32", "s1", 128},  {"bf16", "64", 256},
                                                             {"f16", "s1", 192}, {"f32", "s1", 256}};
  const char* gpu = "sm_80";  // in turns
  for (const auto& [type, queries, depth] : cases) {
    SCOPED_TRACE(fmt::format("{} {} {} {}", gpu, type, queries, depth));
    expect_registers(assembled(*runtime().backend().dump(attention(type, queries, depth, true), "asm"), gpu), 255);
    gpu = gpu == std::string_view("sm_80") ? "sm_90a" : "sm_80";
  }
}

}  // namespace
}  // namespace hologram::test
