// tests/capi/handle_test.cpp: stale, foreign, forged and doubly freed handles; threads; much
// traffic.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "support.h"
#include "support/sanitized.h"

namespace hologram::test {
namespace {

using Handles = DeviceTest;
using HostHandles = CapiTest;
HOLOGRAM_ON_EVERY_DEVICE(Handles);

TEST_P(Handles, AreNotFollowedOnceDead) {
  hologram_handle b = buffer(16);
  uint32_t n = 0;
  EXPECT_OK(hologram_buffer_cleanup(b));
  EXPECT_EQ(hologram_buffer_cleanup(b), HOLOGRAM_NOT_FOUND);
  EXPECT_EQ(hologram_buffer_length(b, &n), HOLOGRAM_NOT_FOUND);
  hologram_handle again = buffer(16);
  EXPECT_NE(again, b) << "the same place under another generation";
  EXPECT_EQ(hologram_buffer_length(b, &n), HOLOGRAM_NOT_FOUND);
  EXPECT_EQ(hologram_buffer_length(again ^ (uint64_t{1} << 24), &n), HOLOGRAM_NOT_FOUND);
  EXPECT_EQ(hologram_buffer_length(exec, &n), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_buffer_length(0, &n), HOLOGRAM_NOT_FOUND);
  EXPECT_EQ(hologram_executor_cleanup(again), HOLOGRAM_INVALID_ARGUMENT);
}

TEST_F(HostHandles, AutoSaysThatItFellBack) {
  hologram_handle automatic = 0, cuda = 0;
  ASSERT_OK(hologram_new_executor_auto(&automatic));
  EXPECT_EQ(text([&](auto... a) { return hologram_executor_backend(automatic, a...); }), "cpu");
  hologram_statistics s{};
  s.struct_size = sizeof s;
  ASSERT_OK(hologram_stats(automatic, &s));
  EXPECT_EQ(s.fallbacks, 1u);
  ASSERT_OK(hologram_stats(exec, &s));
  EXPECT_EQ(s.fallbacks, 0u);
  uint8_t available = 9;
  EXPECT_OK(hologram_backend_is_available("CUDA", &available));
  EXPECT_EQ(hologram_new_executor_with_backend("Cuda", &cuda) == HOLOGRAM_OK, available == 1);
  if (available == 0) {
    EXPECT_TRUE(message_has("\"cuda\"")) << hologram_last_error();
  }
  EXPECT_EQ(hologram_new_executor_with_backend("tpu", &cuda), HOLOGRAM_INVALID_ARGUMENT);
  uint32_t devices = 9;
  EXPECT_OK(hologram_device_count("CUDA", &devices));
  EXPECT_EQ(devices > 0, available == 1);
  for (const char* name : {"cpu", "Interp", "auto"}) {
    EXPECT_OK(hologram_device_count(name, &devices));
    EXPECT_GE(devices, 1u);
  }
  EXPECT_EQ(hologram_device_count("tpu", &devices), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_backend_is_available("tpu", &available), HOLOGRAM_INVALID_ARGUMENT);
}

TEST_P(Handles, AnExecutorTakesItsBuffersWithIt) {
  hologram_handle b = buffer(std::vector<float>(5000, 1.0f)), t = 0;
  ASSERT_OK(hologram_tensor_from_buffer(b, "[50, 100]", &t));
  EXPECT_OK(hologram_executor_cleanup(exec));
  EXPECT_EQ(hologram_executor_cleanup(exec), HOLOGRAM_NOT_FOUND);
  uint32_t n = 0;
  EXPECT_EQ(hologram_buffer_length(b, &n), HOLOGRAM_NOT_FOUND);
  EXPECT_EQ(hologram_tensor_ndim(t, &n), HOLOGRAM_NOT_FOUND);
  EXPECT_EQ(hologram_executor_allocate_buffer(exec, 4, &b), HOLOGRAM_NOT_FOUND);
  uint64_t live = 9;
  EXPECT_OK(hologram_live_handles(&live));
  EXPECT_EQ(live, 0u);
}

/// Pages of memory that the process has touched, 0 where the system does not say.
long resident() {
  std::FILE* f = std::fopen("/proc/self/statm", "r");
  long size = 0, pages = 0;
  if (f == nullptr || std::fscanf(f, "%ld %ld", &size, &pages) != 2) pages = 0;
  if (f) std::fclose(f);
  return pages;
}

/// HOLOGRAM_SOAK makes the tests of growth ten times as long.
int soak(int rounds, bool slow) {
  return (std::getenv("HOLOGRAM_SOAK") ? 10 : 1) * (slow ? rounds / 50 + 2000 : rounds);
}

TEST_P(Handles, ManyExecutorsLeaveNothing) {
  long before = 0;
  for (int i = 0; i < soak(10'000, slow()); ++i) {
    if (i == 1000) before = resident();
    hologram_handle e = 0, b = 0;
    ASSERT_OK(new_executor(&e));
    ASSERT_OK(hologram_executor_allocate_buffer(e, 5000, &b));
    ASSERT_OK(hologram_executor_cleanup(e));
  }
  EXPECT_TRUE(sanitized || resident() - before < 2000) << "pages of growth";
}

TEST_P(Handles, MillionsOfBuffersLeaveNothing) {
  hologram_statistics s{};
  s.struct_size = sizeof s;
  long before = 0;
  for (int i = 0; i < soak(1'000'000, slow()); ++i) {
    if (i == 1000) before = resident();
    hologram_handle b = 0;
    ASSERT_OK(hologram_executor_allocate(exec, HOLOGRAM_F32, i % 2 ? 100 : 4000,
                                         HOLOGRAM_UNINITIALIZED, &b));
    ASSERT_OK(hologram_buffer_cleanup(b));
  }
  // The fake device overwrites late what is freed, and gives out other memory meanwhile.
  EXPECT_TRUE(sanitized || resident() - before < (slow() ? 5000 : 500)) << "pages of growth";
  ASSERT_OK(hologram_stats(exec, &s));
  EXPECT_EQ(s.buffers, 0u);
  EXPECT_EQ(s.linear_bytes, 0u);
  EXPECT_EQ(s.boundary_classes_busy, 0u);
  EXPECT_LE(s.linear_mapped, 4u);
}

TEST_F(HostHandles, AnExecutorIsMadeInWellUnderAMillisecond) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> milliseconds;
  for (int i = 0; i < 200; ++i) {
    hologram_handle e = 0;
    const auto start = Clock::now();
    ASSERT_OK(new_executor(&e));
    milliseconds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    ASSERT_OK(hologram_executor_cleanup(e));
  }
  std::nth_element(milliseconds.begin(), milliseconds.begin() + 100, milliseconds.end());
  EXPECT_LT(milliseconds[100], 1.0);
}

TEST_P(Handles, EightThreadsOnOneExecutor) {
  const int threads = 8, rounds = slow() ? 30 : 300;
  hologram_handle shared = buffer(std::vector<float>(1000, 2.0f));
  std::atomic<int> wrong{0};
  std::vector<std::jthread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      for (int i = 0; i < rounds; ++i) {
        hologram_handle mine = 0;
        const uint32_t n = i % 3 == 0 ? 20'000 : 1000;
        if (hologram_executor_allocate_buffer(exec, n, &mine) != HOLOGRAM_OK ||
            hologram_buffer_fill(exec, mine, static_cast<float>(t), n) != HOLOGRAM_OK ||
            hologram_vector_add_f32(exec, mine, shared, mine, 1000) != HOLOGRAM_OK ||
            hologram_scalar_mul_f32(exec, mine, mine, n, 2) != HOLOGRAM_OK)
          ++wrong;
        float sum = 0;
        if (hologram_reduce_sum_f32(exec, mine, mine, 1000, &sum) != HOLOGRAM_OK ||
            sum != 2000.0f * static_cast<float>(t + 2))
          ++wrong;
        if (hologram_buffer_cleanup(mine) != HOLOGRAM_OK) ++wrong;
      }
    });
  workers.clear();
  EXPECT_EQ(wrong, 0) << hologram_last_error();
}

