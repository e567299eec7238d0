// backend/cuda/memory.cpp: a GPU's memory and streams, by the driver's stream-ordered pool.
#include "backend/cuda/memory.h"

#include <algorithm>

#include "base/error.h"

namespace hologram::cuda {
namespace {

CuPointer pointer(const void* p) { return reinterpret_cast<CuPointer>(p); }

CuStream cu(Stream stream) { return static_cast<CuStream>(stream); }

}  // namespace

bool DeviceMemory::contains(const void* address) const {
  const Current here(context_);
  unsigned kind = 0;
  int number = -1;
  auto ask = [&](void* value, int attribute) {
    return context_.driver.pointer_attribute(value, attribute, pointer(address)) == cu_success;
  };
  return ask(&kind, cu_pointer_memory_type) && kind == cu_memory_device &&  // or nothing is known
         ask(&number, cu_pointer_device) && number == context_.number;
}

Stream DeviceMemory::make_stream() {
  CuStream stream = nullptr;
  const Current here(context_);
  context_.driver.require(context_.driver.make_stream(&stream, cu_stream_non_blocking),
                          "making a stream");
  return stream;
}

void DeviceMemory::free_stream(Stream stream) noexcept {
  const Current here(context_, std::nothrow);
  if (!stream || !here.ok()) return;
  context_.driver.synchronize(cu(stream));
  context_.driver.free_stream(cu(stream));
}

void* DeviceMemory::allocate(size_t bytes, Stream stream) {
  CuPointer block = 0;
  const Current here(context_);
  const CuResult result = context_.driver.allocate(&block, std::max<size_t>(bytes, 1), cu(stream));
  if (result == cu_out_of_memory)
    fail(ErrorCode::out_of_memory, "cuda: the device has no room for {} bytes", bytes);
  context_.driver.require(result, "allocating memory");
  return reinterpret_cast<void*>(block);
}

void DeviceMemory::deallocate(void* block, Stream stream) noexcept {
  const Current here(context_, std::nothrow);
  if (!block || !here.ok()) return;
  context_.driver.free(pointer(block), cu(stream));
}

void DeviceMemory::copy(void* to, const void* from, size_t bytes, Stream stream) {
  if (bytes == 0) return wait(stream);
  const Current here(context_);
  context_.driver.require(context_.driver.copy(pointer(to), pointer(from), bytes, cu(stream)),
                          "copying memory");
  wait(stream);
}

void DeviceMemory::wait(Stream stream) {
  const Current here(context_);
  context_.driver.require(context_.driver.synchronize(cu(stream)), "waiting for the device");
}

void DeviceMemory::wait_for_all() {
  const Current here(context_);
  context_.driver.require(context_.driver.synchronize_all(), "waiting for the device");
}

}  // namespace hologram::cuda
