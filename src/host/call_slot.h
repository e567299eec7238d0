// host/call_slot.h: a call that threads share: who takes which chunks of it, and when it is over
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

#include "host/core_share.h"
#include "host/thread_pool.h"
#include "host/waiting.h"

namespace hologram::host {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;

/// How long a caller waits for the others' last chunks before it sleeps. Its core is then free for
/// the worker that it waits for.
constexpr int64_t caller_spin_ns = 50'000;

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
  /// Says to this thread that it is inside of one meanwhile (thread_pool.cpp).
  int32_t run_chunk(uint32_t chunk) const noexcept;
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

}  // namespace hologram::host
