// runtime/storage.h: the bytes behind buffers, counted by their users.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "backend/memory.h"
#include "host/boundary_pool.h"
#include "host/memory_pool.h"

namespace hologram::runtime {

class ExecutorMemory;

/// Where bytes come from: the linear pool, a class of the boundary pool, or the user.
enum class Pool : uint8_t { linear, boundary, foreign };

/// Bytes with an intrusive count of users: buffers, tensors and exported views. The last user to
/// go, on any thread, gives the bytes back. Outlives its executor.
class Storage {
 public:
  std::byte* data() const noexcept { return data_; }
  size_t bytes() const noexcept { return bytes_; }
  Pool pool() const noexcept { return pool_; }
  /// The first boundary class, -1 outside that pool.
  int class_index() const noexcept { return class_; }
  /// Whether there is one user only.
  bool unique() const noexcept { return users_.load(std::memory_order_acquire) == 1; }

  /// The user's memory will not be released after all.
  void disarm() noexcept { release_ = nullptr; }

  void retain() noexcept { users_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy();
  }

 private:
  friend class ExecutorMemory;
  Storage() = default;
  ~Storage() = default;
  void destroy() noexcept;

  std::atomic<uint32_t> users_{1};
  Pool pool_ = Pool::linear;
  int class_ = -1;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  std::shared_ptr<ExecutorMemory> memory_;
  void (*release_)(void*) = nullptr;
  void* context_ = nullptr;
};

/// One user of a Storage.
class StorageRef {
 public:
  StorageRef() = default;
  /// Takes over a use that was counted already.
  explicit StorageRef(Storage* counted) noexcept : storage_(counted) {}
  StorageRef(const StorageRef& other) noexcept : storage_(other.storage_) {
    if (storage_) storage_->retain();
  }
  StorageRef(StorageRef&& other) noexcept : storage_(std::exchange(other.storage_, nullptr)) {}
  StorageRef& operator=(StorageRef other) noexcept {
    std::swap(storage_, other.storage_);
    return *this;
  }
  ~StorageRef() {
    if (storage_) storage_->release();
  }
  Storage* get() const noexcept { return storage_; }
  Storage* operator->() const noexcept { return storage_; }
  explicit operator bool() const noexcept { return storage_ != nullptr; }
  /// Gives the use away.
  Storage* detach() noexcept { return std::exchange(storage_, nullptr); }

 private:
  Storage* storage_ = nullptr;
};

/// The memory of one executor: its boundary pool and a bounded linear pool. Thread-safe, lock-free.
class ExecutorMemory : public std::enable_shared_from_this<ExecutorMemory> {
 public:
  /// `device`: where linear memory lies, without boundary classes; null: on the host.
  static std::shared_ptr<ExecutorMemory> create(Memory* device = nullptr);

  /// At least `bytes` bytes, contents undefined: a free boundary class if `boundary` allows it and
  /// the bytes fit in one, else linear memory. Throws Error(out_of_memory), having changed nothing,
  /// when the system or the limit refuses. `zeroed`: as in MemoryPool::allocate.
  StorageRef allocate(size_t bytes, bool boundary = true, bool* zeroed = nullptr);
  /// This boundary class, or nothing when it is busy.
  StorageRef allocate_class(int cls, size_t bytes);
  /// The user's memory; `release(context)` (may be null) is called when the last user goes.
  StorageRef wrap(void* data, size_t bytes, void (*release)(void*), void* context);

  /// Bounds the live linear bytes; at first by what the device has, on the host by what this
  /// process may use.
  void set_limit(uint64_t bytes) noexcept { limit_.store(bytes, std::memory_order_relaxed); }
  uint64_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }
  uint64_t linear_bytes() const noexcept { return live_.load(std::memory_order_relaxed); }
  uint64_t linear_peak() const noexcept { return peak_.load(std::memory_order_relaxed); }

  host::BoundaryPool& boundary() noexcept { return boundary_; }
  host::MemoryPool& linear() noexcept { return linear_; }
  /// Gives what is kept of freed linear memory back to the system; how many bytes.
  size_t release() noexcept { return linear_.release() + (device_ ? device_->release() : 0); }

 private:
  friend class Storage;
  explicit ExecutorMemory(Memory* device)
      : device_(device),
        limit_(device ? device->capacity() : uint64_t{host::MemoryPool::usable_memory()}) {}
  void reserve(size_t bytes);

  host::BoundaryPool boundary_;
  host::MemoryPool linear_;
  Memory* device_;
  std::atomic<uint64_t> live_{0}, peak_{0};
  std::atomic<uint64_t> limit_;
};

}  // namespace hologram::runtime
