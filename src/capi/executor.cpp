// capi/executor.cpp: executors, their memory and their statistics.
#include <cstring>
#include <limits>

#include "capi/streams.h"

using namespace hologram;
using namespace hologram::capi;

namespace {

ChosenBackend need_backend(const char* name) {
  ChosenBackend chosen = backend_of(name);
  if (!chosen.backend)
    fail(ErrorCode::unavailable, "backend \"{}\" is not available: this build has {}",
         lower_case(name), backend_names());
  return chosen;
}

// "cuda:1": what makes such an executor.
std::string name_of(const runtime::Runtime& runtime) {
  const Memory* memory = runtime.device();
  const int number = memory ? memory->device().id : 0;
  const std::string_view backend = runtime.backend().name();
  return number == 0 ? std::string(backend) : fmt::format("{}:{}", backend, number);
}

hologram_handle new_executor(const ChosenBackend& backend, bool automatic = false) {
  auto object = std::make_unique<ExecutorObject>();
  object->state = std::make_shared<ExecutorState>();
  object->state->operations = shared_operations(backend);
  object->state->memory = runtime::ExecutorMemory::create(object->state->device());
  if (automatic && !object->state->device()) {
    object->state->fallbacks = 1;
    capi::log("info",
              fmt::format("auto: the backend is {}; no accelerator was found", backend.name));
  }
  const hologram_handle handle = executors.reserve();
  object->state->handle = handle;
  executors.publish(handle, object.release());
  return handle;
}

hologram_handle allocate(hologram_handle executor, DType dtype, uint64_t length, uint32_t flags) {
  auto pin = need_executor(executor);
  const auto& state = pin->state;
  const uint64_t bytes = checked_bytes(length, dtype);
  bool zeroed = false;
  runtime::StorageRef storage =
      state->memory->allocate(static_cast<size_t>(bytes), (flags & HOLOGRAM_LINEAR) == 0, &zeroed);
  if ((flags & HOLOGRAM_UNINITIALIZED) == 0 && !zeroed) state->clear(storage->data(), bytes);
  return publish(buffers, make_buffer(state, dtype, length, std::move(storage)));
}

hologram_handle allocate_boundary(hologram_handle executor, DType dtype, uint8_t cls,
                                  uint32_t width, uint32_t height) {
  auto pin = need_executor(executor);
  const auto& state = pin->state;
  state->require_host_memory("a boundary class");
  require(cls < host::boundary_classes, "class_index must be 0…95, got {}", cls);
  require(width >= 1 && width <= host::boundary_pages, "width must be 1…48 pages, got {}", width);
  require(height >= 1 && height <= host::boundary_page_bytes,
          "height must be 1…256 bytes per page, got {}", height);
  const uint64_t bytes = uint64_t{width} * height, size = static_cast<uint64_t>(size_of(dtype));
  require(bytes >= size, "{} bytes hold no element of {}", bytes, name_of(dtype));
  runtime::StorageRef storage = state->memory->allocate_class(cls, bytes / size * size);
  if (!storage) fail(busy, "class {} is taken", cls);
  std::memset(storage->data(), 0, bytes);
  return publish(buffers, make_buffer(state, dtype, bytes / size, std::move(storage)));
}

hologram_handle wrap(hologram_handle executor, DType dtype, void* data, uint64_t length,
                     void (*release)(void*), void* context, uint8_t* copied) {
  auto pin = need_executor(executor);
  const auto& state = pin->state;
  const uint64_t bytes = checked_bytes(length, dtype);
  require(data != nullptr || length == 0, "data must not be NULL");
  const bool aligned =
      reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_of(dtype)) == 0;
  if (aligned && data && !state->device()) {
    runtime::StorageRef storage = state->memory->wrap(data, bytes, release, context);
    runtime::StorageRef guard = storage;
    try {
      const hologram_handle handle =
          publish(buffers, make_buffer(state, dtype, length, std::move(storage)));
      if (copied) *copied = 0;
      return handle;
    } catch (...) {
      guard->disarm();
      throw;
    }
  }
  runtime::StorageRef storage = state->memory->allocate(bytes);
  state->copy(storage->data(), data, bytes);
  state->bytes_in.add(bytes);
  const hologram_handle handle =
      publish(buffers, make_buffer(state, dtype, length, std::move(storage)));
  if (copied) *copied = 1;
  if (release) release(context);
  return handle;
}

