// backend/cuda/memory.h: a GPU's memory and streams.
#pragma once

#include "backend/cuda/driver.h"
#include "backend/memory.h"

namespace hologram::cuda {

class DeviceMemory final : public Memory {
 public:
  explicit DeviceMemory(const DeviceContext& context) : context_(context) {}

  Device device() const override { return {2, context_.number}; }  // DLPack's kDLCUDA
  bool contains(const void* address) const override;
  Stream make_stream() override;
  void free_stream(Stream stream) noexcept override;
  void* allocate(size_t bytes, Stream stream) override;
  void deallocate(void* block, Stream stream) noexcept override;
  void copy(void* to, const void* from, size_t bytes, Stream stream) override;
  void wait(Stream stream) override;
  void wait_for_all() override;

  const DeviceContext& context() const { return context_; }

 private:
  const DeviceContext& context_;
};

}  // namespace hologram::cuda
