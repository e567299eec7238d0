// tests/backend_cuda/backend_test.cpp: the backend over the fake driver: errors, faults, streams
#include "backend/cuda/faults.h"
#include "backend/cuda/kernel.h"
#include "codegen/product_tails.h"
#include "cuda_test.h"

namespace hologram::test {
namespace {

// A product with what follows on its rows: no plan for a GPU has one.
TEST_F(CudaBackend, WhatHasNoKernelRunsOnTheHost) {
  namespace tails = product_tails;
  const atlas::Program p = tails::make_program({.m = 2, .n = 3, .k = 4, .packed = false, .follows = tails::Follows::running_sum}, 8, 1);
  ASSERT_NE(cuda::unrendered(p), std::nullopt);
  std::vector<std::vector<float>> data;
  for (const atlas::Buffer& b : p.buffers) data.emplace_back(static_cast<size_t>(b.extent.constant_value()), 1.0f);
  std::vector<Bytes> buffers;
  for (auto& numbers : data) buffers.push_back(std::as_writable_bytes(std::span(numbers)));
  const int64_t launches = counted("launches"), host = counts("host_runs");
  run_program(runtime(), p, buffers, {});
  EXPECT_EQ(data[tails::out_buffer], (std::vector<float>{6, 12, 18, 6, 12, 18}));
  EXPECT_EQ(counted("launches"), launches);
  EXPECT_EQ(counts("host_runs"), host + 1);
}

TEST_F(CudaBackend, SaysWhatIsMissing) {
  EXPECT_EQ(refusal(), "");
  inject("version", 11080);
  EXPECT_EQ(refusal(), "backend \"cuda\" is not available: the NVIDIA driver is for CUDA 11.8; it must be for 12.0 or later");
  EXPECT_EQ(find_backend("cuda")->device_count(), 0);
  inject("nothing", 0);
  inject("capability", 75);
  EXPECT_EQ(refusal(), "backend \"cuda\" is not available: device 0 has compute capability 7.5; it must be 8.0 or higher");
  inject("nothing", 0);
  inject("pools", 0);
  EXPECT_EQ(refusal(), "backend \"cuda\" is not available: device 0 has no memory pools (cuMemAllocAsync), as some virtual GPUs");
  inject("nothing", 0);
  inject("devices", 0);
  EXPECT_EQ(refusal(), "backend \"cuda\" is not available: the NVIDIA driver finds no device");
  inject("nothing", 0);
  inject("init", 100);
  EXPECT_EQ(refusal(), "backend \"cuda\" is not available: the NVIDIA driver finds no device");
  inject("nothing", 0);
  setenv("HOLOGRAM_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
  EXPECT_NE(refusal().find("backend \"cuda\" is not available: no NVIDIA driver: /nowhere/libcuda.so.1"), std::string::npos);
  EXPECT_EQ(find_backend("cuda")->device_count(), 0);
}

// The context that a thread of the user's has stays the thread's.
TEST_F(CudaBackend, EachDeviceHasARuntimeAndTheCurrentOneStays) {
  using Context = void*;
  auto driver = [](const char* name) { return dlsym(started_for().library, name); };
  const auto get = reinterpret_cast<int (*)(Context*)>(driver("cuCtxGetCurrent"));
  const auto set = reinterpret_cast<int (*)(Context)>(driver("cuCtxSetCurrent"));
  const auto retain = reinterpret_cast<int (*)(Context*, int)>(driver("cuDevicePrimaryCtxRetain"));
  inject("devices", 2);
  EXPECT_EQ(find_backend("cuda")->device_count(), 2);
  Context contexts[2], now;
  for (int d : {0, 1}) ASSERT_EQ(retain(&contexts[d], d), 0);
  for (Context users : {contexts[0], contexts[1]}) {
    set(users);
    Runtime second("cuda:1");
    EXPECT_EQ(second.device()->device().id, 1);
    for (Runtime* r : {&runtime(), &second, &runtime()}) {
      const bool other = r == &second;
      const int64_t launches[] = {counted("launches0"), counted("launches1")};
      std::vector<float> out(100);
      ASSERT_EQ(add(out, *r), "");
      EXPECT_EQ(out, std::vector<float>(100, 2.5f));
      EXPECT_EQ(counted("launches0") - launches[0], other ? 0 : 1);
      EXPECT_EQ(counted("launches1") - launches[1], other ? 1 : 0);
      ASSERT_EQ(get(&now), 0);
      EXPECT_EQ(now, users);
    }
    void* block = second.device()->allocate(64, nullptr);
    EXPECT_TRUE(second.device()->contains(block));
    EXPECT_FALSE(runtime().device()->contains(block));
    second.device()->deallocate(block, nullptr);
  }
  set(nullptr);
}

TEST_F(CudaBackend, DevicesThatAreNotThereAreRefused) {
  EXPECT_EQ(refusal("cuda:1"), "backend \"cuda\" has no device 1: the last one is \"cuda:0\"");
  inject("devices", 2);
  EXPECT_EQ(refusal("cuda:1"), "");
  EXPECT_EQ(refusal("cuda:2"), "backend \"cuda\" has no device 2: the last one is \"cuda:1\"");
  inject("capability1", 75);
  EXPECT_EQ(refusal("cuda:0"), "");
  EXPECT_EQ(refusal("cuda:1"), "backend \"cuda\" is not available: device 1 has compute capability 7.5; it must be 8.0 or higher");
  inject("init", 100);
  EXPECT_EQ(refusal("cuda:1"), "backend \"cuda\" is not available: the NVIDIA driver finds no device");
  EXPECT_THROW(choose_backend("cuda:"), Error);
  EXPECT_THROW(choose_backend("cuda:1x"), Error);
  EXPECT_THROW(choose_backend("cuda:-1"), Error);
  EXPECT_EQ(refusal("interp:1"), "backend \"interp\" has no device 1: the last one is \"interp:0\"");
}

TEST_F(CudaBackend, FailuresAreErrorsAndPass) {
  std::vector<float> out(100);
  ASSERT_EQ(add(out), "");
  inject("allocate", 1);
  EXPECT_EQ(add(out), "cuda: the device has no room for 400 bytes");
  inject("nothing", 0);
  inject("launch", 0);
  const std::string refused = add(out);
  EXPECT_TRUE(refused.starts_with("cuda: launching kernel ")) << refused;
  EXPECT_TRUE(
      refused.ends_with(", hologram_kernel (1 CTAs of 256 threads, 0 bytes of shared memory): too many resources "
                        "requested for launch (error 701)"))
      << refused;
  inject("nothing", 0);
  inject("kernel", 0);
  EXPECT_EQ(add(out), "cuda: waiting for the device: unspecified launch failure (error 719)");
  inject("nothing", 0);
  EXPECT_EQ(add(out), "");
  EXPECT_EQ(out, std::vector<float>(100, 2.5f));
}

TEST_F(CudaBackend, BlocksAreGivenBack) {
  std::vector<float> out(100);
  ASSERT_EQ(add(out), "");
  runtime().device()->wait(nullptr);
  const int64_t blocks = counted("blocks");
  for (int n = 0; n < 5; ++n) ASSERT_EQ(add(out), "");
  runtime().device()->wait(nullptr);
  EXPECT_EQ(counted("blocks"), blocks);
}

// Each call allocates, and ends with a wait: what it frees is still there at the next one.
TEST_F(CudaBackend, ThePoolKeepsItsMemory) {
  std::vector<float> out(100000);
  auto call = [&] {
    ASSERT_EQ(add(out), "");
    runtime().device()->wait_for_all();  // for what is freed behind it, too
  };
  call();
  const int64_t grown = counted("grown"), reserved = counted("reserved");
  EXPECT_GE(reserved, 1200000);
  for (int n = 0; n < 3; ++n) call();
  EXPECT_EQ(counted("grown"), grown);
  const size_t released = runtime().release_memory();
  EXPECT_GE(released, 1200000u);
  EXPECT_EQ(counted("reserved"), reserved - static_cast<int64_t>(released));
  call();
  EXPECT_GT(counted("grown"), grown);
}

// Kernels of a replay store to the words that were captured with them, each time.
TEST_F(CudaBackend, WordsOfFaultsStayWithTheCaptureThatHasThem) {
  auto driver = [](const char* name) { return dlsym(started_for().library, name); };
  const auto begin = reinterpret_cast<int (*)(void*, int)>(driver("cuStreamBeginCapture_v2"));
  const auto end = reinterpret_cast<int (*)(void*, void**)>(driver("cuStreamEndCapture"));
  const auto replay = reinterpret_cast<decltype(&fakecuda_replay)>(driver("fakecuda_replay"));
  const cuda::DeviceContext& device = cuda::device_context();
  cuda::Faults::stock(device);
  const int64_t pinned = counted("pinned");
  Stream stream = runtime().device()->make_stream();
  std::atomic<int32_t> sticky{0};
  void* graph = nullptr;
  ASSERT_EQ(begin(stream, 0), 0);
  cuda::Faults words(device);  // nothing may be pinned now
  const uint64_t captured = words.address();
  words.collect(static_cast<cuda::CuStream>(stream), &sticky, true);
  ASSERT_EQ(end(stream, &graph), 0);
  for (int n = 0; n < 2; ++n) {
    reinterpret_cast<int32_t*>(captured)[n] = 1;
    replay(graph, stream);
    runtime().device()->wait(stream);
    EXPECT_EQ(sticky.exchange(0), 1 << n);
  }
  const cuda::Faults others[] = {cuda::Faults(device), cuda::Faults(device)};
  EXPECT_NE(others[0].address(), others[1].address());
  for (const cuda::Faults& other : others) EXPECT_NE(other.address(), captured);
  EXPECT_EQ(counted("pinned"), pinned);
  runtime().device()->free_stream(stream);
}

// A kernel may go while a call of it is under way: its module does when the next one is loaded.
TEST_F(CudaBackend, ModulesWhoseKernelsAreThroughAreUnloaded) {
  const cuda::DeviceContext& device = cuda::device_context();
  const cuda::Current here(device);
  const std::string ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry hologram_kernel()\n{\n  ret;\n}\n";
  Stream stream = runtime().device()->make_stream();
  const auto leave = [&] {
    const auto loaded = cuda::load_module(device, {}, {.code = ptx, .facts = {}});
    auto* on = static_cast<cuda::CuStream>(stream);
    EXPECT_EQ(device.driver.launch(loaded->function, 1, 1, 1, 32, 1, 1, 0, on, nullptr, nullptr), 0);
  };
  leave();
  const int64_t loaded = counted("modules");  // that one waits for the next
  for (int k = 0; k < 3; ++k) leave();
  EXPECT_EQ(counted("modules"), loaded);
  runtime().device()->wait(stream);
  runtime().device()->free_stream(stream);
}

TEST_F(CudaBackend, LargeCopiesPassThroughPinnedBlocks) {
  std::vector<uint32_t> in(size_t{6} << 20), out(in.size());
  for (size_t k = 0; k < in.size(); ++k) in[k] = static_cast<uint32_t>(k * 2654435761u);
  const size_t bytes = in.size() * 4 - 4;  // three blocks of the ring, the last one short
  Runtime fresh("cuda");
  auto round_trip = [&](Stream stream) {
    Memory& memory = *fresh.device();
    std::ranges::fill(out, 0u);
    void* block = memory.allocate(bytes, stream);
    memory.copy(block, in.data(), bytes, stream);
    memory.copy(out.data(), block, bytes, stream);
    memory.deallocate(block, stream);
    return std::equal(in.begin(), in.end() - 1, out.begin());
  };
  const int64_t pinned = counted("pinned");
  inject("pin", 0);
  EXPECT_TRUE(round_trip(nullptr));  // once as the driver can
  inject("nothing", 0);
  Stream stream = fresh.device()->make_stream();
  EXPECT_TRUE(round_trip(nullptr));
  EXPECT_TRUE(round_trip(stream));
  EXPECT_EQ(counted("pinned"), pinned + 2);
  fresh.device()->free_stream(stream);
}

TEST_F(CudaBackend, IsDescribed) {
  EXPECT_EQ(Runtime("cuda").backend().describe(),
            "Fake GPU 0, compute capability 8.0, 4 multiprocessors; driver for CUDA 13.3; kernels assembled by the driver");
}

}  // namespace
}  // namespace hologram::test