hologram_statistics statistics_of(const ExecutorState& state) {
  hologram_statistics s{};
  runtime::ExecutorMemory& memory = *state.memory;
  const host::MemoryPool::Stats pool = memory.linear().stats();
  const runtime::KernelCache::Stats kernels = state.operations->runtime().kernels().stats();
  s.struct_size = sizeof s;
  s.buffers = state.buffers.load(std::memory_order_relaxed);
  s.tensors = state.tensors.load(std::memory_order_relaxed);
  s.boundary_classes_busy =
      static_cast<uint64_t>(host::boundary_classes - memory.boundary().free_classes());
  s.linear_bytes = memory.linear_bytes();
  s.linear_peak = memory.linear_peak();
  s.linear_cached = pool.cached;
  s.linear_reused = pool.hits;
  s.linear_mapped = pool.misses;
  s.memory_limit = memory.limit();
  s.kernel_calls = state.kernel_calls.value();
  s.builtin_kernels = kernels.builtin;
  s.compiled_kernels = kernels.misses;
  s.interpreted_calls = state.operations->runtime().backend().interprets() ? s.kernel_calls : 0;
  s.bytes_copied_in = state.bytes_in.value();
  s.bytes_copied_out = state.bytes_out.value();
  s.fallbacks = state.fallbacks;
  const runtime::CompiledBytes compiled = state.operations->runtime().compiled_bytes();
  s.code_bytes = compiled.code;
  s.code_cached = compiled.code_cached;
  s.plan_bytes = compiled.plans;
  for (const auto& [name, count] : state.operations->runtime().backend().counts())
    if (name == "host_runs") s.host_runs = count;
  return s;
}

}  // namespace

