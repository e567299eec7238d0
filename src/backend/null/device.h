// backend/null/device.h: a device that is not there: memory, streams and work of a thread.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "backend/memory.h"
#include "backend/null/late_events.h"
#include "base/free_ranges.h"

namespace hologram::null {

/// Memory at addresses that nobody can read or write: the bytes are elsewhere, and only the
/// device's own work is told where. Streams are late queues. What is freed is overwritten, so that
/// work that still needs it goes wrong.
class FakeDevice final : public Memory {
 public:
  /// The one of this process; never destroyed.
  static FakeDevice& instance();

  Device device() const override { return {12, 0}; }  // DLPack's dlext_dev
  uint64_t capacity() const override;
  bool contains(const void* address) const override;
  Stream make_stream() override;
  void free_stream(Stream stream) noexcept override;
  bool has_stream(Stream stream) override { return queues_.has(queue(stream)); }
  void* allocate(size_t bytes, Stream stream) override;
  void deallocate(void* block, Stream stream) noexcept override;
  void copy(void* to, const void* from, size_t bytes, Stream stream) override;
  void wait(Stream stream) override;
  void wait_for_all() override;
  void* allocate_host(size_t bytes) override;
  void deallocate_host(void* block) noexcept override;
  void copy_later(void* to, const void* from, size_t bytes, Stream stream) override;
  Event make_event() override { return new LateEvent; }
  void free_event(Event event) noexcept override { delete static_cast<LateEvent*>(event); }
  void record(Event event, Stream stream) override;
  void wait_for(Event event, Stream stream) override;
  bool reached(Event event) override { return static_cast<LateEvent*>(event)->reached(); }

  /// Puts work on a stream; it returns a status, and those behind a failed one are left out until
  /// wait() has told of it.
  void enqueue(Stream stream, std::function<int32_t()> work);
  /// Where the bytes of an address are: for work alone. Addresses of host memory stay.
  void* bytes_of(void* address) const;

 private:
  FakeDevice();
  static LateQueues::Queue* queue(Stream stream) { return static_cast<LateQueues::Queue*>(stream); }
  void give_back(size_t offset) noexcept;

  char* addresses_ = nullptr;  // of blocks: no access
  char* bytes_ = nullptr;      // their contents
  std::mutex mutex_;
  std::map<size_t, size_t> used_;  // offset → bytes
  FreeRanges free_;
  LateQueues queues_;
};

}  // namespace hologram::null
