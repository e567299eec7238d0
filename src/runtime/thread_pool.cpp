// runtime/thread_pool.cpp: chunk claiming, sleeping workers and what happens after a fork.
#include "runtime/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#include "base/error.h"

namespace hologram::runtime {
namespace {

constexpr int kSlots = 64;
constexpr uint32_t kWakeChunks = 4;
constexpr int64_t kLongChunkNs = 10'000;
constexpr int64_t kWorkerSpinNs = 30'000;
constexpr int64_t kCallerSpinNs = 60'000;

/// Counts the forks this process descends from, so that a pool notices that its workers are gone.
std::atomic<uint32_t> fork_generation{0};

uint32_t current_generation() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { fork_generation.fetch_add(1); });
  (void)registered;
  return fork_generation.load(std::memory_order_relaxed);
}

thread_local bool inside_chunk = false;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Sleeps while `word` holds `value`; may return early.
void futex_wait(std::atomic<uint32_t>& word, uint32_t value) {
#ifdef __linux__
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
#else
  word.wait(value);
#endif
}

void futex_wake(std::atomic<uint32_t>& word, int count) {
#ifdef __linux__
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
#else
  if (count == 1) word.notify_one();
  else word.notify_all();
#endif
}

struct Ticket {
  static constexpr int kNextBits = 20, kJoinedBits = 8;
  static constexpr uint64_t kNextMask = (uint64_t{1} << kNextBits) - 1;
  static constexpr uint64_t kJoin = uint64_t{1} << kNextBits;
  static constexpr uint64_t kGeneration = uint64_t{1} << (kNextBits + kJoinedBits);
  static uint32_t next(uint64_t t) { return static_cast<uint32_t>(t & kNextMask); }
  static uint32_t joined(uint64_t t) {
    return static_cast<uint32_t>((t >> kNextBits) & ((1u << kJoinedBits) - 1));
  }
  static uint64_t generation(uint64_t t) { return t >> (kNextBits + kJoinedBits); }
};

struct alignas(64) Slot {
  std::atomic<uint64_t> ticket{0};
  std::atomic<RangeFn> fn{nullptr};
  std::atomic<const void*> ctx{nullptr};
  std::atomic<void* const*> bufs{nullptr};
  std::atomic<const int64_t*> syms{nullptr};
  std::atomic<int64_t> total{0}, grain{0};
  std::atomic<uint32_t> chunks{0}, helpers{0};
  alignas(64) std::atomic<uint32_t> done{0};
  std::atomic<uint32_t> waiting{0};
  std::atomic<int32_t> status{0};
};

struct Job {
  RangeFn fn;
  const void* ctx;
  void* const* bufs;
  const int64_t* syms;
  int64_t total, grain;
  uint32_t chunks;

  int32_t run(uint32_t chunk) const {
    const int64_t begin = chunk * grain;
    return fn(ctx, bufs, syms, begin, std::min(total, begin + grain));
  }
};

constexpr auto relaxed = std::memory_order_relaxed;

}  // namespace

struct ThreadPool::State {
  alignas(64) std::atomic<uint64_t> busy{0};
  alignas(64) std::atomic<uint32_t> epoch{0};
  std::atomic<uint32_t> sleepers{0};
  alignas(64) std::atomic<uint32_t> threads;
  std::atomic<uint32_t> spawned{0};
  std::atomic<bool> stop{false};
  const uint32_t generation = current_generation();
  std::mutex spawn_mutex;
  std::vector<pthread_t> workers;
  Slot slots[kSlots];

  explicit State(uint32_t n) : threads(n) {}
};

