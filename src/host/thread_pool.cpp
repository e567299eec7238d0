// host/thread_pool.cpp: chunk claiming, sleeping workers and what happens after a fork.
//
// A call of a few microseconds waits mostly for cache lines on their way between two cores, 0.3 µs
// each. So all that a worker has to know of a call lies in one line, on which idle workers wait;
// the caller has its first chunk before the others see the call; lines that workers write hold
// nothing that the caller writes in a call; and a worker asks for the line of its report before its
// first chunk, not behind its last.
#include "host/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "base/error.h"
#include "base/settings.h"
#include "host/call_slot.h"
#include "host/core_share.h"
#include "host/forks.h"

namespace hologram::host {
namespace {

/// Calls that can share the workers at one time; more run on their own threads.
constexpr int num_slots = 64;
/// From this many chunks on, sleeping workers are woken before the first chunk.
constexpr uint32_t wake_chunks = 4;
/// With fewer chunks they are woken when the first one took this long, or before it when the last
/// call ended less than worker_spin_ns ago: calls that close together keep workers awake, so one
/// waking serves them all.
constexpr int64_t long_chunk_ns = 10'000;
/// How long a worker waits for the next call before it sleeps: longer than the step to the next
/// kernel of a graph, or to the next call by way of Dynamo's guards; and as long as its last chunk
/// besides, since the caller may have begun one when none was left.
constexpr int64_t worker_spin_ns = 150'000;
constexpr int64_t longest_worker_spin_ns = 200'000;
/// So many sleeping workers the caller wakes itself, and so many each of them that it woke: waking
/// takes a microsecond each, which one thread would spend on 15 others in a row.
constexpr uint32_t woken_by_caller = 3, woken_by_worker = 2;
/// The shortest time between two moves of a worker to another CPU.
constexpr int64_t move_every_ns = 1'000'000;

/// How this thread, as a caller, lives with others on its core.
thread_local CoreShare share_of_caller;

void yield_core(CoreShare& share) noexcept {
  const int64_t before = now_ns();
  sched_yield();
  share.yielded(before, now_ns());
}

/// Whether this thread runs a chunk; calls from there run inline.
thread_local bool inside_chunk = false;

/// The slot that this thread had last, which is in its cache.
thread_local uint32_t last_slot = 0;

}  // namespace

int32_t Job::run_chunk(uint32_t chunk) const noexcept {
  const int64_t begin = chunk * grain;
  inside_chunk = true;
  const int32_t status = run(begin, std::min(total, begin + grain));
  inside_chunk = false;
  return status;
}

struct ThreadPool::State {
  explicit State(uint32_t n) : threads(n) {}

  const uint32_t born = fork_count();
  std::atomic<uint32_t> threads;  // wanted, the caller included; surplus workers sleep on it
  std::atomic<uint32_t> started{0};
  std::atomic<bool> stop{false};
  std::atomic<void (*)()> hook{nullptr};
  std::mutex start_mutex;
  std::vector<pthread_t> workers;
  std::atomic<int64_t> last_end{INT64_MIN / 2};  // when a call last found its workers asleep
  alignas(64) std::atomic<uint64_t> used{0};     // one bit per slot that ever had a call
  std::atomic<uint32_t> epoch{0};                // counts wakings; idle workers sleep on it
  std::atomic<uint32_t> sleepers{0};
  std::atomic<uint32_t> to_wake{0};  // that woken workers are to wake
  Slot slots[num_slots];

  /// A slot of this thread's for one call; null where all have one.
  Slot* take_slot() noexcept {
    for (uint32_t i = 0; i < num_slots; ++i) {
      const uint32_t at = (last_slot + i) % num_slots;
      if (!slots[at].take()) continue;
      last_slot = at;
      const uint64_t bit = uint64_t{1} << at;
      if ((used.load(relaxed) & bit) == 0) used.fetch_or(bit);
      return &slots[at];
    }
    return nullptr;
  }

  /// Whether a call wants a worker more.
  bool invites() const noexcept {
    for (uint64_t left = used.load(); left != 0; left &= left - 1)
      if (slots[std::countr_zero(left)].invites()) return true;
    return false;
  }
};

namespace {

class Worker {
 public:
  Worker(ThreadPool::State& state, uint32_t index) : state_(state), index_(index) {}

  void loop() noexcept {
    while (!state_.stop.load()) {
      const uint32_t threads = state_.threads.load();
      if (index_ + 1 >= threads) {
        sleep_on(state_.threads, threads);
        share_.woke(now_ns());
        continue;
      }
      const uint32_t epoch = state_.epoch.load(acquire);
      bool worked = false;
      for (uint64_t left = state_.used.load(acquire); left != 0; left &= left - 1)
        worked |= work_on(state_.slots[std::countr_zero(left)]);
      if (!worked && !spin(epoch)) sleep(epoch);
    }
  }

