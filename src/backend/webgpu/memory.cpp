// backend/webgpu/memory.cpp: blocks, and copies into and out of them.
#include "backend/webgpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/error.h"

namespace hologram::webgpu {
namespace {

constexpr size_t space = size_t{1} << 40;  // of addresses
constexpr uint64_t block_use = storage_use | copy_source | copy_target;
constexpr uint64_t mapped_use = block_use | map_read | map_write;

char* reserve() {
  void* p = mmap(nullptr, space, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    fail(ErrorCode::unavailable, "webgpu: the system refuses {} bytes of addresses", space);
  return static_cast<char*>(p);
}

// A buffer for the time of a copy.
class Passing {
 public:
  Passing(const DeviceContext& context, uint64_t bytes, uint64_t usage)
      : context_(context), buffer_(context.make_buffer(bytes, usage)) {}
  ~Passing() { context_.api.BufferRelease(buffer_); }
  Passing(const Passing&) = delete;
  Passing& operator=(const Passing&) = delete;
  Buffer get() const { return buffer_; }

 private:
  const DeviceContext& context_;
  Buffer buffer_;
};

}  // namespace

DeviceMemory::DeviceMemory(const DeviceContext& context)
    : context_(context),
      reserved_(reserve()),
      addresses_(reserved_, space, [&context](Buffer b) { context.api.BufferRelease(b); }) {}

DeviceMemory::~DeviceMemory() { munmap(reserved_, space); }

uint64_t DeviceMemory::capacity() const { return context_.limits.buffer_bytes; }

Stream DeviceMemory::make_stream() { return new char; }
void DeviceMemory::free_stream(Stream stream) noexcept { delete static_cast<char*>(stream); }

void* DeviceMemory::allocate(size_t bytes, Stream) {
  return addresses_.allocate(bytes, [&](size_t whole) {
    return context_.make_buffer(whole, context_.unified ? mapped_use : block_use);
  });
}

// Of unified memory, and of a block that nothing under way needs where that is written: the bytes
// are copied once. False: they were not.
bool DeviceMemory::copy_mapped(const void* block, size_t bytes, uint64_t mode,
                               const std::function<void(char*)>& copy) {
  if (!context_.unified) return false;
  const Place place = place_of(block);
  const uint64_t begin = place.offset / 8 * 8, end = (place.offset + bytes + 3) / 4 * 4;
  return context_.map(place.buffer, mode, begin, end, mode == map_read,
                      [&](void* at) { copy(static_cast<char*>(at) + (place.offset - begin)); });
}

// Copies are of whole words: what a block's first and last ones hold beside the bytes is read
// before.
void DeviceMemory::write(void* to, const void* from, size_t bytes) {
  if (copy_mapped(to, bytes, map_write, [&](char* at) { std::memcpy(at, from, bytes); })) return;
  const Place place = place_of(to);
  const uint64_t begin = place.offset / 4 * 4, end = (place.offset + bytes + 3) / 4 * 4;
  if (begin == place.offset && end == place.offset + bytes) {
    staged_.fetch_add(bytes, std::memory_order_relaxed);
    context_.write(place.buffer, begin, from, bytes);
    return;
  }
  std::vector<std::byte> words(end - begin);
  auto* first = static_cast<char*>(to) - (place.offset - begin);
  read(words.data(), first, words.size());
  std::memcpy(words.data() + (place.offset - begin), from, bytes);
  write(first, words.data(), words.size());
}

void DeviceMemory::read(void* to, const void* from, size_t bytes) {
  if (copy_mapped(from, bytes, map_read, [&](char* at) { std::memcpy(to, at, bytes); })) return;
  staged_.fetch_add(bytes, std::memory_order_relaxed);
  const Place place = place_of(from);
  const uint64_t begin = place.offset / 4 * 4, end = (place.offset + bytes + 3) / 4 * 4;
  const Passing staging(context_, end - begin, map_read | copy_target);
  context_.submit([&](Encoder e) {
    context_.api.CommandEncoderCopyBufferToBuffer(e, place.buffer, begin, staging.get(), 0,
                                                  end - begin);
  });
  context_.map(staging.get(), map_read, 0, end - begin, true, [&](void* at) {
    std::memcpy(to, static_cast<char*>(at) + (place.offset - begin), bytes);
  });
}

// Through a buffer between them, as one may not be copied to itself.
void DeviceMemory::move(void* to, const void* from, size_t bytes) {
  const Place source = place_of(from), target = place_of(to);
  if (source.offset % 4 != 0 || target.offset % 4 != 0 || bytes % 4 != 0) {
    std::vector<std::byte> words(bytes);
    read(words.data(), from, bytes);
    write(to, words.data(), bytes);
    return;
  }
  const bool apart = source.buffer != target.buffer;
  const Passing between(context_, apart ? 4 : bytes, copy_source | copy_target);
  context_.submit([&](Encoder e) {
    const Api& api = context_.api;
    if (apart) {
      api.CommandEncoderCopyBufferToBuffer(e, source.buffer, source.offset, target.buffer,
                                           target.offset, bytes);
      return;
    }
    api.CommandEncoderCopyBufferToBuffer(e, source.buffer, source.offset, between.get(), 0, bytes);
    api.CommandEncoderCopyBufferToBuffer(e, between.get(), 0, target.buffer, target.offset, bytes);
  });
}

void DeviceMemory::copy(void* to, const void* from, size_t bytes, Stream) {
  context_.tell_faults();
  if (bytes == 0) return;
  const bool there = contains(to), here = contains(from);
  if (there && !here) uploaded_.fetch_add(bytes, std::memory_order_relaxed);
  if (there && here)
    move(to, from, bytes);
  else if (there)
    write(to, from, bytes);
  else if (here)
    read(to, from, bytes);
  else
    std::memmove(to, from, bytes);
}

void DeviceMemory::copy_later(void* to, const void* from, size_t bytes, Stream stream) {
  copy(to, from, bytes, stream);
}

void DeviceMemory::wait(Stream) {
  context_.wait();
  context_.tell_faults();
}

void* DeviceMemory::allocate_host(size_t bytes) {
  return ::operator new (std::max<size_t>(bytes, 1), std::align_val_t{64});
}
void DeviceMemory::deallocate_host(void* block) noexcept {
  ::operator delete (block, std::align_val_t{64});
}

// One queue: whatever waits for a mark is behind it already.
Event DeviceMemory::make_event() { return new char; }
void DeviceMemory::free_event(Event event) noexcept { delete static_cast<char*>(event); }
void DeviceMemory::record(Event, Stream) {}
void DeviceMemory::wait_for(Event, Stream) {}
bool DeviceMemory::reached(Event) {
  context_.wait();
  return true;
}

}  // namespace hologram::webgpu
