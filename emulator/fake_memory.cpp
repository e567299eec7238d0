// emulator/fake_memory.cpp: memory of the fake libcuda's devices and of the host.
#include <cstring>

#include "emulator/fake_device.h"

using namespace fakecuda;

EXPORT cuDeviceGetDefaultMemPool(Device** pool, int device) {
  if (device < 0 || device >= Device::most) return invalid_device;
  *pool = &Device::number(device);
  return success;
}
EXPORT cuMemPoolSetAttribute(Device* pool, int attribute, void* value) {
  constexpr int threshold = 4;
  if (attribute != threshold) return invalid_value;
  pool->set_threshold(*static_cast<uint64_t*>(value));
  return success;
}
EXPORT cuMemPoolGetAttribute(Device* pool, int attribute, void* value) {
  constexpr int reserved = 5;
  if (attribute != reserved) return invalid_value;
  *static_cast<uint64_t*>(value) = pool->reserved();
  return success;
}
EXPORT cuMemPoolTrimTo(Device* pool, size_t kept) {
  pool->trim(kept);
  return success;
}
EXPORT cuMemAllocAsync(uint64_t* block, size_t bytes, Stream* stream) {
  Device* d = device_of(stream);
  if (const int no = refused(d)) return no;
  if (capturing()) return capture_unsupported;  // a node of the graph, which nobody here wants
  if (common().strikes("allocate") || bytes > space / 2) return out_of_memory;
  *block = d->allocate(bytes);
  ++common().allocations;
  return *block ? success : out_of_memory;
}
EXPORT cuMemFreeAsync(uint64_t block, Stream* stream) {
  Device* d = Device::of(block);
  if (!d || d != device_of(stream)) return invalid_value;
  return push(stream, [=] { return d->release(block) ? success : invalid_value; });
}
EXPORT cuMemHostAlloc(void** block, size_t bytes, unsigned) {
  if (const int no = refused(current())) return no;
  if (const int no = forbidden_in_captures()) return no;
  if (common().strikes("pin")) return out_of_memory;
  ++common().pinned;
  *block = ::operator new (bytes, std::align_val_t{64});
  common().pin(*block, bytes);
  return success;
}
EXPORT cuMemFreeHost(void* block) {
  if (!common().unpin(block)) return invalid_value;
  ::operator delete (block, std::align_val_t{64});
  return success;
}
EXPORT cuMemHostGetDevicePointer_v2(uint64_t* to, void* host, unsigned) {
  *to = reinterpret_cast<uint64_t>(host);
  return success;
}
EXPORT cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, Stream* stream) {
  for (uint64_t p : {to, from})
    if (Device* d = Device::of(p); d && !d->find(p, bytes)) return invalid_value;
  auto& copied =
      Device::of(to) ? Device::of(from) ? common().within : common().to_device : common().to_host;
  copied += static_cast<int64_t>(bytes);
  return push(stream, [=] {
    Device::copy(to, from, bytes);
    return success;
  });
}
static int fill(uint64_t to, const void* element, size_t size, size_t count, Stream* stream) {
  const size_t bytes = size * count;
  Device* d = Device::of(to);
  if (!d || !d->find(to, bytes) || to % size != 0) return invalid_value;
  ++common().fills;
  std::vector<std::byte> values(bytes);
  for (size_t k = 0; k < bytes; k += size) std::memcpy(values.data() + k, element, size);
  return push(stream, [to, values = std::move(values)] {
    Device::copy(to, reinterpret_cast<uint64_t>(values.data()), values.size());
    return success;
  });
}
EXPORT cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, Stream* stream) {
  return fill(to, &value, sizeof value, count, stream);
}
EXPORT cuMemsetD16Async(uint64_t to, unsigned short value, size_t count, Stream* stream) {
  return fill(to, &value, sizeof value, count, stream);
}
EXPORT cuMemsetD32Async(uint64_t to, unsigned value, size_t count, Stream* stream) {
  return fill(to, &value, sizeof value, count, stream);
}
EXPORT cuPointerGetAttribute(void* value, int attribute, uint64_t p) {
  const Device* d = Device::of(p);
  if (!d && !common().find_pinned(p, 1)) return invalid_value;
  if (attribute == 9)
    *static_cast<int*>(value) = d ? d->number() : 0;
  else
    *static_cast<unsigned*>(value) = d ? 2 : 1;
  return success;
}
