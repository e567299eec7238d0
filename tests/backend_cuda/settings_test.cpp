// tests/backend_cuda/settings_test.cpp: what the environment asks of the backend
#include "backend/cuda/settings.h"

#include "cuda_test.h"

namespace hologram::test {
namespace {

class CudaSettings : public CudaBackend {
 protected:
  void TearDown() override {
    for (const char* name : {"HOLOGRAM_CUDA_SYNC", "HOLOGRAM_CUDA_BLOCK", "HOLOGRAM_AUTO"}) unsetenv(name);
    CudaBackend::TearDown();
  }
};

TEST_F(CudaSettings, WithSyncAFailureIsToldByItsLaunch) {
  std::vector<float> out(100);
  for (const char* sync : {"0", "", "1"}) {
    setenv("HOLOGRAM_CUDA_SYNC", sync, 1);
    Runtime fresh("cuda");
    ASSERT_EQ(add(out, fresh), "");
    EXPECT_EQ(out, std::vector<float>(100, 2.5f));
    inject("kernel", 0);
    const std::string words = add(out, fresh);
    EXPECT_TRUE(words.starts_with(*sync == '1' ? "cuda: running kernel " : "cuda: waiting for the device: ")) << words;
    EXPECT_TRUE(words.ends_with("unspecified launch failure (error 719)")) << words;
    EXPECT_EQ(words.find(", hologram_kernel (1 CTAs of 256 threads, 0 bytes of shared memory): ") != words.npos, *sync == '1');
    inject("nothing", 0);
    ASSERT_EQ(add(out, fresh), "");
  }
}

TEST_F(CudaSettings, ABlockIsHowManyThreadsACtaHas) {
  const atlas::Program program = elementwise(Op::add, DType::f32, 2, DType::f32);
  const std::string usual = runtime().backend().code_key();  // made before the variable is set
  for (const char* block : {"32", "64", "1024"}) {
    setenv("HOLOGRAM_CUDA_BLOCK", block, 1);
    Runtime fresh("cuda");
    EXPECT_NE(fresh.backend().code_key(), usual);
    EXPECT_NE(fresh.backend().dump(program, "ptx")->find(std::string(".maxntid ") + block), std::string::npos);
    std::vector<float> out(5000);
    inject("launch", 0);
    const std::string refused = add(out, fresh);
    EXPECT_NE(refused.find(std::string(" of ") + block + " threads, 0 bytes"), std::string::npos) << refused;
    inject("nothing", 0);
    ASSERT_EQ(add(out, fresh), "");
    EXPECT_EQ(out, std::vector<float>(5000, 2.5f));
  }
  for (const char* wrong : {"31", "100", "2048", "-32", "64x"}) {
    setenv("HOLOGRAM_CUDA_BLOCK", wrong, 1);
    EXPECT_THROW(make_backend("cuda"), Error) << wrong;
  }
  setenv("HOLOGRAM_CUDA_BLOCK", "", 1);
  EXPECT_EQ(cuda::read_settings().block, cuda::usual_block);
}

TEST_F(CudaSettings, AutoTakesTheFirstOfTheNamedThatHasADevice) {
  const auto chosen = [](const char* names) {
    setenv("HOLOGRAM_AUTO", names, 1);
    return default_backend().name;
  };
  EXPECT_EQ(chosen(""), "cpu");
  EXPECT_EQ(chosen("cuda,cpu"), "cuda");
  EXPECT_EQ(chosen("metal,,cuda"), "cuda");  // what the build lacks is passed over
  EXPECT_EQ(chosen("cpu,cuda"), "cpu");
  inject("devices", 0);
  EXPECT_EQ(chosen("cuda"), "cpu");
}

}  // namespace
}  // namespace hologram::test
