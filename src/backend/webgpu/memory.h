// backend/webgpu/memory.h: a device's memory: buffers of WebGPU at addresses that nobody reads.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "backend/memory.h"
#include "backend/webgpu/device.h"

namespace hologram::webgpu {

/// Where an address lies.
struct Place {
  Buffer buffer = nullptr;
  uint64_t offset = 0;  ///< in bytes
  uint64_t bytes = 0;   ///< of the buffer
};

/// WebGPU knows buffers, not addresses: each block has a range of reserved ones for itself, by
/// which place_of() finds its buffer. There is one queue, which all streams stand for.
class DeviceMemory final : public Memory {
 public:
  explicit DeviceMemory(const DeviceContext& context);
  ~DeviceMemory() override;

  const DeviceContext& context() const { return context_; }
  /// Of an address in a block. Throws Error(internal) for any other.
  Place place_of(const void* address) const;

  Device device() const override { return {15, context_.number}; }  // DLPack's kDLWebGPU
  uint64_t capacity() const override;
  bool contains(const void* address) const override;
  Stream make_stream() override;
  void free_stream(Stream stream) noexcept override;
  void* allocate(size_t bytes, Stream stream) override;
  void deallocate(void* block, Stream stream) noexcept override;
  size_t release() noexcept override;
  void copy(void* to, const void* from, size_t bytes, Stream stream) override;
  void wait(Stream stream) override;
  void wait_for_all() override { wait(nullptr); }
  void* allocate_host(size_t bytes) override;
  void deallocate_host(void* block) noexcept override;
  void copy_later(void* to, const void* from, size_t bytes, Stream stream) override;
  Event make_event() override;
  void free_event(Event event) noexcept override;
  void record(Event event, Stream stream) override;
  void wait_for(Event event, Stream stream) override;
  bool reached(Event event) override;

 private:
  struct Block {
    Buffer buffer = nullptr;
    size_t bytes = 0;
  };
  void write(void* to, const void* from, size_t bytes);
  void read(void* to, const void* from, size_t bytes);
  void move(void* to, const void* from, size_t bytes);

  const DeviceContext& context_;
  char* const addresses_;
  mutable std::mutex mutex_;
  std::map<size_t, Block> used_;                          // by offset of its address
  std::multimap<size_t, std::pair<size_t, Block>> kept_;  // by bytes: that no one uses now
  std::map<size_t, size_t> free_;                         // ranges of addresses: offset → bytes
};

}  // namespace hologram::webgpu
