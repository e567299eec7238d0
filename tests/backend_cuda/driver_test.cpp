// tests/backend_cuda/driver_test.cpp: the fake driver at what a real one refuses
#include "backend/cuda/driver.h"

#include "backend/cuda/kernel.h"
#include "codegen/target.h"
#include "cuda_test.h"

namespace hologram::test {
namespace {

class FakeDriver : public CudaBackend {
 protected:
  const cuda::DeviceContext& device_ = cuda::device_context();
  const cuda::Driver& driver_ = device_.driver;
  const cuda::Current here_{device_};

  // A kernel that does nothing, with these bounds and so many bytes of shared memory.
  static std::string kernel(const std::string& bounds, int bytes) {
    return fmt::format(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{}\n{{\n"
        "  .reg .pred %p<2>;\n  .reg .b32 %r<3>;\n  .shared .align 16 .b8 words[{}];\n"
        "  mov.u32 %r1, %tid.x;\n  mov.u32 %r2, words;\n  setp.ne.u32 %p1, %r1, 0;\n"
        "  @%p1 bra END;\n  st.shared.u32 [%r2], %r1;\nEND:\n  ret;\n}}\n",
        bounds, bytes);
  }
  // What a launch of it says.
  int launched(const std::string& ptx, unsigned threads, unsigned shared = 0) {
    cuda::CuModule module = nullptr;
    cuda::CuFunction function = nullptr;
    EXPECT_EQ(driver_.load_module(&module, ptx.c_str()), 0);
    EXPECT_EQ(driver_.function(&function, module, "k"), 0);
    return driver_.launch(function, 1, 1, 1, threads, 1, 1, shared, nullptr, nullptr, nullptr);
  }
};

TEST_F(FakeDriver, HasSoMuchSharedMemoryAndSoManyRegisters) {
  cuda::CuModule module = nullptr;
  EXPECT_EQ(driver_.load_module(&module, kernel("", (48 << 10) + 16).c_str()), 218);
  EXPECT_NE(driver_.words_of(218).find("uses too much shared data (49168 bytes, 49152 max)"), std::string::npos) << driver_.words_of(218);
  EXPECT_EQ(launched(kernel("", 48 << 10), 32), 0);
  EXPECT_EQ(launched(kernel("", 40 << 10), 32, 16 << 10), 1);
  EXPECT_EQ(launched(kernel(".maxntid 64, 1, 1", 16), 32), 0);
  EXPECT_EQ(launched(kernel(".maxntid 64, 1, 1", 16), 96), 701);
  EXPECT_EQ(launched(kernel("", 16), 288), 701);  // of 255 registers each
  EXPECT_EQ(launched(kernel(".maxntid 1024, 1, 1", 16), 1056), 1);
  EXPECT_EQ(driver_.synchronize_all(), 0);
}

// A kernel may go while a call of it is under way: its module does when the next one is loaded.
TEST_F(FakeDriver, UnloadsModulesWhoseKernelsAreThrough) {
  std::string ptx = kernel("", 16);
  ptx.replace(ptx.find(" k()"), 4, std::string(" ") + codegen::kernel_symbol + "()");
  const auto load = [&] { return cuda::load_module(device_, {}, {.code = ptx, .facts = {}}); };
  cuda::CuStream stream = nullptr;
  ASSERT_EQ(driver_.make_stream(&stream, cuda::cu_stream_non_blocking), 0);
  const auto leave = [&] {
    auto loaded = load();
    EXPECT_EQ(driver_.launch(loaded->function, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr), 0);
  };
  leave();
  const int64_t loaded = counted("modules");  // that one waits for the next
  for (int k = 0; k < 3; ++k) leave();
  EXPECT_EQ(counted("modules"), loaded);
  EXPECT_EQ(driver_.synchronize(stream), 0);
  driver_.free_stream(stream);
}

// What waits, or might, spoils the capture on any thread.
TEST_F(FakeDriver, ForbidsWaitsWhileAStreamIsCaptured) {
  auto named = [](const char* name) { return dlsym(started_for().library, name); };
  const auto begin = reinterpret_cast<int (*)(cuda::CuStream, int)>(named("cuStreamBeginCapture_v2"));
  const auto end = reinterpret_cast<int (*)(cuda::CuStream, void**)>(named("cuStreamEndCapture"));
  cuda::CuStream stream = nullptr;
  cuda::CuPointer memory = 0;
  ASSERT_EQ(driver_.make_stream(&stream, cuda::cu_stream_non_blocking), 0);
  ASSERT_EQ(driver_.allocate(&memory, 64, stream), 0);
  const std::string ptx = kernel("", 16);
  void* pinned = nullptr;
  cuda::CuModule module = nullptr;
  const std::function<int()> forbidden[] = {[&] { return driver_.host_allocate(&pinned, 64, 0); },
                                            [&] { return driver_.synchronize(stream); }, [&] { return driver_.synchronize_all(); },
                                            [&] { return driver_.load_module(&module, ptx.c_str()); }};
  for (const auto& call : forbidden) {
    void* graph = nullptr;
    int status = 0;
    ASSERT_EQ(begin(stream, 0), 0);
    EXPECT_EQ(driver_.fill_words(memory, 1, 4, stream), 0);
    EXPECT_EQ(driver_.capture_status(stream, &status), 0);
    EXPECT_EQ(status, 1);
    EXPECT_EQ(call(), 900);
    EXPECT_EQ(driver_.fill_words(memory, 1, 4, stream), 901);
    EXPECT_EQ(driver_.capture_status(stream, &status), 0);
    EXPECT_EQ(status, 2);
    EXPECT_EQ(end(stream, &graph), 901);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(call(), 0);
  }
  driver_.free(memory, stream);
  driver_.free_stream(stream);
}

}  // namespace
}  // namespace hologram::test