 private:
  /// Claims and runs chunks of a call until none is left; whether it ran any.
  bool work_on(Slot& slot) noexcept {
    Ticket ticket = slot.ticket();
    const uint64_t call = ticket.call();
    const Job job = slot.read();
    bool joined = false;
    auto open = [&] {
      return ticket.call() == call && ticket.taken() < job.shape.chunks &&
             (joined || ticket.joined() < job.shape.helpers);
    };
    if (!open()) return false;
    const Shares shares(job.shape);
    stay_off(job.shape.cpu);
    uint32_t finished = 0;
    for (;;) {
      if (share_.should_yield(now_ns())) {
        slot.report(finished);
        finished = 0;
        yield_core(share_);
      }
      if (auto* hook = state_.hook.load(relaxed)) hook();
      ticket = slot.ticket();
      while (open() && !slot.claim(ticket, !joined)) {
      }
      if (!open()) break;
      if (!joined) slot.expect_report();
      joined = true;
      const int64_t start = now_ns();
      slot.run(job, shares.by_workers(ticket.by_workers()));
      last_chunk_ = now_ns() - start;
      ++finished;
    }
    slot.report(finished);
    return joined;
  }

  /// Waits a little for the next call; whether it came.
  bool spin(uint32_t epoch) noexcept {
    const int64_t start = now_ns();
    const int64_t longest = std::min(worker_spin_ns + last_chunk_, longest_worker_spin_ns);
    last_chunk_ = 0;
    for (int64_t now = start; state_.epoch.load(acquire) == epoch && !state_.invites();
         now = now_ns()) {
      if (share_.should_yield(now) || now - start > longest) return false;
      pause_briefly();
    }
    return true;
  }

  void sleep(uint32_t epoch) noexcept {
    state_.sleepers.fetch_add(1);
    if (!state_.stop.load() && !state_.invites()) sleep_on(state_.epoch, epoch);
    state_.sleepers.fetch_sub(1);
    wake_others();
    share_.woke(now_ns());
  }

  void wake_others() noexcept {
    for (uint32_t left = state_.to_wake.load(acquire); left != 0;) {
      const uint32_t some = std::min(left, woken_by_worker);
      if (!state_.to_wake.compare_exchange_weak(left, left - some)) continue;
      return wake(state_.epoch, some);
    }
  }

  /// Leaves the caller's CPU: the kernel puts a worker there when all CPUs are busy, and then the
  /// two would take turns instead of working side by side.
  void stay_off(int cpu) noexcept {
    if (cpu < 0 || current_cpu() != cpu) return;
    const int64_t now = now_ns();
    if (now - moved_ < move_every_ns) return;
    leave_cpu(cpu);
    moved_ = now_ns();
    share_.woke(moved_);
  }