namespace {
using State = ThreadPool::State;

bool work_on(Slot& slot) {
  uint64_t ticket = slot.ticket.load(std::memory_order_acquire);
  Job job{slot.fn.load(relaxed),   slot.ctx.load(relaxed),   slot.bufs.load(relaxed),
          slot.syms.load(relaxed), slot.total.load(relaxed), slot.grain.load(relaxed),
          slot.chunks.load(relaxed)};
  if (Ticket::next(ticket) >= job.chunks || Ticket::joined(ticket) >= slot.helpers.load(relaxed))
    return false;
  const uint64_t generation = Ticket::generation(ticket);
  uint64_t step = Ticket::kJoin + 1;
  uint32_t finished = 0;
  while (Ticket::generation(ticket) == generation && Ticket::next(ticket) < job.chunks) {
    if (!slot.ticket.compare_exchange_weak(ticket, ticket + step, std::memory_order_acq_rel,
                                           std::memory_order_acquire)) {
      if (step != 1 && (Ticket::generation(ticket) != generation ||
                        Ticket::joined(ticket) >= slot.helpers.load(relaxed)))
        break;
      continue;
    }
    step = 1;
    if (slot.status.load(relaxed) == 0) {
      inside_chunk = true;
      const int32_t status = job.run(Ticket::next(ticket));
      inside_chunk = false;
      int32_t none = 0;
      if (status != 0) slot.status.compare_exchange_strong(none, status, relaxed);
    }
    ++finished;
    ticket = slot.ticket.load(std::memory_order_acquire);
  }
  if (finished == 0) return false;
  if (slot.done.fetch_add(finished) + finished == job.chunks && slot.waiting.load())
    futex_wake(slot.done, 1);
  return true;
}

void worker_loop(State& state, uint32_t index) {
  while (!state.stop.load()) {
    const uint32_t threads = state.threads.load();
    if (index + 1 >= threads) {
      futex_wait(state.threads, threads);
      continue;
    }
    const uint32_t epoch = state.epoch.load(std::memory_order_acquire);
    bool worked = false;
    for (uint64_t busy = state.busy.load(relaxed); busy; busy &= busy - 1)
      worked |= work_on(state.slots[std::countr_zero(busy)]);
    if (worked) continue;
    const int64_t deadline = now_ns() + kWorkerSpinNs;
    bool spinning = true;
    while (state.epoch.load(relaxed) == epoch && (spinning = now_ns() < deadline))
      for (int i = 0; i < 16; ++i) cpu_relax();
    if (spinning) continue;
    state.sleepers.fetch_add(1);
    if (!state.stop.load()) futex_wait(state.epoch, epoch);
    state.sleepers.fetch_sub(1);
  }
}

struct Start {
  State* state;
  uint32_t index;
};

void* worker_main(void* p) {
  const Start start = *static_cast<Start*>(p);
  delete static_cast<Start*>(p);
  worker_loop(*start.state, start.index);
  return nullptr;
}

void spawn_workers(State& state, uint32_t wanted) noexcept {
  std::unique_lock lock(state.spawn_mutex, std::try_to_lock);
  if (!lock) return;
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  while (state.workers.size() < wanted) {
    pthread_t thread;
    state.workers.reserve(state.workers.size() + 1);
    auto* start = new Start{&state, static_cast<uint32_t>(state.workers.size())};
    if (pthread_create(&thread, nullptr, worker_main, start) != 0) {
      delete start;
      break;
    }
    state.workers.push_back(thread);
  }
  state.spawned.store(static_cast<uint32_t>(state.workers.size()), relaxed);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

}  // namespace

ThreadPool::ThreadPool(int threads) : state_(nullptr) {
  require(threads >= 0 && threads <= kMaxThreads, "ThreadPool: threads must be 0…{}, got {}",
          kMaxThreads, threads);
  state_ = new State(static_cast<uint32_t>(threads ? threads : default_threads()));
}

ThreadPool::~ThreadPool() {
  State* state = state_.load();
  if (state->generation != current_generation()) return;
  state->stop.store(true);
  state->epoch.fetch_add(1);
  futex_wake(state->epoch, INT_MAX);
  state->threads.fetch_add(1);
  futex_wake(state->threads, INT_MAX);
  for (pthread_t t : state->workers) pthread_join(t, nullptr);
  delete state;
}

State* ThreadPool::state() noexcept {
  State* state = state_.load(std::memory_order_acquire);
  if (state->generation == current_generation()) [[likely]]
    return state;
  auto* fresh = new State(state->threads.load());
  if (state_.compare_exchange_strong(state, fresh)) return fresh;
  delete fresh;
  return state;
}

void ThreadPool::set_num_threads(int threads) {
  State* s = state();
  s->threads.store(static_cast<uint32_t>(threads ? threads : default_threads()));
  futex_wake(s->threads, INT_MAX);
}
int ThreadPool::num_threads() const noexcept { return static_cast<int>(state_.load()->threads.load()); }

int ThreadPool::default_threads() {
  if (const char* text = std::getenv("HOLOGRAM_NUM_THREADS")) {
    char* end = nullptr;
    const long n = std::strtol(text, &end, 10);
    if (end != text && *end == 0 && n > 0) return static_cast<int>(std::min<long>(n, kMaxThreads));
  }
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::clamp(CPU_COUNT(&set), 1, kMaxThreads);
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreads);
}

