// capi/place.cpp: operations on executors and on streams.
#include "capi/place.h"

namespace hologram::capi {

Place::Place(hologram_handle handle) {
  if (HandleTable::kind_of(handle) == Kind::stream) {
    stream_ = need_stream(handle);
    executor_ = stream_->executor;
  } else {
    executor_ = need_executor(handle)->state;
  }
}

Pin<BufferObject> Place::buffer(hologram_handle handle, std::string_view argument) const {
  return need_buffer_of(executor_->handle, handle, argument);
}

void Place::run(const std::shared_ptr<runtime::Executable>& operation, void* const* inputs,
                const int64_t* symbols, void* const* outputs, Uses uses) const {
  runtime::Operations& operations = *executor_->operations;
  if (stream_)
    stream_->run(std::move(uses), operation, [&](std::atomic<int32_t>* faults) {
      operations.run(*operation, inputs, symbols, outputs, stream_->late(faults));
    });
  else
    operations.run(*operation, inputs, symbols, outputs);
  executor_->kernel_calls.add(operation->plan().steps.size());
}

void Place::run(const runtime::DirectKernel& kernel, void* const* arguments, uint64_t length,
                Uses uses) const {
  runtime::Operations& operations = *executor_->operations;
  const auto n = static_cast<int64_t>(length);
  if (stream_)
    stream_->run(std::move(uses), kernel.owner, [&](std::atomic<int32_t>* faults) {
      faults->fetch_or(operations.run(kernel, arguments, n, stream_->late(faults)),
                       std::memory_order_relaxed);
    });
  else
    runtime::raise_faults(operations.run(kernel, arguments, n));
  executor_->kernel_calls.add(1);
}

void Place::put(const runtime::StorageRef& storage, void* to, const void* from,
                size_t bytes) const {
  stream_ ? stream_->put(storage, to, from, bytes) : executor_->copy(to, from, bytes);
}

void Place::move(void* to, const void* from, size_t bytes, Uses uses) const {
  Memory* device = executor_->device();
  if (!stream_ || !device) return executor_->copy(to, from, bytes);
  stream_->run(std::move(uses), nullptr, [&](std::atomic<int32_t>*) {
    device->copy_later(to, from, bytes, stream_->queue());
  });
}

runtime::StorageRef Place::number(const void* value, size_t bytes) const {
  if (!stream_ || !executor_->device()) return {};
  runtime::StorageRef there = executor_->memory->allocate(bytes);
  stream_->put(there, there->data(), value, bytes);
  return there;
}

}  // namespace hologram::capi
