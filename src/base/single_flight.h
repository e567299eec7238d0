// base/single_flight.h: equal work asked for by several threads at once is done by one of them.
#pragma once

#include <unistd.h>

#include <future>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/fingerprint.h"

namespace hologram {

/// Work in progress by key. Thread-safe; work is done outside the lock. What is done is not kept.
template <class Value>
class SingleFlight {
 public:
  /// make()'s value. Calls that come while another one makes the value of the same key wait for it
  /// and take its value, or throw what it throws. make() must not call this object.
  template <class Make>
  Value call(const Fingerprint& key, const Make& make) {
    std::promise<Value> promise;
    if (auto other = join_or_claim(key, promise)) return other->get();
    try {
      Value value = make();
      release(key);
      promise.set_value(value);
      return value;
    } catch (...) {
      release(key);
      promise.set_exception(std::current_exception());
      throw;
    }
  }

 private:
  struct Flight {
    std::shared_future<Value> result;
    pid_t process;  // a fork leaves the child without the threads that were at work
  };

  std::optional<std::shared_future<Value>> join_or_claim(const Fingerprint& key,
                                                         std::promise<Value>& promise) {
    const pid_t process = ::getpid();
    std::lock_guard lock(mutex_);
    auto it = flights_.find(key);
    if (it != flights_.end() && it->second.process == process) return it->second.result;
    flights_.insert_or_assign(key, Flight{promise.get_future().share(), process});
    return std::nullopt;
  }

  void release(const Fingerprint& key) {
    std::lock_guard lock(mutex_);
    flights_.erase(key);
  }

  std::mutex mutex_;
  std::unordered_map<Fingerprint, Flight> flights_;
};

}  // namespace hologram