int32_t ThreadPool::parallel_for(RangeFn fn, const void* ctx, void* const* bufs,
                                 const int64_t* syms, int64_t total, int64_t grain,
                                 int max_threads) noexcept {
  if (total <= 0) return 0;
  if (total <= grain || inside_chunk) return fn(ctx, bufs, syms, 0, total);
  State& s = *state();
  uint32_t threads = s.threads.load(relaxed);
  if (max_threads > 0) threads = std::min(threads, static_cast<uint32_t>(max_threads));
  if (threads <= 1) return fn(ctx, bufs, syms, 0, total);
  int64_t count = (total + grain - 1) / grain;
  const uint32_t chunks = static_cast<uint32_t>(count);
  if (s.spawned.load(relaxed) + 1 < threads) spawn_workers(s, threads - 1);
  uint64_t busy = s.busy.load(relaxed);
  int index;
  do {
    if (busy == ~uint64_t{0}) return fn(ctx, bufs, syms, 0, total);
    index = std::countr_one(busy);
  } while (!s.busy.compare_exchange_weak(busy, busy | uint64_t{1} << index));
  Slot& slot = s.slots[index];
  slot.fn.store(fn, relaxed);
  slot.ctx.store(ctx, relaxed);
  slot.bufs.store(bufs, relaxed);
  slot.syms.store(syms, relaxed);
  slot.total.store(total, relaxed);
  slot.grain.store(grain, relaxed);
  slot.chunks.store(chunks, relaxed);
  slot.helpers.store(threads - 1, relaxed);
  slot.done.store(0, relaxed);
  slot.status.store(0, relaxed);
  slot.waiting.store(0, relaxed);
  slot.ticket.store((Ticket::generation(slot.ticket.load(relaxed)) + 1) * Ticket::kGeneration,
                    std::memory_order_release);
  s.epoch.fetch_add(1);
  if (s.sleepers.load() > 0) futex_wake(s.epoch, static_cast<int>(threads - 1));
  const Job job{fn, ctx, bufs, syms, total, grain, chunks};
  uint32_t finished = 0;
  for (;;) {
    const uint64_t t = slot.ticket.fetch_add(1, std::memory_order_acq_rel);
    if (Ticket::next(t) >= chunks) break;
    if (slot.status.load(relaxed) == 0) {
      inside_chunk = true;
      const int32_t status = job.run(Ticket::next(t));
      inside_chunk = false;
      int32_t none = 0;
      if (status != 0) slot.status.compare_exchange_strong(none, status, relaxed);
    }
    ++finished;
  }
  uint32_t done = slot.done.fetch_add(finished) + finished;
  if (done != chunks) {
    const int64_t deadline = now_ns() + kCallerSpinNs;
    while ((done = slot.done.load(std::memory_order_acquire)) != chunks && now_ns() < deadline)
      for (int i = 0; i < 16; ++i) cpu_relax();
    while (done != chunks) {
      slot.waiting.store(1);
      done = slot.done.load();
      if (done != chunks) futex_wait(slot.done, done);
      done = slot.done.load();
    }
  }
  const int32_t status = slot.status.load(relaxed);
  s.busy.fetch_and(~(uint64_t{1} << index));
  return status;
}

}  // namespace hologram::runtime
