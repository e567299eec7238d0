// host/ticker.h: work that comes back from time to time while there is some.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace hologram::host {

/// Calls a function on a thread of its own every `period`, from start() until the function says
/// that there is nothing left to do; the thread then ends. In a forked child the next start() makes
/// a thread of the child's.
class Ticker {
 public:
  /// `tick` must not throw; whether to call it again.
  Ticker(std::chrono::milliseconds period, std::function<bool()> tick);
  ~Ticker() { stop(); }
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

  /// Does nothing while the thread runs, or where the system gives none. Any thread may call it.
  void start() noexcept;
  /// For good; waits for a call in progress.
  void stop() noexcept;

 private:
  struct Thread;
  bool claim() noexcept;
  void end() noexcept;
  void launch() noexcept;

  const std::chrono::milliseconds period_;
  const std::function<bool()> tick_;
  std::atomic<uint32_t> runs_{0};  // 1 + the fork count that the thread was started at; 0: none
  std::atomic<uint32_t> claimed_{0};  // likewise, by who may touch thread_; stays so when stopped
  std::atomic<bool> stopped_{false};
  Thread* thread_ = nullptr;  // the last one
};

}  // namespace hologram::host