TEST_P(Handles, FreedWhileOthersUseThem) {
  std::atomic<hologram_handle> current{buffer(4096)};
  std::atomic<bool> stop{false};
  std::atomic<int> odd{0};
  std::vector<std::jthread> users;
  for (int t = 0; t < 4; ++t)
    users.emplace_back([&, t] {
      while (!stop) {
        const hologram_handle h = current;
        hologram_status s;
        uint32_t n = 0;
        if (t == 0)
          s = hologram_vector_abs_f32(exec, h, h, 1024);
        else if (t == 1)
          s = hologram_buffer_length(h, &n);
        else if (t == 2)
          s = hologram_buffer_resize(exec, h, 4096);
        else
          s = hologram_vector_relu_f32(exec, h, h, 1000);
        if (s != HOLOGRAM_OK && s != HOLOGRAM_NOT_FOUND && s != HOLOGRAM_BUSY) ++odd;
      }
    });
  for (int i = 0; i < (slow() ? 300 : 3000); ++i) {
    hologram_handle next = 0;
    while (hologram_executor_allocate_buffer(exec, 4096, &next) != HOLOGRAM_OK) {
    }
    const hologram_handle old = current.exchange(next);
    while (hologram_buffer_cleanup(old) == HOLOGRAM_BUSY) {
    }
  }
  stop = true;
  users.clear();
  EXPECT_EQ(odd, 0) << hologram_last_error();
}

