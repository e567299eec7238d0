// python/_core/device_memory.cpp: memory of the device by address.
#include "device_memory.h"

#include <map>
#include <mutex>

#include "host/memory_pool.h"

namespace hologram::python {
namespace {

// Tensors end on any thread, with or without the GIL, and after statics do.
struct Known {
  std::mutex mutex;
  std::map<const char*, DeviceMemory*> by_begin;

  static Known& of_process() {
    static Known& known = *new Known;
    return known;
  }
};

}  // namespace

std::shared_ptr<DeviceMemory> DeviceMemory::of_block(void* block) {
  std::shared_ptr<DeviceMemory> made(new DeviceMemory(block, host::MemoryPool::capacity(block)));
  made->block_ = block;
  made->enter();
  return made;
}

std::shared_ptr<DeviceMemory> DeviceMemory::of_tensor(dlpack::ManagedTensor* tensor, size_t bytes) {
  if (bytes == 0) return nullptr;
  std::shared_ptr<DeviceMemory> made(new DeviceMemory(
      static_cast<char*>(tensor->tensor.data) + tensor->tensor.byte_offset, bytes));
  if (!made->enter()) return nullptr;
  made->tensor_ = tensor;
  return made;
}

// False where it has bytes in common with another one.
bool DeviceMemory::enter() {
  Known& known = Known::of_process();
  std::lock_guard lock(known.mutex);
  auto next = known.by_begin.lower_bound(begin_);
  if (next != known.by_begin.end() && next->first < begin_ + bytes_) return false;
  if (next != known.by_begin.begin()) {
    const DeviceMemory& before = *std::prev(next)->second;
    if (before.begin_ + before.bytes_ > begin_) return false;
  }
  known.by_begin.emplace_hint(next, begin_, this);
  return known_ = true;
}

std::shared_ptr<DeviceMemory> DeviceMemory::find(const void* address) {
  const char* a = static_cast<const char*>(address);
  Known& known = Known::of_process();
  std::lock_guard lock(known.mutex);
  auto next = known.by_begin.upper_bound(a);
  if (next == known.by_begin.begin()) return nullptr;
  DeviceMemory& found = *std::prev(next)->second;
  if (a >= found.begin_ + found.bytes_) return nullptr;
  return found.weak_from_this().lock();  // null: its last holder is letting go of it
}

DeviceMemory::~DeviceMemory() {
  if (known_) {
    Known& known = Known::of_process();
    std::lock_guard lock(known.mutex);
    known.by_begin.erase(begin_);
  }
  host::MemoryPool::deallocate(block_);
  if (tensor_) tensor_->deleter(tensor_);
}

}  // namespace hologram::python
