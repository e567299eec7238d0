// host/ticker.cpp: a thread that waits, works and ends.
#include "host/ticker.h"

#include <pthread.h>
#include <signal.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "host/forks.h"

namespace hologram::host {

// Replaced, never used again, in a forked child: a lock is as the fork found it.
struct Ticker::Thread {
  uint32_t born = fork_count();
  std::mutex mutex;
  std::condition_variable stopped;
  bool stop = false;
  std::thread thread;

  /// Whether the period passed.
  bool wait(std::chrono::milliseconds period) {
    std::unique_lock lock(mutex);
    // By the system's clock: waiting by another one needs a newer glibc.
    const auto end = std::chrono::system_clock::now() + period;
    return !stopped.wait_until(lock, end, [&] { return stop; });
  }
  void end() {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    stopped.notify_all();
    thread.join();
  }
};

Ticker::Ticker(std::chrono::milliseconds period, std::function<bool()> tick)
    : period_(period), tick_(std::move(tick)) {}

// A claim that the parent's thread had when this process was forked counts for nothing.
bool Ticker::claim() noexcept {
  const uint32_t now = fork_count() + 1;
  uint32_t held = claimed_.load();
  return held != now && claimed_.compare_exchange_strong(held, now);
}

void Ticker::start() noexcept {
  if (runs_.load(std::memory_order_relaxed) == fork_count() + 1 || !claim()) return;
  launch();
  claimed_.store(0);
}

void Ticker::stop() noexcept {
  if (stopped_.exchange(true)) return;
  while (!claim()) std::this_thread::yield();  // a start() is under way
  end();
}

void Ticker::end() noexcept {
  if (thread_ && thread_->born == fork_count()) {
    thread_->end();
    delete thread_;
  }
  thread_ = nullptr;
}

void Ticker::launch() noexcept {
  const uint32_t now = fork_count() + 1;
  if (runs_.load() == now) return;
  end();  // one that has nothing left to do
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);  // signals stay with the user's threads
  Thread* fresh = nullptr;
  try {
    fresh = new Thread;
    runs_.store(now);
    fresh->thread = std::thread([this, fresh] {
      while (fresh->wait(period_)) {
        if (tick_()) continue;
        runs_.store(0);
        return;
      }
    });
    thread_ = fresh;
  } catch (const std::exception&) {  // no memory or no thread: later, perhaps
    runs_.store(0);
    delete fresh;
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

}  // namespace hologram::host
