// backend/cuda/memory.h: a GPU's memory and streams.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "backend/cuda/driver.h"
#include "backend/memory.h"

namespace hologram::cuda {

class DeviceMemory final : public Memory {
 public:
  explicit DeviceMemory(const DeviceContext& context);
  ~DeviceMemory() override;

  Device device() const override { return {2, context_.number}; }  // DLPack's kDLCUDA
  uint64_t capacity() const override { return context_.memory; }
  bool contains(const void* address) const override;
  Stream make_stream() override;
  void free_stream(Stream stream) noexcept override;
  void* allocate(size_t bytes, Stream stream) override;
  void deallocate(void* block, Stream stream) noexcept override;
  size_t release() noexcept override;
  void copy(void* to, const void* from, size_t bytes, Stream stream) override;
  void wait(Stream stream) override;
  void wait_for_all() override;
  void* allocate_host(size_t bytes) override;
  void deallocate_host(void* block) noexcept override;
  void copy_later(void* to, const void* from, size_t bytes, Stream stream) override;
  bool fill_later(void* to, uint32_t element, size_t size, size_t bytes, Stream stream) override;
  Event make_event() override;
  void free_event(Event event) noexcept override;
  void record(Event event, Stream stream) override;
  void wait_for(Event event, Stream stream) override;
  bool reached(Event event) override;
  bool captured(Stream stream) override;

  const DeviceContext& context() const { return context_; }

 private:
  class Ring;
  bool is_pageable(const void* address) const;
  void copy_through_ring(std::byte* to, const std::byte* from, size_t bytes, bool to_device,
                         Stream stream);

  const DeviceContext& context_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Ring>> rings_;  // that no copy uses now
};

}  // namespace hologram::cuda
