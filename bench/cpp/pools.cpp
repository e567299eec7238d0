// bench/cpp/pools.cpp: hand-off and claim times of the thread pool, allocation times of the memory
// pool.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "host/memory_pool.h"
#include "host/thread_pool.h"

namespace {
using hologram::host::MemoryPool;
using hologram::host::ThreadPool;

int32_t nothing(const void*, void* const*, const int64_t*, int64_t, int64_t) { return 0; }

/// About a nanosecond per item.
int32_t arithmetic(const void*, void* const*, const int64_t*, int64_t begin, int64_t end) {
  float x = 1;
  for (int64_t i = begin; i < end; ++i) {
    x = x * 0.999f + 0.5f;
    benchmark::DoNotOptimize(x);
  }
  return 0;
}

/// A call that stays on its thread.
void parallel_for_inline(benchmark::State& state) {
  ThreadPool pool;
  for (auto _ : state)
    benchmark::DoNotOptimize(pool.parallel_for(nothing, nullptr, nullptr, nullptr, 64, 64));
}
BENCHMARK(parallel_for_inline);

/// Calls in a row with nothing to do: what the pool costs when its workers are awake.
void parallel_for_hot(benchmark::State& state) {
  ThreadPool pool;
  const int64_t chunks = state.range(0);
  for (auto _ : state)
    benchmark::DoNotOptimize(pool.parallel_for(nothing, nullptr, nullptr, nullptr, chunks, 1));
}
BENCHMARK(parallel_for_hot)->Arg(2)->Arg(8)->Arg(64)->Arg(512);

#ifdef _OPENMP
void openmp_hot(benchmark::State& state) {
  const int64_t chunks = state.range(0);
  const int threads = ThreadPool::default_threads();
  for (auto _ : state) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t i = 0; i < chunks; ++i) nothing(nullptr, nullptr, nullptr, i, i + 1);
  }
}
BENCHMARK(openmp_hot)->Arg(2)->Arg(8)->Arg(64)->Arg(512);
#endif

/// Some work in a row of calls; "speedup" is against one thread in the same run.
void parallel_for_work(benchmark::State& state) {
  ThreadPool pool;
  const int64_t total = state.range(0), grain = std::max<int64_t>(total / 16, 1000);
  using Clock = std::chrono::steady_clock;
  double serial = 1e9;
  for (int i = 0; i < 50; ++i) {
    const auto start = Clock::now();
    arithmetic(nullptr, nullptr, nullptr, 0, total);
    serial = std::min(serial, std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::vector<double> times;
  for (auto _ : state) {
    const auto start = Clock::now();
    pool.parallel_for(arithmetic, nullptr, nullptr, nullptr, total, grain);
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2),
                   times.end());
  state.counters["speedup"] = serial / times[times.size() / 2];
}
BENCHMARK(parallel_for_work)->Arg(4'000)->Arg(16'000)->Arg(64'000)->Arg(1'000'000);

/// A call whose workers sleep: the caller's time, which must not exceed its own work by much.
void parallel_for_asleep(benchmark::State& state) {
  ThreadPool pool;
  const int64_t total = state.range(0);
  for (auto _ : state) {
    state.PauseTiming();
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    state.ResumeTiming();
    pool.parallel_for(arithmetic, nullptr, nullptr, nullptr, total,
                      std::max<int64_t>(total / 16, 1));
  }
}
BENCHMARK(parallel_for_asleep)->Arg(16'000)->Arg(64'000)->Arg(1'000'000)->Iterations(2000);

void pool_allocate(benchmark::State& state) {
  static MemoryPool pool;
  const auto bytes = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    void* block = pool.allocate(bytes);
    benchmark::DoNotOptimize(block);
    MemoryPool::deallocate(block);
  }
}
BENCHMARK(pool_allocate)->Arg(4096)->Arg(1 << 20)->Arg(40 << 20)->ThreadRange(1, 2);

/// A result of this size, written once: what a caller of an element-wise kernel sees.
void pool_result(benchmark::State& state) {
  MemoryPool pool;
  const auto bytes = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    void* block = pool.allocate(bytes);
    std::memset(block, 1, bytes);
    MemoryPool::deallocate(block);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(pool_result)->Arg(4096)->Arg(1 << 20)->Arg(40 << 20);

void malloc_result(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    void* block = std::malloc(bytes);
    std::memset(block, 1, bytes);
    benchmark::DoNotOptimize(block);
    std::free(block);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(malloc_result)->Arg(4096)->Arg(1 << 20)->Arg(40 << 20);

}  // namespace
