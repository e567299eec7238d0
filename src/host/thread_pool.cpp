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

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "base/error.h"
#include "base/settings.h"
#include "host/core_share.h"
#include "host/forks.h"

namespace hologram::host {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;

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
constexpr int64_t worker_spin_ns = 50'000;
constexpr int64_t longest_worker_spin_ns = 200'000;
/// So many sleeping workers the caller wakes itself, and so many each of them that it woke: waking
/// takes a microsecond each, which one thread would spend on 15 others in a row.
constexpr uint32_t woken_by_caller = 3, woken_by_worker = 2;
/// How long a caller waits for the others' last chunks before it sleeps. Its core is then free for
/// the worker that it waits for.
constexpr int64_t caller_spin_ns = 50'000;
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

void pause_briefly() noexcept {
  for (int i = 0; i < 2; ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb");
#endif
  }
}

/// Sleeps while `word` holds `value`; may return early.
void sleep_on(std::atomic<uint32_t>& word, uint32_t value) noexcept {
#ifdef __linux__
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
#else
  word.wait(value);
#endif
}

void wake(std::atomic<uint32_t>& word, uint32_t count) noexcept {
#ifdef __linux__
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, std::min<uint32_t>(count, INT_MAX), nullptr,
          nullptr, 0);
#else
  if (count == 1) word.notify_one();
  if (count > 1) word.notify_all();
#endif
}

/// The word that chunks are claimed from: the number of the call in its slot, the workers that have
/// joined it, and how many chunks the caller and the workers have taken. A claim is a
/// compare-and-swap, so it fails for a thread that was stopped since it read the slot and missed
/// the end of the call.
struct Ticket {
  static constexpr int chunk_bits = 14, joined_bits = 8;
  static constexpr uint32_t closed = (1u << chunk_bits) - 1;  // more than any call has
  static constexpr uint32_t max_chunks = closed - 1;
  static constexpr uint64_t one_taken = uint64_t{1} << chunk_bits;
  static constexpr uint64_t one_join = one_taken << chunk_bits;
  static constexpr uint64_t one_call = one_join << joined_bits;

  uint64_t word;

  uint32_t by_caller() const { return static_cast<uint32_t>(word % one_taken); }
  uint32_t by_workers() const { return static_cast<uint32_t>(word / one_taken % one_taken); }
  uint32_t taken() const { return by_caller() + by_workers(); }
  uint32_t joined() const { return static_cast<uint32_t>(word / one_join % (1u << joined_bits)); }
  uint64_t call() const { return word / one_call; }
};
static_assert(ThreadPool::thread_limit <= 1 << Ticket::joined_bits);

/// What a call is, beside the number of its chunks and what else Shape has.
struct Range {
  RangeFn fn = nullptr;
  const void* ctx = nullptr;
  void* const* bufs = nullptr;
  const int64_t* syms = nullptr;
  int64_t total = 0, grain = 1;
};

/// What else a call is, in one word of its line.
struct Shape {
  uint16_t chunks = 0;
  uint8_t helpers = 0, backwards = 0;
  int32_t cpu = -1;  // where the caller runs
};
static_assert(sizeof(Shape) == sizeof(uint64_t) && ThreadPool::thread_limit - 1 <= UINT8_MAX);

struct Job : Range {
  Shape shape;

  int32_t run(int64_t begin, int64_t end) const noexcept {
    try {
      return fn(ctx, bufs, syms, begin, end);
    } catch (...) {
      return ThreadPool::threw;
    }
  }
  int32_t run_chunk(uint32_t chunk) const noexcept {
    const int64_t begin = chunk * grain;
    inside_chunk = true;
    const int32_t status = run(begin, std::min(total, begin + grain));
    inside_chunk = false;
    return status;
  }
};

/// Which chunks the caller and the workers take. The caller's share is the first ones and the
/// workers' the rest, each in ascending order, or each in descending order; who is through takes
/// what the other has not begun, from the end that it would reach last. So of two threads each
/// works on one piece of memory, as prefetchers like it, and finds in its cache what it left there
/// in the call before.
class Shares {
 public:
  explicit Shares(const Shape& s)
      : chunks_(s.chunks),
        of_caller_((uint32_t{s.chunks} + s.helpers) / (uint32_t{s.helpers} + 1)),
        backwards_(s.backwards != 0) {}

  uint32_t chunks() const { return chunks_; }
  /// The caller's claim number `n`, from 0.
  uint32_t by_caller(uint32_t n) const {
    return turned(n < of_caller_ ? n : chunks_ - 1 - (n - of_caller_));
  }
  /// The workers' claim number `n`.
  uint32_t by_workers(uint32_t n) const {
    return turned(n < chunks_ - of_caller_ ? of_caller_ + n : chunks_ - 1 - n);
  }

 private:
  uint32_t turned(uint32_t chunk) const {
    if (!backwards_) return chunk;
    return chunk < of_caller_ ? of_caller_ - 1 - chunk : chunks_ - 1 - (chunk - of_caller_);
  }

  uint32_t chunks_, of_caller_;
  bool backwards_;
};

