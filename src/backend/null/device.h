// backend/null/device.h: a device that is not there: memory, streams and work of a thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>

#include "backend/memory.h"

namespace hologram::null {

/// Memory at addresses that nobody can read or write: the bytes are elsewhere, and only the
/// device's own work is told where. Work on streams is done by one thread, late; which stream's
/// comes next is left to chance. What is freed is overwritten, so that work that still needs it
/// goes wrong.
class FakeDevice final : public Memory {
 public:
  /// The one of this process; never destroyed.
  static FakeDevice& instance();

  Device device() const override { return {12, 0}; }  // DLPack's dlext_dev
  bool contains(const void* address) const override;
  Stream make_stream() override;
  void free_stream(Stream stream) noexcept override;
  void* allocate(size_t bytes, Stream stream) override;
  void deallocate(void* block, Stream stream) noexcept override;
  void copy(void* to, const void* from, size_t bytes, Stream stream) override;
  void wait(Stream stream) override;
  void wait_for_all() override;

  /// Puts work on a stream; it returns a status, and those behind a failed one are left out until
  /// wait() has told of it.
  void enqueue(Stream stream, std::function<int32_t()> work);
  /// Where the bytes of an address are: for work alone. Addresses of host memory stay.
  void* bytes_of(void* address) const;

 private:
  struct Work {
    std::function<int32_t()> run;
    bool always;  // also behind a failure
  };
  struct Queue {
    std::deque<Work> work;
    int32_t failed = 0;
  };

  FakeDevice();
  Queue& queue(Stream stream) { return stream ? *static_cast<Queue*>(stream) : own_; }
  void push(Queue& queue, std::function<int32_t()> work, bool always);
  void finish(Queue& queue, std::function<int32_t()> last);
  void give_back(size_t offset) noexcept;
  [[noreturn]] void serve();
  Queue* next();

  char* addresses_ = nullptr;  // of blocks: no access
  char* bytes_ = nullptr;      // their contents
  std::mutex mutex_;
  std::condition_variable changed_;
  Queue own_;
  std::map<Queue*, std::unique_ptr<Queue>> streams_;
  std::map<size_t, size_t> used_, free_;  // offset → bytes
  std::minstd_rand chance_;
};

}  // namespace hologram::null
