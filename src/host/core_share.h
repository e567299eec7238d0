// host/core_share.h: how a thread of a parallel call lives with other processes on its core.
#pragma once

#include <cstdint>

namespace hologram::host {

/// What hurts a parallel call beside busy processes is a thread that loses its core while it holds
/// a chunk: the others then wait for a whole time slice of somebody else. So a thread that has
/// seen this happen learns how long the scheduler lets it run, and gives the core away by itself
/// shortly before that, between two chunks. The caller does so too: one that takes its slices whole
/// is passed over now and then, which makes its next wait twice as long. One object per thread;
/// times are nanoseconds of one clock.
class CoreShare {
 public:
  /// A pause of at least this between two looks at the clock means that the core was taken away.
  static constexpr int64_t lost_core_ns = 1'000'000;

  /// Between two chunks: whether the thread should give up the core now, and then call yielded().
  bool should_yield(int64_t now) noexcept;
  /// When a caller comes back with work: what it did since may have been anything.
  void resume(int64_t now) noexcept;
  /// After sched_yield, called at `before`, which returned at `after`.
  void yielded(int64_t before, int64_t after) noexcept;
  /// After a sleep of the worker's own choice.
  void woke(int64_t now) noexcept;
  /// Whether another process wants this core, as far as known.
  bool contended() const noexcept { return resumed_ != 0; }
  /// The run that is expected to be safe, 0 when nothing is known.
  int64_t quantum() const noexcept { return quantum_; }

 private:
  int64_t last_ = 0;        // last look at the clock, 0 after a sleep
  int64_t resumed_ = 0;     // when this run on the core began, 0 without competition
  bool whole_run_ = false;  // the run began when the scheduler gave the core back, not at a wake-up
  int64_t quantum_ = 0;
  int64_t step_ = 0;
  int yields_ = 0;       // since the last lost core
  int idle_yields_ = 0;  // in a row that found nobody waiting
};

/// Monotonic nanoseconds.
int64_t now_ns() noexcept;
/// The CPU this thread runs on, -1 when unknown.
int current_cpu() noexcept;
/// Moves this thread off `cpu` if it may run elsewhere; its allowed CPUs stay as they were.
void leave_cpu(int cpu) noexcept;
/// CPUs that this process may run on, at least 1.
int allowed_cpus() noexcept;

}  // namespace hologram::host
