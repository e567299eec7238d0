// runtime/storage.cpp: who gives which bytes back to whom.
#include "runtime/storage.h"

#include "base/error.h"

namespace hologram::runtime {

void Storage::destroy() noexcept {
  switch (pool_) {
    case Pool::linear:
      if (memory_->device_)
        memory_->device_->deallocate(data_, nullptr);
      else
        host::MemoryPool::deallocate(data_);
      memory_->live_.fetch_sub(bytes_, std::memory_order_relaxed);
      break;
    case Pool::boundary:
      memory_->boundary_.free(class_);
      break;
    case Pool::foreign:
      if (release_) release_(context_);
      break;
  }
  delete this;
}

std::shared_ptr<ExecutorMemory> ExecutorMemory::create(Memory* device) {
  return std::shared_ptr<ExecutorMemory>(new ExecutorMemory(device));
}

void ExecutorMemory::reserve(size_t bytes) {
  uint64_t live = live_.load(std::memory_order_relaxed);
  do {
    const uint64_t bound = limit();
    if (bytes > bound || live > bound - bytes)
      fail(ErrorCode::out_of_memory,
           "executor: {} bytes asked for with {} in use would exceed the memory limit of {}", bytes,
           live, bound);
  } while (!live_.compare_exchange_weak(live, live + bytes, std::memory_order_relaxed));
  live += bytes;
  uint64_t peak = peak_.load(std::memory_order_relaxed);
  while (live > peak && !peak_.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
}

StorageRef ExecutorMemory::allocate(size_t bytes, bool boundary, bool* zeroed) {
  if (zeroed) *zeroed = false;
  struct Deleter {
    void operator()(Storage* s) const { delete s; }
  };
  std::unique_ptr<Storage, Deleter> storage(new Storage());
  storage->bytes_ = bytes;
  if (boundary && !device_ && bytes != 0 && bytes <= host::boundary_class_bytes) {
    if (auto cls = boundary_.allocate()) {
      storage->pool_ = Pool::boundary;
      storage->class_ = *cls;
      storage->data_ = boundary_.data(*cls);
    }
  }
  if (!storage->data_) {
    reserve(bytes);
    try {
      storage->data_ = static_cast<std::byte*>(device_ ? device_->allocate(bytes, nullptr)
                                                       : linear_.allocate(bytes, zeroed));
      if (device_) device_->wait(nullptr);  // other streams may use it from now on
    } catch (...) {
      live_.fetch_sub(bytes, std::memory_order_relaxed);
      throw;
    }
  }
  storage->memory_ = shared_from_this();
  return StorageRef(storage.release());
}

StorageRef ExecutorMemory::allocate_class(int cls, size_t bytes) {
  require(bytes <= host::boundary_class_bytes, "a boundary class holds {} bytes, {} asked for",
          host::boundary_class_bytes, bytes);
  auto* storage = new Storage();
  bool taken = false;
  try {
    taken = boundary_.allocate_class(cls);
  } catch (...) {
    delete storage;
    throw;
  }
  if (!taken) {
    delete storage;
    return {};
  }
  storage->pool_ = Pool::boundary;
  storage->class_ = cls;
  storage->data_ = boundary_.data(cls);
  storage->bytes_ = bytes;
  storage->memory_ = shared_from_this();
  return StorageRef(storage);
}

StorageRef ExecutorMemory::wrap(void* data, size_t bytes, void (*release)(void*), void* context) {
  auto* storage = new Storage();
  storage->pool_ = Pool::foreign;
  storage->data_ = static_cast<std::byte*>(data);
  storage->bytes_ = bytes;
  storage->memory_ = shared_from_this();
  storage->release_ = release;
  storage->context_ = context;
  return StorageRef(storage);
}

}  // namespace hologram::runtime
