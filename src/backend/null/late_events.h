// backend/null/late_events.h: marks in late queues.
#pragma once

#include <atomic>
#include <memory>

#include "backend/null/late_queues.h"

namespace hologram::null {

/// An event of the device that a LateQueues stands for. What waits for a mark keeps it.
class LateEvent {
 public:
  void record(LateQueues& queues, LateQueues::Queue* queue) {
    auto mark = std::make_shared<std::atomic<bool>>(false);
    set(mark);
    queues.push(
        queue,
        [mark] {
          *mark = true;
          return 0;
        },
        true);
  }
  void hold_up(LateQueues& queues, LateQueues::Queue* queue) const {
    auto mark = get();
    if (!mark || *mark) return;
    queues.push(
        queue, [] { return 0; }, true, [mark] { return mark->load(); });
  }
  bool reached() const {
    auto mark = get();
    return !mark || *mark;
  }

 private:
  using Mark = std::shared_ptr<std::atomic<bool>>;
  Mark get() const {
    std::lock_guard lock(mutex_);
    return mark_;
  }
  void set(Mark mark) {
    std::lock_guard lock(mutex_);
    mark_ = std::move(mark);
  }

  mutable std::mutex mutex_;
  Mark mark_;
};

}  // namespace hologram::null
