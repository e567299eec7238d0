// python/_core/idle_values.cpp: which executables idle, and what becomes of their values.
#include "idle_values.h"

#include <algorithm>

#include "host/forks.h"

namespace hologram::python {

IdleValues& IdleValues::of_process() {
  static IdleValues& all = *new IdleValues(host::MemoryPool::idle_period());
  return all;
}

void IdleValues::watch(runtime::Executable& executable) {
  const size_t bytes = executable.cached_bytes();
  if (bytes <= rest || host::MemoryPool::idle_period().count() == 0) return;
  {
    std::lock_guard lock(mutex_);
    const size_t periods = bytes / per_period;
    const auto at = std::ranges::find(watched_, &executable, &Watched::executable);
    if (at == watched_.end())
      watched_.push_back({&executable, periods, periods});
    else
      at->full = periods;
  }
  ticker_.start();
}

void IdleValues::forget(runtime::Executable& executable) {
  std::lock_guard lock(mutex_);
  std::erase_if(watched_, [&](const Watched& w) { return w.executable == &executable; });
}

// Whether executables are left to look at.
bool IdleValues::look() noexcept {
  const auto together = host::no_fork();  // a child would find the locks held
  std::lock_guard lock(mutex_);
  std::erase_if(watched_, [](Watched& w) {
    if (!w.executable->idles()) {
      w.patience = w.full;
      return false;
    }
    if (w.patience-- > 0) return false;
    w.executable->give_back_kept(rest);
    w.executable->runtime().memory().release_idle();
    return true;
  });
  return !watched_.empty();
}

}  // namespace hologram::python
