// backend/webgpu/memory.h: a device's memory: buffers of WebGPU at addresses that nobody reads.
#pragma once

#include <atomic>

#include "backend/memory.h"
#include "backend/webgpu/addresses.h"
#include "backend/webgpu/device.h"

namespace hologram::webgpu {

/// There is one queue, which all streams stand for.
class DeviceMemory final : public Memory {
 public:
  explicit DeviceMemory(const DeviceContext& context);
  ~DeviceMemory() override;

  const DeviceContext& context() const { return context_; }
  /// Of an address in a block. Throws Error(internal) for any other.
  Place place_of(const void* address) const { return addresses_.place_of(address); }

  Device device() const override { return {15, context_.number}; }  // DLPack's kDLWebGPU
  /// So many have been copied into it from the host.
  uint64_t uploaded_bytes() const { return uploaded_.load(std::memory_order_relaxed); }
  /// So many went between it and the host through a buffer for the time of a copy.
  uint64_t staged_bytes() const { return staged_.load(std::memory_order_relaxed); }
  uint64_t capacity() const override;
  bool contains(const void* address) const override { return addresses_.contains(address); }
  Stream make_stream() override;
  void free_stream(Stream stream) noexcept override;
  void* allocate(size_t bytes, Stream stream) override;
  // The queue does its work in order, so the block may serve others at once.
  void deallocate(void* block, Stream) noexcept override { addresses_.deallocate(block); }
  size_t release() noexcept override { return addresses_.release(); }
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
  bool copy_mapped(const void* block, size_t bytes, uint64_t mode,
                   const std::function<void(char*)>& copy);
  void write(void* to, const void* from, size_t bytes);
  void read(void* to, const void* from, size_t bytes);
  void move(void* to, const void* from, size_t bytes);

  const DeviceContext& context_;
  std::atomic<uint64_t> uploaded_{0}, staged_{0};
  char* const reserved_;
  Addresses addresses_;
};

}  // namespace hologram::webgpu
