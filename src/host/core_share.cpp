// host/core_share.cpp: learning the scheduler's time slice, and which CPU to run on.
#include "host/core_share.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace hologram::host {
namespace {

constexpr int64_t shortest_quantum_ns = 1'000'000;
constexpr int64_t longest_quantum_ns = 100'000'000;
/// A yield that returns within this found nobody waiting for the core.
constexpr int64_t idle_yield_ns = 50'000;
constexpr int forget_after_idle_yields = 4;
/// Yields between two doublings of the growth step.
constexpr int yields_per_step = 16;

}  // namespace

bool CoreShare::should_yield(int64_t now) noexcept {
  if (last_ != 0 && now - last_ >= lost_core_ns) {
    if (resumed_ != 0 && whole_run_) {
      const int64_t run = last_ - resumed_;
      quantum_ = std::clamp(run - run / 16, shortest_quantum_ns, longest_quantum_ns);
      step_ = quantum_ / 1024;
      yields_ = 0;
    }
    resumed_ = now;
    whole_run_ = true;
  }
  last_ = now;
  return resumed_ != 0 && quantum_ != 0 && now - resumed_ >= quantum_;
}

void CoreShare::yielded(int64_t before, int64_t after) noexcept {
  last_ = after;
  if (after - before < idle_yield_ns) {
    resumed_ = ++idle_yields_ >= forget_after_idle_yields ? 0 : after;
    whole_run_ = false;
    return;
  }
  idle_yields_ = 0;
  resumed_ = after;
  whole_run_ = true;
  // Slowly at first, then faster: one lost core in some hundred yields tells when slices got
  // longer.
  quantum_ = std::min(quantum_ + step_, longest_quantum_ns);
  if (++yields_ % yields_per_step == 0) step_ *= 2;
}

void CoreShare::resume(int64_t now) noexcept {
  if (last_ != 0 && now - last_ >= lost_core_ns) woke(now);
  last_ = now;
}

void CoreShare::woke(int64_t now) noexcept {
  last_ = 0;
  if (resumed_ != 0) resumed_ = now;
  whole_run_ = false;
}

int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

#ifdef __linux__

int current_cpu() noexcept { return sched_getcpu(); }

void leave_cpu(int cpu) noexcept {
  cpu_set_t allowed;
  if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t others = allowed;
  CPU_CLR(cpu, &others);
  if (CPU_COUNT(&others) == 0) return;
  if (sched_setaffinity(0, sizeof others, &others) == 0)
    sched_setaffinity(0, sizeof allowed, &allowed);
}

int allowed_cpus() noexcept {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

#else

int current_cpu() noexcept { return -1; }
void leave_cpu(int) noexcept {}
int allowed_cpus() noexcept {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

#endif

}  // namespace hologram::host
