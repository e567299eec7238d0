// host/forks.cpp: counts forks.
#include "host/forks.h"

#include <pthread.h>

#include <atomic>

namespace hologram::host {
namespace {

std::atomic<uint32_t> count{0};

}  // namespace

uint32_t fork_count() noexcept {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1); });
  (void)registered;
  return count.load(std::memory_order_relaxed);
}

std::unique_lock<std::mutex> no_fork() {
  static std::mutex& forking = *new std::mutex;
  static const int registered =
      pthread_atfork([] { forking.lock(); }, [] { forking.unlock(); }, [] { forking.unlock(); });
  (void)registered;
  return std::unique_lock(forking);
}

}  // namespace hologram::host
