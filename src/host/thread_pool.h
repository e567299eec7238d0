// host/thread_pool.h: the pool that runs a kernel's range on several threads.
#pragma once

#include <atomic>
#include <cstdint>

namespace hologram::host {

/// A kernel over [begin, end): 0 on success, any other value is a status for the caller. It runs on
/// any thread, on several ranges at once.
using RangeFn = int32_t (*)(const void* ctx, void* const* bufs, const int64_t* syms, int64_t begin,
                            int64_t end);

struct RangeOptions {
  int max_threads = 0;     ///< bounds this call's threads, the caller included; 0: num_threads()
  bool backwards = false;  ///< each thread works from the end of its share to the beginning
};

/// Threads that help a caller through a range. The calling thread works too and can finish every
/// chunk alone: a worker that sleeps or is not scheduled costs at most the chunk it holds. Workers
/// start on first need, spin briefly after work and then sleep; beside busy processes they and the
/// caller give the core away between chunks (core_share.h). Any number of threads may call at once.
/// After a fork the child starts its own workers.
class ThreadPool {
 public:
  /// Most threads that one call can use, the caller included.
  static constexpr int thread_limit = 256;
  /// The status of a range whose function threw.
  static constexpr int32_t threw = INT32_MIN;

  /// `threads` counts the caller; 0 means default_threads(). Throws Error(invalid_argument) outside
  /// 0…thread_limit.
  explicit ThreadPool(int threads = 0);
  /// Joins the workers. No parallel_for may be running.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Runs fn over [0, total) and returns 0 or the first nonzero status; after such a status, chunks
  /// not yet begun are skipped. Every `begin` is a multiple of `grain`; `end` is a further multiple
  /// of it, or `total`. Runs on the calling thread in one piece when total ≤ grain, when only one
  /// thread is allowed, or when called from inside a chunk of any pool.
  ///
  /// Choose `grain` for 10–30 µs of work: shorter chunks pay for claiming (0.1–0.2 µs), longer
  /// ones make a call wait longer for a preempted worker. Sleeping workers are woken at once for
  /// four chunks or more and when the last call was a moment ago, otherwise only after the caller
  /// has found its first chunk long.
  int32_t parallel_for(RangeFn fn, const void* ctx, void* const* bufs, const int64_t* syms,
                       int64_t total, int64_t grain, RangeOptions options = {}) noexcept;

  /// parallel_for for a callable `int32_t body(int64_t begin, int64_t end)`.
  template <class Body>
  int32_t for_ranges(int64_t total, int64_t grain, const Body& body,
                     RangeOptions options = {}) noexcept {
    return parallel_for(
        [](const void* ctx, void* const*, const int64_t*, int64_t begin, int64_t end) -> int32_t {
          return (*static_cast<const Body*>(ctx))(begin, end);
        },
        &body, nullptr, nullptr, total, grain, options);
  }

  /// Changes the thread count, the caller included; 0 means default_threads(). Calls under way
  /// finish with the workers they have; surplus workers sleep. Throws Error(invalid_argument)
  /// outside 0…thread_limit.
  void set_num_threads(int threads);
  int num_threads() const noexcept;

  /// HOLOGRAM_NUM_THREADS if it is a positive number, else the CPUs this process may run on.
  static int default_threads();

  /// For tests: a function that every worker calls before it claims a chunk, or nullptr.
  void set_worker_hook(void (*hook)()) noexcept;

  struct State;  // internal: shared with the workers

 private:
  State* state() noexcept;

  std::atomic<State*> state_;
};

}  // namespace hologram::host
