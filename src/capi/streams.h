// capi/streams.h: streams and events behind handles.
#pragma once

#include <atomic>
#include <exception>
#include <map>

#include "capi/graphs.h"

namespace hologram::capi {

/// A queue of work on an executor's device. Work on the host is done when it is put on.
///
/// What work on it needs is kept until it has been waited for, and so are its errors.
class StreamObject : public Member {
 public:
  /// `native`: the device's own queue, which stays its owner's; null: a new one.
  StreamObject(std::shared_ptr<ExecutorState> of, const Stream* native);
  ~StreamObject();
  StreamObject(const StreamObject&) = delete;
  StreamObject& operator=(const StreamObject&) = delete;

  const std::shared_ptr<ExecutorState> executor;
  Stream queue() const { return queue_; }

  /// Copies the host's bytes now, and to `to`, in `storage`, behind what is on the stream.
  void put(const runtime::StorageRef& storage, void* to, const void* from, size_t bytes);
  /// Copies to the host's memory, by the time that the stream has been waited for.
  void copy_out(void* to, const BufferObject& from);
  /// `start` puts work on the stream, or does it, with these buffers and executables; its
  /// StickyError bits go to the atomic.
  template <class Start>
  void run(std::vector<runtime::StorageRef> uses, std::shared_ptr<const void> code,
           const Start& start) {
    std::lock_guard lock(mutex_);
    make_room(0);
    for (runtime::StorageRef& use : uses) uses_.push_back(std::move(use));
    codes_.push_back(std::move(code));
    if (executor->device()) return start(&faults_);
    try {
      start(&faults_);
    } catch (const Error&) {
      keep(std::current_exception());
    }
  }
  /// The device's queue for a call that is not waited for; without a device, none.
  runtime::Late late(std::atomic<int32_t>* faults) const {
    return executor->device() ? runtime::Late{&queue_, faults} : runtime::Late{};
  }
  void record(Event event);
  void wait_for(Event event);
  /// Returns when its work is done; errors stay.
  void settle();
  /// The same, and throws the first error since.
  void wait();
  /// Whether its work is done.
  bool done();

 private:
  struct Landing {
    void* to;
    void* from;
    size_t bytes;
  };
  void* take_block(size_t bytes);
  void make_room(size_t bytes);
  void settle_locked() noexcept;
  void keep(std::exception_ptr error) noexcept {
    if (!error_) error_ = std::move(error);
  }

  Stream queue_ = nullptr;
  std::shared_ptr<void> owner_;  // of the queue, if it is one of ours
  Event last_ = nullptr;         // for done()
  std::atomic<int32_t> faults_{0};
  std::mutex mutex_;  // of what follows
  std::vector<runtime::StorageRef> uses_;
  std::vector<std::shared_ptr<const void>> codes_;
  std::vector<Landing> landings_;
  std::multimap<size_t, void*> spare_, taken_;  // pinned blocks by size
  size_t pinned_ = 0;                           // bytes of both
  std::exception_ptr error_;
};

/// A mark in a stream's work. On the host, every mark has been reached.
class EventObject : public Member {
 public:
  explicit EventObject(std::shared_ptr<ExecutorState> of);
  ~EventObject();
  EventObject(const EventObject&) = delete;
  EventObject& operator=(const EventObject&) = delete;

  const std::shared_ptr<ExecutorState> executor;
  Event event = nullptr;
};

extern HandleTable streams, events;

inline Pin<StreamObject> need_stream(hologram_handle handle) {
  return need<StreamObject>(streams, handle, "stream");
}
inline Pin<EventObject> need_event(hologram_handle handle) {
  return need<EventObject>(events, handle, "event");
}

}  // namespace hologram::capi
