// backend/webgpu/addresses.h: addresses that nobody reads, for places in a device's buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "base/free_ranges.h"

namespace hologram::webgpu {

/// A buffer of the device, as what runs it names it.
using Buffer = struct BufferImpl*;

/// Blocks begin at multiples of it: bindings may, everywhere.
inline constexpr uint64_t binding_alignment = 256;

/// Where an address lies.
struct Place {
  Buffer buffer = nullptr;
  uint64_t offset = 0;  ///< in bytes
  uint64_t bytes = 0;   ///< of the buffer
};

/// WebGPU knows buffers, not addresses: each block has a range of reserved ones for itself, by
/// which place_of() finds its buffer. Freed blocks are kept for others of their size. Thread-safe.
class Addresses {
 public:
  /// Of the addresses [first, first + bytes), which nothing else has. `drop` gives a buffer back.
  Addresses(char* first, size_t bytes, std::function<void(Buffer)> drop);
  ~Addresses();
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;

  bool contains(const void* address) const;
  /// Of an address in a block. Throws Error(internal) for any other.
  Place place_of(const void* address) const;
  /// A block of at least `bytes` bytes; `make(bytes)` makes buffers. Throws what that throws, and
  /// Error(out_of_memory) where no addresses are left.
  void* allocate(size_t bytes, const std::function<Buffer(size_t)>& make);
  /// Others may have the block at once.
  void deallocate(void* block) noexcept;
  /// Gives the buffers of freed blocks back; how many bytes.
  size_t release() noexcept;

 private:
  struct Block {
    Buffer buffer = nullptr;
    size_t bytes = 0;
  };
  char* const first_;
  const size_t space_;
  const std::function<void(Buffer)> drop_;
  mutable std::mutex mutex_;
  std::map<size_t, Block> used_;                          // by offset of its address
  std::multimap<size_t, std::pair<size_t, Block>> kept_;  // by bytes: that no one uses now
  FreeRanges free_;                                       // of offsets
};

}  // namespace hologram::webgpu
