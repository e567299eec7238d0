// host/context.cpp: the services that running kernels ask for.
#include "host/context.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace hologram::host {
namespace {

constexpr int64_t before_scratch = 64;  // its last 8 bytes: the note
// Chunks of so few units are fitted to the threads, down to so much work; what claiming one takes.
constexpr int64_t most_fitted = 16, least_fitted_work = 4'000'000, claim_work = 150'000;

struct ScratchMemory {
  char* data = nullptr;
  int64_t size = 0, launch = 0;
  ~ScratchMemory() { std::free(data); }
};

void* thread_scratch(const atlas::Context* context, int64_t bytes) {
  thread_local ScratchMemory memory;
  const bool keeps = bytes <= memory.size && context->launch == memory.launch;
  if (bytes > memory.size) {
    std::free(memory.data);
    memory.size = (bytes + 4095) / 4096 * 4096;
    memory.data = static_cast<char*>(
        std::aligned_alloc(64, static_cast<size_t>(before_scratch + memory.size)));
    if (!memory.data) memory.size = 0;
    if (!memory.data) return nullptr;
  }
  if (!keeps) std::memset(memory.data + before_scratch - 8, 0, 8);
  memory.launch = context->launch;
  return memory.data + before_scratch;
}

int32_t run_parallel(const atlas::Context* context, atlas::KernelFn kernel, void* const* bufs,
                     const int64_t* syms, int64_t total, int64_t grain) {
  static std::atomic<int64_t> launches{0};
  auto* threads = static_cast<ThreadPool*>(context->runtime);
  atlas::Context own = *context;
  own.launch = launches.fetch_add(1, std::memory_order_relaxed) + 1;
  return threads->parallel_for(reinterpret_cast<RangeFn>(kernel), &own, bufs, syms, total, grain,
                               {.backwards = own.launch % 2 != 0});
}

int32_t refuse_host(const atlas::Context*, int64_t) {
  return static_cast<int32_t>(ErrorCode::unsupported);
}

// Of chunks of up to `chunk` units, those that let the threads finish first.
int64_t fitted(int64_t total, int64_t chunk, int64_t unit_work, int64_t threads) {
  auto time = [&](int64_t units) {
    const int64_t chunks = (total - 1) / units + 1, last = total - (chunks - 1) * units;
    const int64_t rounds = (chunks - 1) / threads;
    // The last round is one thread's, if its chunk is the last one alone.
    const int64_t end = (chunks - 1) % threads == 0 ? last : units;
    return (rounds * units + end) * unit_work + (rounds + 1) * claim_work;
  };
  int64_t best = chunk;
  for (int64_t units = chunk - 1; units >= 1 && units * unit_work >= least_fitted_work; --units)
    if (time(units) < time(best)) best = units;
  return best;
}

}  // namespace

atlas::Context make_context(ThreadPool& threads, std::atomic<int32_t>* sticky,
                            int32_t (*call_host)(const atlas::Context*, int64_t)) {
  return {run_parallel, thread_scratch, call_host ? call_host : refuse_host, sticky, &threads, 0};
}

int64_t working_threads(int64_t work, int64_t threads) {
  if (threads <= 2) return threads;
  // work / n + n * joining_work is least there.
  const double most = std::sqrt(static_cast<double>(work) / static_cast<double>(joining_work));
  return std::clamp<int64_t>(static_cast<int64_t>(most), 2, threads);
}

int64_t chunk_of(int64_t total, int64_t grain, int64_t unit_work, int64_t threads) {
  unit_work = std::max<int64_t>(1, unit_work);
  int64_t work;
  if (__builtin_mul_overflow(total, unit_work, &work)) work = INT64_MAX;
  if (work <= split_work || threads == 1) return std::max<int64_t>(total, 1);
  threads = working_threads(work, threads);
  grain = std::max<int64_t>(1, grain);
  const int64_t share = (total + threads - 1) / threads;
  const int64_t chunk = std::clamp<int64_t>(chunk_work / unit_work, 1, share);
  // As many for each thread: with five chunks one of two threads would work half as long again.
  const int64_t each = ((total - 1) / chunk + threads) / threads;
  const int64_t even = (total - 1) / (each * threads) + 1;
  const int64_t chosen = (even + grain - 1) / grain * grain;
  return grain == 1 && chosen <= most_fitted ? fitted(total, chosen, unit_work, threads) : chosen;
}

}  // namespace hologram::host