  ThreadPool::State& state_;
  const uint32_t index_;
  CoreShare share_;
  int64_t moved_ = 0;
  int64_t last_chunk_ = 0;  // how long the last chunk took
};

struct Start {
  ThreadPool::State* state;
  uint32_t index;
};

void* worker_main(void* argument) {
  const std::unique_ptr<Start> start(static_cast<Start*>(argument));
  Worker(*start->state, start->index).loop();
  return nullptr;
}

/// Wakes so many workers; a number that another call overwrites costs that many helpers at most.
void wake_helpers(ThreadPool::State& state, uint32_t helpers) noexcept {
  state.epoch.fetch_add(1);
  const uint32_t first = std::min(helpers, woken_by_caller);
  state.to_wake.store(helpers - first, release);
  wake(state.epoch, first);
}

/// Starts workers up to `wanted`, as many as the system gives; it is asked once. Signals stay with
/// the user's threads.
void start_workers(ThreadPool::State& state, uint32_t wanted) noexcept {
  const std::unique_lock lock(state.start_mutex, std::try_to_lock);
  if (!lock) return;
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  try {
    state.workers.reserve(wanted);
    while (state.workers.size() < wanted) {
      auto start = std::make_unique<Start>(&state, static_cast<uint32_t>(state.workers.size()));
      pthread_t thread;
      if (pthread_create(&thread, nullptr, worker_main, start.get()) != 0) break;
      (void)start.release();
      state.workers.push_back(thread);
    }
  } catch (const std::bad_alloc&) {  // the caller works alone
  }
  state.started.store(std::max(wanted, state.started.load(relaxed)), relaxed);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

uint32_t checked_threads(const char* function, int threads) {
  require(threads >= 0 && threads <= ThreadPool::thread_limit, "{}: threads must be 0…{}, got {}",
          function, ThreadPool::thread_limit, threads);
  return static_cast<uint32_t>(threads != 0 ? threads : ThreadPool::default_threads());
}

}  // namespace

ThreadPool::ThreadPool(int threads) : state_(new State(checked_threads("ThreadPool", threads))) {}

ThreadPool::~ThreadPool() {
  State* state = state_.load();
  // In a forked child the workers do not exist, and the thread that forked may use the state.
  if (state->born != fork_count()) return;
  state->stop.store(true);
  state->epoch.fetch_add(1);
  wake(state->epoch, INT_MAX);
  state->threads.fetch_add(1);
  wake(state->threads, INT_MAX);
  for (pthread_t thread : state->workers) pthread_join(thread, nullptr);
  delete state;
}

ThreadPool::State* ThreadPool::state() noexcept {
  State* state = state_.load(acquire);
  if (state->born == fork_count()) [[likely]]
    return state;
  // The old state is left alone: its locks and counts are as the fork found them.
  auto fresh = std::unique_ptr<State>(new (std::nothrow) State(state->threads.load()));
  if (fresh == nullptr) return nullptr;
  if (state_.compare_exchange_strong(state, fresh.get())) return fresh.release();
  return state;
}

int32_t ThreadPool::parallel_for(RangeFn fn, const void* ctx, void* const* bufs,
                                 const int64_t* syms, int64_t total, int64_t grain,
                                 RangeOptions options) noexcept {
  if (total <= 0) return 0;
  grain = std::max<int64_t>(grain, 1);
  Job job{{fn, ctx, bufs, syms, total, grain}, {}};
  if (total <= grain || inside_chunk) return job.run(0, total);
  State* const s = state();
  if (s == nullptr) return job.run(0, total);
  uint32_t threads = s->threads.load(relaxed);
  if (options.max_threads > 0)
    threads = std::min(threads, static_cast<uint32_t>(options.max_threads));
  const int64_t most = Ticket::max_chunks;
  if ((total - 1) / grain >= most) job.grain = grain = grain * ((total - 1) / grain / most + 1);
  const auto chunks = static_cast<uint32_t>((total - 1) / grain + 1);
  const uint32_t helpers = std::min(threads, chunks) - 1;
  if (helpers == 0) return job.run(0, total);
  if (s->started.load(relaxed) + 1 < threads) start_workers(*s, threads - 1);

  Slot* const slot = s->take_slot();
  if (slot == nullptr) return job.run(0, total);
  job.shape = {static_cast<uint16_t>(chunks), static_cast<uint8_t>(helpers), options.backwards,
               current_cpu()};
  CoreShare& share = share_of_caller;
  const int64_t start = now_ns();
  share.resume(start);
  bool claimed = !share.should_yield(start);
  slot->open(job, claimed);
  // A worker that falls asleep meanwhile is seen behind the first chunk.
  bool slept = s->sleepers.load(relaxed) != 0, woken = false;
  if (slept && (chunks >= wake_chunks || start - s->last_end.load(relaxed) < worker_spin_ns)) {
    wake_helpers(*s, helpers);
    woken = true;
  }

  const Shares shares(job.shape);
  uint32_t chunk = shares.by_caller(0), finished = 0;
  for (;; ++finished) {
    if (!claimed) {
      if (share.should_yield(now_ns()) && slot->ticket().taken() < chunks) yield_core(share);
      chunk = slot->claim(shares);
    }
    claimed = false;
    if (chunk >= chunks) break;
    slot->run(job, chunk);
    if (!woken && s->sleepers.load(relaxed) != 0 && slot->invites()) {
      slept = true;
      if (now_ns() - start < long_chunk_ns) continue;
      wake_helpers(*s, helpers);
      woken = true;
    }
  }
  const int32_t status = slot->wait(chunks - finished);
  if (slept) s->last_end.store(now_ns(), relaxed);
  slot->leave();
  return status;
}

void ThreadPool::set_num_threads(int threads) {
  const uint32_t wanted = checked_threads("ThreadPool::set_num_threads", threads);
  if (State* s = state()) {
    s->threads.store(wanted);
    wake(s->threads, INT_MAX);
    s->epoch.fetch_add(1);  // surplus workers stop waiting for calls
    wake(s->epoch, INT_MAX);
  }
}

int ThreadPool::num_threads() const noexcept {
  return static_cast<int>(state_.load(acquire)->threads.load(relaxed));
}

int ThreadPool::default_threads() {
  if (const auto named = settings::number("HOLOGRAM_NUM_THREADS"))
    return static_cast<int>(std::min<uint64_t>(*named, thread_limit));
  return std::min(allowed_cpus(), thread_limit);
}

void ThreadPool::set_worker_hook(void (*hook)()) noexcept {
  if (State* s = state()) s->hook.store(hook);
}

}  // namespace hologram::host
