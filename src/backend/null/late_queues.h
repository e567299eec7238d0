// backend/null/late_queues.h: queues of work as those of a device are: done elsewhere, late, and in
// an order among queues that is left to chance. Needs nothing but the standard library: drivers
// that tests stand in for have it, too.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace hologram::null {

/// One thread, which is never stopped, does the work of all queues: an object stays as long as the
/// process. Thread-safe. Null stands for a queue that is always there.
class LateQueues {
 public:
  /// Gives a status; 0: it went well.
  using Work = std::function<int()>;
  /// Whether work may begin; asked under the lock.
  using Ready = std::function<bool()>;
  struct Queue {
    struct Item {
      Work run;
      bool always;
      Ready ready = {};
    };
    std::deque<Item> work;
    int failed = 0;
    bool busy = false;  // with an item that is no longer in `work`
  };

  LateQueues() : own_(std::make_unique<Queue>()) {
    std::thread([this] { serve(); }).detach();
  }
  LateQueues(const LateQueues&) = delete;
  LateQueues& operator=(const LateQueues&) = delete;

  Queue* make() {
    auto fresh = std::make_unique<Queue>();
    Queue* const queue = fresh.get();
    std::lock_guard lock(mutex_);
    queues_[queue] = std::move(fresh);
    return queue;
  }
  /// Waits for its work, and for who waits for all.
  void free(Queue* queue) {
    std::unique_lock lock(mutex_);
    wait_for(lock, {queue});
    changed_.wait(lock, [&] { return queue->work.empty() && !queue->busy; });
    queues_.erase(queue);
  }

  bool has(Queue* queue) {
    std::lock_guard lock(mutex_);
    return !queue || queues_.contains(queue);
  }

  /// Work that is not `always` to be done is left out behind a failure that wait() has not told of.
  /// What is not `ready` holds up the queue until other work has made it so.
  void push(Queue* queue, Work work, bool always, Ready ready = {}) {
    {
      std::lock_guard lock(mutex_);
      real(queue).work.push_back({std::move(work), always, std::move(ready)});
    }
    changed_.notify_all();
  }

  /// Returns when what has been pushed is done; the status of the last failure since, or 0.
  int wait(Queue* queue) {
    std::unique_lock lock(mutex_);
    return wait_for(lock, {queue});
  }
  /// The same for every queue; the status of one that failed, or 0.
  int wait_for_all() {
    std::unique_lock lock(mutex_);
    std::vector<Queue*> all{nullptr};
    for (const auto& [queue, owner] : queues_) all.push_back(queue);
    return wait_for(lock, all);
  }

 private:
  Queue& real(Queue* queue) { return queue ? *queue : *own_; }

  // A mark behind the work of each of them.
  int wait_for(std::unique_lock<std::mutex>& lock, const std::vector<Queue*>& queues) {
    size_t left = queues.size();
    int failed = 0;
    for (Queue* queue : queues) {
      Queue& q = real(queue);
      q.work.push_back({[this, &q, &left, &failed] {
                          std::lock_guard own(mutex_);
                          if (const int status = std::exchange(q.failed, 0)) failed = status;
                          --left;
                          return 0;
                        },
                        true});
    }
    changed_.notify_all();
    changed_.wait(lock, [&] { return left == 0; });
    return failed;
  }

  // One with work, by chance; null where there is none.
  Queue* next() {
    std::vector<Queue*> waiting;
    auto look = [&](Queue* queue) {
      if (queue->work.empty()) return;
      const Ready& ready = queue->work.front().ready;
      if (!ready || ready()) waiting.push_back(queue);
    };
    look(own_.get());
    for (const auto& [queue, owner] : queues_) look(queue);
    return waiting.empty() ? nullptr : waiting[chance_() % waiting.size()];
  }

  [[noreturn]] void serve() {
    for (;;) {
      std::unique_lock lock(mutex_);
      Queue* queue = nullptr;
      changed_.wait(lock, [&] { return (queue = next()) != nullptr; });
      if (chance_() % 4 == 0) {  // late; meanwhile others may come
        const std::chrono::microseconds delay(chance_() % 50);
        lock.unlock();
        std::this_thread::sleep_for(delay);
        lock.lock();
        queue = next();  // there is one: who else would have taken it?
      }
      Queue::Item item = std::move(queue->work.front());
      queue->work.pop_front();
      queue->busy = true;
      const bool runs = item.always || queue->failed == 0;
      lock.unlock();
      const int status = runs ? item.run() : 0;
      lock.lock();
      queue->busy = false;
      if (status != 0) queue->failed = status;
      lock.unlock();
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Queue> own_;
  std::map<Queue*, std::unique_ptr<Queue>> queues_;
  std::minstd_rand chance_;
};

}  // namespace hologram::null
