// capi/objects.h: what handles stand for.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backend/registry.h"
#include "capi/error.h"
#include "capi/handles.h"
#include "runtime/operations.h"
#include "runtime/storage.h"

namespace hologram::capi {

/// A count that many threads add to: each to its own cache line.
class Counter {
 public:
  void add(uint64_t n) noexcept {
    const auto stack = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    shards_[(stack >> 23 ^ stack >> 20) % 8].value.fetch_add(n, std::memory_order_relaxed);
  }
  /// For a call that holds this record of `buffers` and so shares its line with no other.
  void add_holding(int record, uint64_t n) noexcept {
    std::atomic<uint64_t>& own = held_[static_cast<size_t>(record)].value;
    own.store(own.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  uint64_t value() const noexcept {
    uint64_t sum = 0;
    for (const Shard& s : shards_) sum += s.value.load(std::memory_order_relaxed);
    for (const Shard& s : held_) sum += s.value.load(std::memory_order_relaxed);
    return sum;
  }

 private:
  struct alignas(64) Shard {
    std::atomic<uint64_t> value{0};
  };
  std::array<Shard, 8> shards_{};
  std::array<Shard, HandleTable::num_records> held_{};
};

/// A link in the list of what belongs to an executor.
struct Member {
  hologram_handle handle = 0;
  Member* previous = this;
  Member* next = this;
};

/// What an executor and all that belongs to it share; lives as long as the last of them.
struct ExecutorState {
  hologram_handle handle = 0;
  std::shared_ptr<runtime::Operations> operations;
  std::shared_ptr<runtime::ExecutorMemory> memory;
  Counter kernel_calls, bytes_in, bytes_out;
  uint64_t fallbacks = 0;  ///< 1 if "auto" found no device
  std::atomic<uint64_t> buffers{0}, tensors{0};

  /// Where the bytes of its buffers are; null: in host memory.
  Memory* device() const { return operations->runtime().device(); }
  /// Copies bytes into, out of or within that memory; the sides may overlap in host memory.
  void copy(void* to, const void* from, size_t bytes) const;
  /// Fills device memory with an element, over and over.
  void repeat(std::byte* to, size_t bytes, const void* element, size_t size) const;
  void clear(std::byte* to, size_t bytes) const;
  /// Throws Error(unsupported) saying `what` where the host does not see the memory.
  void require_host_memory(std::string_view what) const;

  /// Adds a member under its handle; throws Error(not_found) when the executor was freed.
  void join(Member& member, hologram_handle member_handle);
  void leave(Member& member) noexcept;
  /// No member joins from now on; the handles of those there are.
  std::vector<hologram_handle> close();

 private:
  std::mutex mutex_;
  Member members_;
  bool closed_ = false;
};

struct ExecutorObject {
  std::shared_ptr<ExecutorState> state;
};

struct BufferObject : Member {
  std::shared_ptr<ExecutorState> executor;
  runtime::StorageRef storage;
  std::byte* data = nullptr;
  uint64_t length = 0;
  DType dtype = DType::f32;
  bool slice = false;  ///< shows a part of another buffer's storage

  hologram_handle executor_handle() const { return executor->handle; }
  uint64_t bytes() const { return length * static_cast<uint64_t>(size_of(dtype)); }
  BufferObject() = default;
  BufferObject(const BufferObject&) = delete;
  BufferObject& operator=(const BufferObject&) = delete;
  ~BufferObject();
};

struct TensorObject : Member {
  std::shared_ptr<ExecutorState> executor;
  runtime::StorageRef storage;
  std::atomic<hologram_handle> buffer{0};  ///< the handle it was made from, 0: owns its memory
  std::byte* base = nullptr;               ///< element 0 of the buffer
  uint64_t capacity = 0;                   ///< elements of the buffer
  DType dtype = DType::f32;
  std::vector<int64_t> shape, strides;
  int64_t offset = 0;  ///< elements from base

  int64_t numel() const;
  bool contiguous() const;
  std::byte* data() const { return base + offset * size_of(dtype); }
  TensorObject() = default;
  TensorObject(const TensorObject&) = delete;
  TensorObject& operator=(const TensorObject&) = delete;
  ~TensorObject();
};

/// The tables of the process.
extern HandleTable executors, buffers, tensors, graphs, executables;

/// What all executors of the process on one device share: threads, kernels, operations. Made at
/// first use. Throws Error(unavailable) where the machine lacks the backend.
std::shared_ptr<runtime::Operations> shared_operations(const ChosenBackend& chosen);
/// Those of the backend that "auto" chooses.
std::shared_ptr<runtime::Operations> shared_operations();
/// Sets how many threads a call may use, on every backend; 0: the default.
void set_shared_threads(int threads);

/// Throws Error saying what is wrong with a handle that could not be pinned.
[[noreturn]] void report_handle(HandleTable& table, hologram_handle handle,
                                std::string_view argument);

/// Pins a handle; throws Error(not_found) or Error(invalid_argument) saying what is wrong with it.
template <class T>
Pin<T> need(HandleTable& table, hologram_handle handle, std::string_view argument) {
  Pin<T> pin(table, handle);
  if (!pin) [[unlikely]]
    report_handle(table, handle, argument);
  return pin;
}
inline Pin<ExecutorObject> need_executor(hologram_handle handle) {
  return need<ExecutorObject>(executors, handle, "executor");
}
inline Pin<BufferObject> need_buffer(hologram_handle handle, std::string_view argument = "buffer") {
  return need<BufferObject>(buffers, handle, argument);
}
/// A buffer that belongs to this executor.
Pin<BufferObject> need_buffer_of(hologram_handle executor, hologram_handle handle,
                                 std::string_view argument = "buffer");
inline Pin<TensorObject> need_tensor(hologram_handle handle, std::string_view argument = "tensor") {
  return need<TensorObject>(tensors, handle, argument);
}

/// Whether two ranges of bytes have one in common.
inline bool meet(const void* a, size_t n, const void* b, size_t m) {
  const auto* x = static_cast<const std::byte*>(a);
  const auto* y = static_cast<const std::byte*>(b);
  return n != 0 && m != 0 && x < y + m && y < x + n;
}

/// Gives an object that is no executor's its handle. The object is the table's from then on.
template <class T>
hologram_handle insert(HandleTable& table, std::unique_ptr<T> object) {
  const hologram_handle handle = table.reserve();
  table.publish(handle, object.release());
  return handle;
}

/// Gives an object of an executor its handle. The object is the table's from then on.
template <class T>
hologram_handle publish(HandleTable& table, std::unique_ptr<T> object) {
  const hologram_handle handle = table.reserve();
  try {
    object->executor->join(*object, handle);
  } catch (...) {
    table.cancel(handle);
    throw;
  }
  table.publish(handle, object.release());
  return handle;
}

/// Bytes of an executor's memory as the host sees them: in place, or a copy of a device's.
class HostCopy {
 public:
  HostCopy(const ExecutorState& executor, std::byte* data, size_t bytes)
      : executor_(executor), there_(data) {
    if (!executor.device()) return;
    copy_.resize(bytes);
    executor.copy(copy_.data(), data, bytes);
  }
  const std::byte* data() const { return executor_.device() ? copy_.data() : there_; }

 private:
  const ExecutorState& executor_;
  std::byte* there_;
  std::vector<std::byte> copy_;
};

std::unique_ptr<BufferObject> make_buffer(const std::shared_ptr<ExecutorState>& executor,
                                          DType dtype, uint64_t length,
                                          runtime::StorageRef storage);
/// New row-major memory under a tensor.
std::unique_ptr<TensorObject> make_tensor(const std::shared_ptr<ExecutorState>& executor,
                                          DType dtype, std::vector<int64_t> shape);

/// Throws Error(invalid_argument) for a number that is no dtype of buffers.
DType checked_dtype(int dtype);
/// elements * size, or Error(invalid_argument) on overflow.
uint64_t checked_bytes(uint64_t elements, DType dtype);
/// The value as 32 bits, or Error(invalid_argument).
uint32_t checked_u32(uint64_t value, std::string_view what);
/// ASCII letters as small ones; at most 64 characters are taken.
std::string lower_case(const char* text);
/// The backend and the device of that name in any case, "auto" included; without a backend for one
/// that this build lacks. Throws Error(invalid_argument) for a name that no build knows.
ChosenBackend backend_of(const char* text);

void log(std::string_view level, const std::string& message) noexcept;
/// Logs the notices that wait, as warnings.
void log_notices() noexcept;

}  // namespace hologram::capi