TEST_P(Handles, ExecutorsEndWhileOthersAllocate) {
  for (int i = 0; i < (slow() ? 50 : 200); ++i) {
    hologram_handle e = 0;
    ASSERT_OK(new_executor(&e));
    std::jthread other([e] {
      hologram_handle b = 0;
      for (int n = 0; n < 2000; ++n)
        if (hologram_executor_allocate_buffer(e, 64, &b) != HOLOGRAM_OK) break;
    });
    std::this_thread::yield();
    ASSERT_OK(hologram_executor_cleanup(e));
  }
}

/// Random calls with handles that are right, wrong, stale or random, and sizes at the edges.
TEST_P(Handles, NoMisuseCrashes) {
  std::mt19937_64 rng(42);
  std::vector<hologram_handle> pool = {0, exec, 1, ~uint64_t{0}};
  ASSERT_OK(hologram_executor_set_memory_limit(exec, 64 << 20));
  hologram_handle second = 0;
  ASSERT_OK(new_executor(&second));
  ASSERT_OK(hologram_executor_set_memory_limit(second, 64 << 20));
  pool.push_back(second);
  auto any = [&]() -> hologram_handle {
    if (rng() % 16 == 0) return rng();
    hologram_handle h = pool[rng() % pool.size()];
    if (rng() % 16 == 0) h ^= uint64_t{1} << (rng() % 64);
    return h;
  };
  auto owner = [&] { return rng() % 8 ? exec : any(); };
  auto length = [&]() -> uint64_t {
    constexpr uint64_t edges[] = {
        0, 1, 7, 64, 1024, 3072, 3073, 100'000, UINT32_MAX, uint64_t{1} << 40, UINT64_MAX};
    return edges[rng() % std::size(edges)];
  };
  auto keep = [&](hologram_handle h) {
    if (h == 0) return;
    if (pool.size() < 64)
      pool.push_back(h);
    else
      pool[5 + rng() % 59] = h;
  };
  const char* texts[] = {nullptr, "",      "[]",     "[1, 2]",   "[2, 32]",
                         "[64]",  "[-1]",  "[1e9]",  "[0, 0]",   "[9223372036854775807, 2]",
                         "[[",    "[NaN]", "[1, 0]", "[4, 4, 4]"};
  auto text = [&] { return texts[rng() % std::size(texts)]; };
  hologram_handle graph = 0, scratch = 0, executable = 0;
  uint32_t node = 0;
  ASSERT_OK(
      hologram_graph_parse("graph(symbols=1, parameters=2)\n"
                           "%0: f32[s0] = parameter index=0 strides=[1]\n"
                           "%1: f32[s0] = parameter index=1 strides=[1]\n"
                           "%2: f32[s0] = add %0, %1\n"
                           "return %2 strides=[1]\n",
                           &graph));
  ASSERT_OK(hologram_graph_compile(exec, graph, 0, &executable));
  ASSERT_OK(hologram_graph_create(1, &scratch));
  ASSERT_OK(hologram_graph_parameter(scratch, HOLOGRAM_F32, "[s0]", &node));
  pool[2] = executable;
  char room[256];
  std::vector<int> seen(12);
  const int calls = slow() ? 20'000 : 100'000;
  for (int i = 0; i < calls; ++i) {
    hologram_handle out = 0;
    uint32_t u = 0;
    uint8_t y = 0;
    float r = 0;
    void* p = nullptr;
    size_t needed = 0;
    const auto n = length();
    const auto n32 = static_cast<uint32_t>(n);
    const size_t space = rng() % sizeof room;
    hologram_status s = HOLOGRAM_OK;
    switch (rng() % 48) {
      case 0:
        s = hologram_executor_allocate_buffer(owner(), n32 % 200'000, &out);
        break;
      case 1:
        s = hologram_executor_allocate(owner(), static_cast<hologram_dtype>(rng() % 16), n,
                                       static_cast<uint32_t>(rng() % 5), &out);
        break;
      case 2:
        s = hologram_executor_allocate_boundary_buffer(owner(), static_cast<uint8_t>(rng()),
                                                       static_cast<uint32_t>(rng() % 50),
                                                       static_cast<uint32_t>(rng() % 260), &out);
        break;
      case 3:
        s = hologram_buffer_cleanup(any());
        break;
      case 4:
        s = hologram_buffer_length(any(), rng() % 9 ? &u : nullptr);
        break;
      case 5:
        s = hologram_buffer_class_index(any(), &y);
        break;
      case 6:
        s = hologram_buffer_copy_from_slice(owner(), any(), text());
        break;
      case 7:
        s = hologram_buffer_to_vec(owner(), any(), rng() % 4 ? room : nullptr, space, &needed);
        break;
      case 8:
        s = hologram_buffer_fill(owner(), any(), 1, n32);
        break;
      case 9:
        s = hologram_buffer_copy_u64(owner(), any(), any(), n);
        break;
      case 10:
        s = hologram_buffer_resize(owner(), any(), n);
        break;
      case 11:
        s = hologram_buffer_slice(owner(), any(), length(), n, &out);
        break;
      case 12:
        s = hologram_buffer_as_mut_ptr(owner(), any(), &p);
        break;
      case 13:
        s = hologram_vector_add_f32(owner(), any(), any(), any(), n32);
        break;
      case 14:
        s = hologram_vector_div_f32_u64(owner(), any(), any(), any(), n);
        break;
      case 15:
        s = hologram_vector_relu_f32(owner(), any(), any(), n32);
        break;
      case 16:
        s = hologram_vector_clip_f32(owner(), any(), any(), n32, r, -r);
        break;
      case 17:
        s = hologram_softmax_f32(owner(), any(), any(), n32);
        break;
      case 18:
        s = hologram_reduce_sum_f32(owner(), any(), any(), n32, &r);
        break;
      case 19:
        s = hologram_mse_loss_f32_u64(owner(), any(), any(), any(), n, &r);
        break;
      case 20:
        s = hologram_gemm_f32_u64(owner(), any(), any(), any(), length(), length(), n);
        break;
      case 21:
        s = hologram_matvec_f32(owner(), any(), any(), any(), n32, n32 / 2);
        break;
      case 22:
        s = hologram_tensor_from_buffer(any(), text(), &out);
        break;
      case 23:
        s = hologram_tensor_from_buffer_with_strides(any(), text(), text(), &out);
        break;
      case 24:
        s = hologram_tensor_transpose(any(), &out);
        break;
      case 25:
        s = hologram_tensor_permute(any(), text(), &out);
        break;
      case 26:
        s = hologram_tensor_reshape(owner(), any(), text(), &out);
        break;
      case 27:
        s = hologram_tensor_slice(any(), n32 % 4, static_cast<int32_t>(rng() % 9) - 2,
                                  static_cast<int32_t>(rng() % 9) - 2, static_cast<int32_t>(rng()),
                                  &out);
        break;
      case 28:
        s = hologram_tensor_matmul(owner(), any(), any(), &out);
        break;
      case 29:
        s = hologram_tensor_cleanup(any());
        break;
      case 30:
        s = hologram_tensor_buffer(any(), &out);
        break;
      case 31:
        s = hologram_tensor_shape(any(), room, space, &needed);
        break;
      case 32:
        s = hologram_tensor_contiguous(owner(), any(), &out);
        break;
      case 33:
        s = hologram_tensor_narrow(any(), n32 % 4, n32, n32 % 3, &out);
        break;
      case 34:
        s = hologram_tensor_broadcast_shapes(text(), text(), room, space, &needed);
        break;
      case 35:
        s = hologram_executor_backend(any(), rng() % 4 ? room : nullptr, space,
                                      rng() % 4 ? &needed : nullptr);
        break;
      case 36:
        s = hologram_buffer_verify_canonical(owner(), any(), &y);
        break;
      case 37:
        s = hologram_tensor_broadcast_to(any(), text(), &out);
        break;
      case 38:
        s = hologram_convert(owner(), any(), any(), n);
        break;
      case 39:
        s = hologram_graph_cleanup(rng() % 8 ? 0 : any());
        break;
      case 40:
        s = hologram_graph_compile(owner(), rng() % 64 ? any() : graph, n32 % 6, &out);
        break;
      case 41:
      case 42: {
        const hologram_handle in[] = {any(), any()};
        hologram_handle result = rng() % 2 ? 0 : any();
        s = hologram_executable_run(rng() % 4 ? executable : any(), in, n % 3, &result, n % 2);
        out = s == HOLOGRAM_OK ? result : 0;
        break;
      }
      case 43: {
        const int64_t symbols[] = {static_cast<int64_t>(n), -1};
        const hologram_handle in[] = {any(), any()};
        hologram_handle result = 0;
        s = hologram_executable_run_with_symbols(executable, in, 2, rng() % 8 ? symbols : nullptr,
                                                 rng() % 3, &result, 1);
        out = s == HOLOGRAM_OK ? result : 0;
        break;
      }
      case 44: {
        const uint32_t in[] = {static_cast<uint32_t>(rng() % 40),
                               static_cast<uint32_t>(rng() % 40)};
        constexpr const char* names[] = {"add", "reduce_sum", "reshape", "host_call", "nothing"};
        constexpr const char* attributes[] = {nullptr, "axes=[0]", "axes=[9]", "axes=", "=["};
        constexpr const char* types[] = {nullptr, "f32[s0]", "[2, 2]", "f32[s9]", "f99", "[["};
        s = hologram_graph_apply(scratch, names[rng() % 5], in, n % 3, attributes[rng() % 5],
                                 types[rng() % 6], &u);
        break;
      }
      case 45:
        s = hologram_tensor_gemm(owner(), any(), any(), any(), 1, r);
        break;
      case 46:
        s = hologram_along_axis_f32(owner(), rng() % 2 ? "softmax" : "reduce_min", any(), any(),
                                    length() % 50, length(), n % 7);
        break;
      case 47:
        s = hologram_elementwise_by_id(owner(), static_cast<uint32_t>(rng() % 200),
                                       rng() % 8 ? pool.data() : nullptr, rng() % 4, any(), n % 99);
        break;
    }
    ASSERT_GE(s, 0);
    ASSERT_LT(s, 12);
    ASSERT_NE(s, HOLOGRAM_INTERNAL) << hologram_last_error();
    ++seen[static_cast<size_t>(s)];
    if (s == HOLOGRAM_OK) keep(out);
  }
  EXPECT_GT(seen[HOLOGRAM_OK], calls / 20) << "too few calls did anything";
  EXPECT_GT(seen[HOLOGRAM_NOT_FOUND], calls / 20);
  EXPECT_GT(seen[HOLOGRAM_INVALID_ARGUMENT], calls / 20);
}

}  // namespace
}  // namespace hologram::test