/// A call under way. The memory belongs to the pool for good, since a worker may look at it at any
/// time; what it reads counts only if the claim that follows succeeds.
class alignas(64) Slot {
 public:
  /// For one call of one thread, until `leave`; whether nobody else has it.
  bool take() noexcept { return owned_.load(relaxed) == 0 && owned_.exchange(1, acquire) == 0; }
  void leave() noexcept { owned_.store(0, release); }

  /// `first`: whether the caller has claimed its first chunk.
  void open(const Job& job, bool first) noexcept {
    reported_ = done_.load(relaxed);
    if (status_.load(relaxed) != 0) status_.store(0, relaxed);
    // First the ticket becomes one that nobody can claim from: a worker that then reads fields of
    // the new call (acquire) along with the old call's ticket fails to claim.
    const uint64_t call = Ticket{ticket_.load(relaxed)}.call() + 1;
    ticket_.store(call * Ticket::one_call + Ticket::closed, relaxed);
    fn_.store(job.fn, release);
    ctx_.store(job.ctx, release);
    bufs_.store(job.bufs, release);
    syms_.store(job.syms, release);
    total_.store(job.total, release);
    grain_.store(job.grain, release);
    shape_.store(std::bit_cast<uint64_t>(job.shape), release);
    ticket_.store(call * Ticket::one_call + (first ? 1 : 0), release);
  }

  Job read() const noexcept {
    return {{fn_.load(acquire), ctx_.load(acquire), bufs_.load(acquire), syms_.load(acquire),
             total_.load(acquire), grain_.load(acquire)},
            shape()};
  }
  Shape shape() const noexcept { return std::bit_cast<Shape>(shape_.load(acquire)); }

  Ticket ticket() const noexcept { return {ticket_.load(acquire)}; }

  /// Whether a worker that has not joined may claim a chunk.
  bool invites() const noexcept {
    const Ticket ticket{ticket_.load()};
    const Shape s = shape();
    return ticket.taken() < s.chunks && ticket.joined() < s.helpers;
  }

  /// The caller's claim: the next chunk, or as many as there are when none is left.
  uint32_t claim(const Shares& shares) noexcept {
    const Ticket ticket{ticket_.fetch_add(1, std::memory_order_acq_rel)};
    return ticket.taken() < shares.chunks() ? shares.by_caller(ticket.by_caller())
                                            : shares.chunks();
  }

  /// A worker's claim of the next chunk after `seen`; on failure `seen` is brought up to date.
  bool claim(Ticket& seen, bool join) noexcept {
    return ticket_.compare_exchange_strong(
        seen.word, seen.word + Ticket::one_taken + (join ? Ticket::one_join : 0),
        std::memory_order_acq_rel, acquire);
  }

  /// Runs a claimed chunk, unless one has failed already.
  void run(const Job& job, uint32_t chunk) noexcept {
    if (status_.load(relaxed) != 0) return;
    const int32_t status = job.run_chunk(chunk);
    int32_t none = 0;
    if (status != 0) status_.compare_exchange_strong(none, status, relaxed);
  }

  /// Asks for the line of `report`.
  void expect_report() noexcept { __builtin_prefetch(&done_, 1); }

  /// Reports a worker's finished chunks; who reports the last one wakes a sleeping caller.
  void report(uint32_t finished) noexcept {
    if (finished == 0) return;
    const uint32_t done = done_.fetch_add(finished) + finished;
    if (waiting_.load() != 0 && done == awaited_.load()) wake(done_, 1);
  }

  /// Waits until the workers have reported so many chunks; returns the status of the call.
  int32_t wait(uint32_t chunks) noexcept {
    const uint32_t all = reported_ + chunks;
    if (done_.load(acquire) != all) {
      const int64_t deadline = now_ns() + caller_spin_ns;
      while (done_.load(acquire) != all && now_ns() < deadline) pause_briefly();
      if (done_.load(acquire) != all) {
        awaited_.store(all);
        waiting_.store(1);
        for (uint32_t done; (done = done_.load()) != all;) sleep_on(done_, done);
        waiting_.store(0);
      }
    }
    return status_.load(relaxed);
  }

 private:
  // What a call is. Workers wait on this line.
  std::atomic<uint64_t> ticket_{0};
  std::atomic<RangeFn> fn_{nullptr};
  std::atomic<const void*> ctx_{nullptr};
  std::atomic<void* const*> bufs_{nullptr};
  std::atomic<const int64_t*> syms_{nullptr};
  std::atomic<int64_t> total_{0}, grain_{1};
  std::atomic<uint64_t> shape_{std::bit_cast<uint64_t>(Shape{})};
  // The workers' line: chunks that they have reported in all calls.
  alignas(64) std::atomic<uint32_t> done_{0};
  std::atomic<uint32_t> waiting_{0}, awaited_{0};  // whether the caller sleeps, until done_ is that
  std::atomic<int32_t> status_{0};
  // The callers' own.
  alignas(64) std::atomic<uint32_t> owned_{0};
  uint32_t reported_ = 0;  // what done_ was when the call began
};

static_assert(sizeof(Slot) == 3 * 64);

/// The slot that this thread had last, which is in its cache.
thread_local uint32_t last_slot = 0;

}  // namespace

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
