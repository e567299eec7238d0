// backend/cuda/memory.cpp: a GPU's memory and streams, by the driver's stream-ordered pool.
#include "backend/cuda/memory.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace hologram::cuda {
namespace {

CuPointer pointer(const void* p) { return reinterpret_cast<CuPointer>(p); }

CuStream cu(Stream stream) { return static_cast<CuStream>(stream); }

constexpr size_t ring_block = size_t{8} << 20;
constexpr size_t least_for_ring = size_t{1} << 20;  // fewer bytes are copied as they are

}  // namespace

// Two pinned blocks, which a copy of pageable memory passes through: the device takes one while the
// host fills the other.
class DeviceMemory::Ring {
 public:
  explicit Ring(DeviceMemory& memory) : memory_(memory) {
    try {
      for (size_t k = 0; k < 2; ++k) {
        blocks_[k] = static_cast<std::byte*>(memory.allocate_host(ring_block));
        events_[k] = memory.make_event();
      }
    } catch (...) {
      release();
      throw;
    }
  }
  ~Ring() { release(); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  void to_device(std::byte* to, const std::byte* from, size_t bytes, Stream stream) {
    for (size_t k = 0, done = 0, n; done < bytes; k ^= 1, done += n) {
      n = std::min(ring_block, bytes - done);
      wait(k);
      std::memcpy(blocks_[k], from + done, n);
      memory_.copy_later(to + done, blocks_[k], n, stream);
      memory_.record(events_[k], stream);
    }
  }
  void to_host(std::byte* to, const std::byte* from, size_t bytes, Stream stream) {
    auto begin = [&](size_t k, size_t at) {
      memory_.copy_later(blocks_[k], from + at, std::min(ring_block, bytes - at), stream);
      memory_.record(events_[k], stream);
    };
    begin(0, 0);
    for (size_t k = 0, done = 0; done < bytes; k ^= 1, done += ring_block) {
      if (done + ring_block < bytes) begin(k ^ 1, done + ring_block);
      wait(k);
      std::memcpy(to + done, blocks_[k], std::min(ring_block, bytes - done));
    }
  }

 private:
  void wait(size_t k) {
    const Current here(memory_.context_);
    memory_.context_.driver.require(
        memory_.context_.driver.wait_event(static_cast<CuEvent>(events_[k])), "copying memory");
  }
  void release() {
    for (size_t k = 0; k < 2; ++k) {
      memory_.free_event(events_[k]);
      memory_.deallocate_host(blocks_[k]);
    }
  }

  DeviceMemory& memory_;
  std::byte* blocks_[2] = {};
  Event events_[2] = {};
};

DeviceMemory::DeviceMemory(const DeviceContext& context) : context_(context) {}
DeviceMemory::~DeviceMemory() = default;

bool DeviceMemory::is_pageable(const void* address) const {
  unsigned kind = 0;
  return context_.driver.pointer_attribute(&kind, cu_pointer_memory_type, pointer(address)) !=
         cu_success;
}

// A ring whose copy failed is not used again: the device may still read it.
void DeviceMemory::copy_through_ring(std::byte* to, const std::byte* from, size_t bytes,
                                     bool to_device, Stream stream) {
  std::unique_ptr<Ring> ring;
  {
    std::lock_guard lock(mutex_);
    if (!rings_.empty()) {
      ring = std::move(rings_.back());
      rings_.pop_back();
    }
  }
  if (!ring) try {
      ring = std::make_unique<Ring>(*this);
    } catch (const Error&) {  // no memory to pin: the driver copies as it can
      copy_later(to, from, bytes, stream);
      return wait(stream);
    }
  try {
    to_device ? ring->to_device(to, from, bytes, stream) : ring->to_host(to, from, bytes, stream);
    wait(stream);
  } catch (...) {
    static_cast<void>(ring.release());
    throw;
  }
  std::lock_guard lock(mutex_);
  rings_.push_back(std::move(ring));
}

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

size_t DeviceMemory::release() noexcept {
  const Current here(context_, std::nothrow);
  if (!here.ok()) return 0;
  uint64_t before = 0, after = 0;
  const Driver& d = context_.driver;
  const bool done = d.ask_pool(context_.pool, cu_pool_reserved, &before) == cu_success &&
                    d.trim_pool(context_.pool, 0) == cu_success &&
                    d.ask_pool(context_.pool, cu_pool_reserved, &after) == cu_success;
  return done && after < before ? before - after : 0;
}

void DeviceMemory::copy(void* to, const void* from, size_t bytes, Stream stream) {
  const Current here(context_);
  if (bytes >= least_for_ring && is_pageable(to) != is_pageable(from))
    return copy_through_ring(static_cast<std::byte*>(to), static_cast<const std::byte*>(from),
                             bytes, is_pageable(from), stream);
  copy_later(to, from, bytes, stream);
  wait(stream);
}

void DeviceMemory::copy_later(void* to, const void* from, size_t bytes, Stream stream) {
  if (bytes == 0) return;
  const Current here(context_);
  context_.driver.require(context_.driver.copy(pointer(to), pointer(from), bytes, cu(stream)),
                          "copying memory");
}

bool DeviceMemory::fill_later(void* to, uint32_t element, size_t size, size_t bytes,
                              Stream stream) {
  const Current here(context_);
  const Driver& d = context_.driver;
  const auto byte = static_cast<unsigned char>(element);
  const auto half = static_cast<unsigned short>(element);
  const CuResult result = bytes == 0  ? cu_success
                          : size == 1 ? d.fill_bytes(pointer(to), byte, bytes, cu(stream))
                          : size == 2 ? d.fill_halves(pointer(to), half, bytes / 2, cu(stream))
                                      : d.fill_words(pointer(to), element, bytes / 4, cu(stream));
  context_.driver.require(result, "filling memory");
  return true;
}

void* DeviceMemory::allocate_host(size_t bytes) {
  const Current here(context_);
  void* block = nullptr;
  const CuResult result =
      context_.driver.host_allocate(&block, std::max<size_t>(bytes, 1), cu_host_portable_mapped);
  if (result == cu_out_of_memory)
    fail(ErrorCode::out_of_memory, "cuda: the system pins no {} bytes", bytes);
  context_.driver.require(result, "allocating pinned memory");
  return block;
}

void DeviceMemory::deallocate_host(void* block) noexcept {
  const Current here(context_, std::nothrow);
  if (block && here.ok()) context_.driver.host_free(block);
}

Event DeviceMemory::make_event() {
  const Current here(context_);
  CuEvent event = nullptr;
  context_.driver.require(context_.driver.make_event(&event, cu_event_no_timing),
                          "making an event");
  return event;
}

void DeviceMemory::free_event(Event event) noexcept {
  const Current here(context_, std::nothrow);
  if (event && here.ok()) context_.driver.free_event(static_cast<CuEvent>(event));
}

void DeviceMemory::record(Event event, Stream stream) {
  const Current here(context_);
  context_.driver.require(context_.driver.record(static_cast<CuEvent>(event), cu(stream)),
                          "recording an event");
}

void DeviceMemory::wait_for(Event event, Stream stream) {
  const Current here(context_);
  context_.driver.require(context_.driver.wait_for(cu(stream), static_cast<CuEvent>(event), 0),
                          "having a stream wait for an event");
}

bool DeviceMemory::reached(Event event) {
  const Current here(context_);
  const CuResult result = context_.driver.reached(static_cast<CuEvent>(event));
  if (result == cu_not_ready) return false;
  context_.driver.require(result, "asking for an event");
  return true;
}

// An answer that is none: another stream's capture forbids even the question.
bool DeviceMemory::captured(Stream stream) {
  const Current here(context_);
  int status = 0;
  return context_.driver.capture_status(cu(stream), &status) != cu_success || status != 0;
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