extern "C" {

hologram_status hologram_new_executor(hologram_handle* executor) {
  return guarded(__func__, [&] {
    require_out(executor, "executor");
    *executor = new_executor(need_backend("cpu"));
  });
}

hologram_status hologram_new_executor_with_backend(const char* backend, hologram_handle* executor) {
  return guarded(__func__, [&] {
    require_out(executor, "executor");
    *executor = new_executor(need_backend(backend), lower_case(backend) == "auto");
  });
}

hologram_status hologram_new_executor_auto(hologram_handle* executor) {
  return guarded(__func__, [&] {
    require_out(executor, "executor");
    *executor = new_executor(need_backend("auto"), true);
  });
}

hologram_status hologram_executor_cleanup(hologram_handle executor) {
  return guarded(__func__, [&] {
    auto pin = need_executor(executor);
    const auto state = pin->state;
    if (!executors.remove(executor)) report_handle(executors, executor, "executor");
    for (hologram_handle member : state->close()) {
      for (HandleTable* table : {&streams, &events, &buffers, &tensors, &executables})
        if (HandleTable::kind_of(member) == table->kind()) table->remove(member);
    }
  });
}

hologram_status hologram_executor_backend(hologram_handle executor, char* text, size_t capacity,
                                          size_t* needed) {
  return guarded(__func__, [&] {
    auto pin = need_executor(executor);
    give_text(name_of(pin->state->operations->runtime()), text, capacity, needed);
  });
}

hologram_status hologram_synchronize(hologram_handle executor) {
  return guarded(__func__, [&] {
    auto pin = need_executor(executor);
    if (Memory* device = pin->state->device()) device->wait_for_all();
  });
}

hologram_status hologram_executor_allocate_buffer(hologram_handle executor, uint32_t length,
                                                  hologram_handle* buffer) {
  return guarded(__func__, [&] {
    require_out(buffer, "buffer");
    *buffer = allocate(executor, DType::f32, length, 0);
  });
}

hologram_status hologram_executor_allocate_buffer_u64(hologram_handle executor, uint64_t length,
                                                      hologram_handle* buffer) {
  return guarded(__func__, [&] {
    require_out(buffer, "buffer");
    *buffer = allocate(executor, DType::f32, length, 0);
  });
}

hologram_status hologram_executor_allocate(hologram_handle executor, hologram_dtype dtype,
                                           uint64_t length, uint32_t flags,
                                           hologram_handle* buffer) {
  return guarded(__func__, [&] {
    require_out(buffer, "buffer");
    require((flags & ~(HOLOGRAM_UNINITIALIZED | HOLOGRAM_LINEAR)) == 0, "flags {:#x} are unknown",
            flags);
    *buffer = allocate(executor, checked_dtype(dtype), length, flags);
  });
}

hologram_status hologram_executor_allocate_boundary_buffer(hologram_handle executor,
                                                           uint8_t class_index, uint32_t width,
                                                           uint32_t height,
                                                           hologram_handle* buffer) {
  return guarded(__func__, [&] {
    require_out(buffer, "buffer");
    *buffer = allocate_boundary(executor, DType::f32, class_index, width, height);
  });
}

hologram_status hologram_executor_allocate_boundary(hologram_handle executor, hologram_dtype dtype,
                                                    uint8_t class_index, uint32_t width,
                                                    uint32_t height, hologram_handle* buffer) {
  return guarded(__func__, [&] {
    require_out(buffer, "buffer");
    *buffer = allocate_boundary(executor, checked_dtype(dtype), class_index, width, height);
  });
}

hologram_status hologram_executor_wrap(hologram_handle executor, hologram_dtype dtype, void* data,
                                       uint64_t length, void (*release)(void*), void* context,
                                       uint8_t* copied, hologram_handle* buffer) {
  return guarded(__func__, [&] {
    require_out(buffer, "buffer");
    *buffer = wrap(executor, checked_dtype(dtype), data, length, release, context, copied);
  });
}

hologram_status hologram_executor_set_memory_limit(hologram_handle executor, uint64_t bytes) {
  return guarded(__func__, [&] { need_executor(executor)->state->memory->set_limit(bytes); });
}

hologram_status hologram_executor_trim(hologram_handle executor, uint64_t* bytes) {
  return guarded(__func__, [&] {
    const size_t released = need_executor(executor)->state->memory->release();
    if (bytes) *bytes = released;
  });
}

hologram_status hologram_stats(hologram_handle executor, hologram_statistics* statistics) {
  return guarded(__func__, [&] {
    require_out(statistics, "statistics");
    const uint64_t size = statistics->struct_size;
    require(size >= sizeof(uint64_t) && size <= 1024 && size % sizeof(uint64_t) == 0,
            "struct_size must be sizeof(hologram_statistics), got {}", size);
    hologram_statistics s = statistics_of(*need_executor(executor)->state);
    s.struct_size = size;
    std::memcpy(statistics, &s, std::min<size_t>(size, sizeof s));
  });
}

hologram_status hologram_stats_json(hologram_handle executor, char* text, size_t capacity,
                                    size_t* needed) {
  return guarded(__func__, [&] {
    const hologram_statistics s = statistics_of(*need_executor(executor)->state);
    give_text(fmt::format(
                  "{{\"buffers\": {}, \"tensors\": {}, \"boundary_classes_busy\": {}, "
                  "\"linear_bytes\": {}, \"linear_peak\": {}, \"linear_cached\": {}, "
                  "\"linear_reused\": {}, \"linear_mapped\": {}, \"memory_limit\": {}, "
                  "\"kernel_calls\": {}, \"builtin_kernels\": {}, \"compiled_kernels\": {}, "
                  "\"interpreted_calls\": {}, \"bytes_copied_in\": {}, \"bytes_copied_out\": {}, "
                  "\"fallbacks\": {}, \"code_bytes\": {}, \"code_cached\": {}, "
                  "\"plan_bytes\": {}, \"host_runs\": {}}}",
                  s.buffers, s.tensors, s.boundary_classes_busy, s.linear_bytes, s.linear_peak,
                  s.linear_cached, s.linear_reused, s.linear_mapped, s.memory_limit, s.kernel_calls,
                  s.builtin_kernels, s.compiled_kernels, s.interpreted_calls, s.bytes_copied_in,
                  s.bytes_copied_out, s.fallbacks, s.code_bytes, s.code_cached, s.plan_bytes,
                  s.host_runs),
              text, capacity, needed);
  });
}

}  // extern "C"
