// backend/null/device.cpp: blocks, and work on them.
#include "backend/null/device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/error.h"
#include "host/memory_pool.h"

namespace hologram::null {
namespace {

constexpr size_t space = size_t{1} << 36;  // of addresses; memory is taken as it is touched
constexpr size_t alignment = 64;
constexpr size_t overwritten = size_t{1} << 20;  // larger blocks go back to the system instead
constexpr char freed_byte = static_cast<char>(0xcb);

char* map(int protection) {
  void* p = mmap(nullptr, space, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<char*>(p);
}

void require_success(int32_t status) {
  if (status != 0)
    fail(static_cast<ErrorCode>(status), "null: a kernel failed with status {}", status);
}

}  // namespace

FakeDevice& FakeDevice::instance() {
  static auto* const device = new FakeDevice;
  return *device;
}

uint64_t FakeDevice::capacity() const {
  return std::min<uint64_t>(space, host::MemoryPool::usable_memory());
}

FakeDevice::FakeDevice() : addresses_(map(PROT_NONE)), bytes_(map(PROT_READ | PROT_WRITE)) {
  if (!addresses_ || !bytes_)
    fail(ErrorCode::unavailable, "null: the system refuses {} bytes of addresses", space);
  free_.add(0, space);
}

bool FakeDevice::contains(const void* address) const {
  const auto* p = static_cast<const char*>(address);
  return p >= addresses_ && p < addresses_ + space;
}

void* FakeDevice::bytes_of(void* address) const {
  return contains(address) ? bytes_ + (static_cast<char*>(address) - addresses_) : address;
}

Stream FakeDevice::make_stream() { return queues_.make(); }

void FakeDevice::free_stream(Stream stream) noexcept {
  if (stream) queues_.free(queue(stream));
}

void* FakeDevice::allocate(size_t bytes, Stream) {
  const size_t size = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  std::lock_guard lock(mutex_);
  if (const auto offset = free_.take(size)) {
    used_[*offset] = size;
    return addresses_ + *offset;
  }
  fail(ErrorCode::out_of_memory, "null: no room for {} bytes", bytes);
}

void FakeDevice::deallocate(void* block, Stream stream) noexcept {
  if (!block) return;
  const auto offset = static_cast<size_t>(static_cast<char*>(block) - addresses_);
  queues_.push(
      queue(stream),
      [this, offset] {
        give_back(offset);
        return 0;
      },
      true);
}

// Overwrites a block and joins it with its free neighbours.
void FakeDevice::give_back(size_t offset) noexcept {
  size_t size;
  {
    std::lock_guard lock(mutex_);
    size = used_.at(offset);
  }
  if (size <= overwritten)
    std::memset(bytes_ + offset, freed_byte, size);
  else
    madvise(bytes_ + (offset + 4095) / 4096 * 4096, size - 4096, MADV_DONTNEED);
  std::lock_guard lock(mutex_);
  used_.erase(offset);
  free_.add(offset, size);
}

void FakeDevice::enqueue(Stream stream, std::function<int32_t()> work) {
  queues_.push(queue(stream), std::move(work), false);
}

void* FakeDevice::allocate_host(size_t bytes) {
  return ::operator new (std::max<size_t>(bytes, 1), std::align_val_t{alignment});
}

void FakeDevice::deallocate_host(void* block) noexcept {
  ::operator delete (block, std::align_val_t{alignment});
}

void FakeDevice::record(Event event, Stream stream) {
  static_cast<LateEvent*>(event)->record(queues_, queue(stream));
}

void FakeDevice::wait_for(Event event, Stream stream) {
  static_cast<LateEvent*>(event)->hold_up(queues_, queue(stream));
}

void FakeDevice::copy(void* to, const void* from, size_t bytes, Stream stream) {
  copy_later(to, from, bytes, stream);
  wait(stream);
}

void FakeDevice::copy_later(void* to, const void* from, size_t bytes, Stream stream) {
  void* target = bytes_of(to);
  const void* source = bytes_of(const_cast<void*>(from));
  enqueue(stream, [=] {
    if (bytes) std::memmove(target, source, bytes);
    return 0;
  });
}

void FakeDevice::wait(Stream stream) { require_success(queues_.wait(queue(stream))); }

void FakeDevice::wait_for_all() { require_success(queues_.wait_for_all()); }

}  // namespace hologram::null
