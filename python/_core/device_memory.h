// python/_core/device_memory.h: the memory of tensors on PyTorch's device for extensions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/dlpack.h"

namespace hologram::python {

/// What one storage of the device lies in, found by address: who has it may tell views of one
/// storage from tensors that share nothing, and whether anybody but himself holds it.
class DeviceMemory : public std::enable_shared_from_this<DeviceMemory> {
 public:
  /// Takes over a block of a memory pool.
  static std::shared_ptr<DeviceMemory> of_block(void* block);
  /// Takes over a tensor of the host's. Null where its memory is known already, or is empty.
  static std::shared_ptr<DeviceMemory> of_tensor(dlpack::ManagedTensor* tensor, size_t bytes);
  /// The one around an address; null where there is none.
  static std::shared_ptr<DeviceMemory> find(const void* address);

  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  char* begin() const { return begin_; }
  size_t bytes() const { return bytes_; }

  /// The queue's notes, under the GIL: they hold while `batch` is the queue's.
  uint64_t batch = 0;
  bool written = false;            // by what is queued
  std::vector<uint32_t> values{};  // of the queue that lie in this memory

 private:
  DeviceMemory(void* begin, size_t bytes) : begin_(static_cast<char*>(begin)), bytes_(bytes) {}
  bool enter();

  char* begin_;
  size_t bytes_;
  bool known_ = false;                       // by address
  void* block_ = nullptr;                    // of a pool
  dlpack::ManagedTensor* tensor_ = nullptr;  // whose memory this is
};

}  // namespace hologram::python
