// capi/buffer.cpp: buffers: properties, copies, views.
#include <cstring>

#include "capi/json.h"
#include "capi/objects.h"
#include "ir/scalar.h"

using namespace hologram;
using namespace hologram::capi;

namespace {

template <class T, class Get>
hologram_status buffer_property(const char* function, hologram_handle buffer, T* out,
                                const Get& get) {
  return guarded(function, [&] {
    require_out(out, "the result");
    *out = static_cast<T>(get(*need_buffer(buffer)));
  });
}

void require_length(const BufferObject& buffer, uint64_t length) {
  require(length <= buffer.length, "length {} exceeds the buffer's {}", length, buffer.length);
}

void copy_from_json(hologram_handle executor, hologram_handle handle, const char* json,
                    bool canonical) {
  auto buffer = need_buffer_of(executor, handle);
  require(json != nullptr, "json must not be NULL");
  // Parsed aside, so that an error leaves the buffer as it was.
  std::vector<std::byte> elements(buffer->bytes());
  parse_elements(json, buffer->dtype, buffer->length, elements.data());
  if (canonical)
    for (std::byte& b : elements) b &= std::byte{0xfe};
  buffer->executor->copy(buffer->data, elements.data(), elements.size());
  buffer->executor->bytes_in.add(elements.size());
}

void to_json(hologram_handle executor, hologram_handle handle, char* json, size_t capacity,
             size_t* needed) {
  auto buffer = need_buffer_of(executor, handle);
  const HostCopy visible(*buffer->executor, buffer->data, buffer->bytes());
  const std::string text = write_elements(buffer->dtype, buffer->length, visible.data());
  give_text(text, json, capacity, needed);
  if (json) buffer->executor->bytes_out.add(buffer->bytes());
}

/// An operation on the buffer's bytes, where they are.
void run_over_bytes(const BufferObject& buffer, const char* key,
                    const std::function<void(ir::Graph&)>& build, std::byte* out) {
  if (buffer.bytes() == 0) return;
  ExecutorState& state = *buffer.executor;
  const auto e = state.operations->executable(key, build);
  void* const inputs[] = {buffer.data};
  void* const outputs[] = {out};
  const auto n = static_cast<int64_t>(buffer.bytes());
  state.operations->run(*e, inputs, &n, outputs);
  state.kernel_calls.add(e->plan().steps.size());
}

/// Runs body(begin, end) over [0, bytes) in pieces of a multiple of 64 bytes, on several threads
/// when there is enough to do.
template <class Body>
void side_by_side(const BufferObject& buffer, uint64_t bytes, const Body& body) {
  constexpr int64_t piece = 256 << 10;
  buffer.executor->operations->runtime().threads().for_ranges(
      static_cast<int64_t>(bytes), piece, [&](int64_t begin, int64_t end) -> int32_t {
        body(static_cast<size_t>(begin), static_cast<size_t>(end));
        return 0;
      });
}

std::byte* address(hologram_handle executor, hologram_handle handle) {
  auto buffer = need_buffer_of(executor, handle);
  buffer->executor->require_host_memory("the buffer's address");
  return buffer->data;
}

void fill(const BufferObject& buffer, const void* element, uint64_t length) {
  require_length(buffer, length);
  const auto size = static_cast<size_t>(size_of(buffer.dtype));
  if (buffer.executor->device())
    return buffer.executor->repeat(buffer.data, length * size, element, size);
  alignas(64) std::byte pattern[4096];
  for (size_t i = 0; i < sizeof pattern; i += size) std::memcpy(pattern + i, element, size);
  side_by_side(buffer, length * size, [&](size_t begin, size_t end) {
    for (size_t n; begin < end; begin += n) {
      n = std::min(end - begin, sizeof pattern);
      std::memcpy(buffer.data + begin, pattern, n);
    }
  });
}

void copy(hologram_handle executor, hologram_handle source, hologram_handle destination,
          uint64_t length) {
  auto from = need_buffer(source);  // of any executor
  auto to = need_buffer_of(executor, destination, "destination");
  require(from->dtype == to->dtype, "the dtypes differ: {} and {}", name_of(from->dtype),
          name_of(to->dtype));
  require_length(*from, length);
  require_length(*to, length);
  const uint64_t bytes = length * static_cast<uint64_t>(size_of(to->dtype));
  const bool apart = from->data + bytes <= to->data || to->data + bytes <= from->data;
  Memory *there = from->executor->device(), *here = to->executor->device();
  if (there && here && there != here) {  // between devices by way of the host
    const HostCopy visible(*from->executor, from->data, bytes);
    return to->executor->copy(to->data, visible.data(), bytes);
  }
  if (there && !here) return from->executor->copy(to->data, from->data, bytes);
  if (here) {
    if (apart) {
      to->executor->copy(to->data, from->data, bytes);
    } else {
      const runtime::StorageRef aside = to->executor->memory->allocate(bytes);
      to->executor->copy(aside->data(), from->data, bytes);
      to->executor->copy(to->data, aside->data(), bytes);
    }
    return;
  }
  if (!apart) {
    std::memmove(to->data, from->data, bytes);
    return;
  }
  side_by_side(*to, bytes, [&](size_t begin, size_t end) {
    std::memcpy(to->data + begin, from->data + begin, end - begin);
  });
}

void resize(hologram_handle executor, hologram_handle handle, uint64_t length) {
  auto buffer = need_buffer_of(executor, handle);
  const uint64_t bytes = checked_bytes(length, buffer->dtype);
  if (!buffers.lock(buffer.slot())) fail(busy, "another call uses the buffer");
  struct Unlock {
    Slot* slot;
    ~Unlock() { buffers.unlock(slot); }
  } unlock{buffer.slot()};
  BufferObject& b = *buffer;
  if (b.storage->pool() == runtime::Pool::foreign)
    fail(busy, "the buffer shows memory of the caller's, which cannot be resized");
  if (b.slice || !b.storage.get()->unique())
    fail(busy, "a view, a slice or a tensor still uses the buffer's storage");
  if (bytes == b.bytes()) return;
  const uint64_t kept = std::min(bytes, b.bytes());
  bool zeroed = false;
  runtime::StorageRef fresh = b.executor->memory->allocate(bytes, true, &zeroed);
  b.executor->copy(fresh->data(), b.data, kept);
  if (!zeroed) b.executor->clear(fresh->data() + kept, bytes - kept);
  b.storage = std::move(fresh);
  b.data = b.storage->data();
  b.length = length;
}

}  // namespace

extern "C" {

hologram_status hologram_buffer_length(hologram_handle buffer, uint32_t* length) {
  return buffer_property(__func__, buffer, length,
                         [](const BufferObject& b) { return checked_u32(b.length, "length"); });
}
hologram_status hologram_buffer_length_u64(hologram_handle buffer, uint64_t* length) {
  return buffer_property(__func__, buffer, length, [](const BufferObject& b) { return b.length; });
}
hologram_status hologram_buffer_size_bytes(hologram_handle buffer, uint32_t* bytes) {
  return buffer_property(__func__, buffer, bytes,
                         [](const BufferObject& b) { return checked_u32(b.bytes(), "size"); });
}
hologram_status hologram_buffer_size_bytes_u64(hologram_handle buffer, uint64_t* bytes) {
  return buffer_property(__func__, buffer, bytes, [](const BufferObject& b) { return b.bytes(); });
}
hologram_status hologram_buffer_element_size(hologram_handle buffer, uint32_t* bytes) {
  return buffer_property(__func__, buffer, bytes,
                         [](const BufferObject& b) { return size_of(b.dtype); });
}
hologram_status hologram_buffer_dtype(hologram_handle buffer, hologram_dtype* dtype) {
  return buffer_property(__func__, buffer, dtype, [](const BufferObject& b) { return b.dtype; });
}
hologram_status hologram_buffer_executor(hologram_handle buffer, hologram_handle* executor) {
  return buffer_property(__func__, buffer, executor,
                         [](const BufferObject& b) { return b.executor_handle(); });
}
hologram_status hologram_buffer_is_empty(hologram_handle buffer, uint8_t* yes) {
  return buffer_property(__func__, buffer, yes,
                         [](const BufferObject& b) { return b.length == 0; });
}
hologram_status hologram_buffer_is_linear(hologram_handle buffer, uint8_t* yes) {
  return buffer_property(__func__, buffer, yes, [](const BufferObject& b) {
    return b.storage->pool() == runtime::Pool::linear;
  });
}
hologram_status hologram_buffer_is_boundary(hologram_handle buffer, uint8_t* yes) {
  return buffer_property(__func__, buffer, yes, [](const BufferObject& b) {
    return b.storage->pool() == runtime::Pool::boundary;
  });
}
hologram_status hologram_buffer_pool(hologram_handle buffer, char* text, size_t capacity,
                                     size_t* needed) {
  return guarded(__func__, [&] {
    constexpr const char* names[] = {"linear", "boundary", "foreign"};
    give_text(names[static_cast<size_t>(need_buffer(buffer)->storage->pool())], text, capacity,
              needed);
  });
}
hologram_status hologram_buffer_class_index(hologram_handle buffer, uint8_t* class_index) {
  return buffer_property(__func__, buffer, class_index, [](const BufferObject& b) {
    require(b.storage->class_index() >= 0, "the buffer is not in the boundary pool");
    return b.storage->class_index();
  });
}

hologram_status hologram_buffer_copy_from_slice(hologram_handle executor, hologram_handle buffer,
                                                const char* json) {
  return guarded(__func__, [&] { copy_from_json(executor, buffer, json, false); });
}
hologram_status hologram_buffer_to_vec(hologram_handle executor, hologram_handle buffer, char* json,
                                       size_t capacity, size_t* needed) {
  return guarded(__func__, [&] { to_json(executor, buffer, json, capacity, needed); });
}
hologram_status hologram_buffer_copy_to_slice(hologram_handle executor, hologram_handle buffer,
                                              char* json, size_t capacity, size_t* needed) {
  return guarded(__func__, [&] { to_json(executor, buffer, json, capacity, needed); });
}

hologram_status hologram_buffer_copy_from_bytes(hologram_handle executor, hologram_handle buffer,
                                                const void* bytes, size_t size) {
  return guarded(__func__, [&] {
    auto b = need_buffer_of(executor, buffer);
    require(bytes != nullptr || size == 0, "bytes must not be NULL");
    require(size == b->bytes(), "size must be {} (the buffer's), got {}", b->bytes(), size);
    b->executor->copy(b->data, bytes, size);
    b->executor->bytes_in.add(size);
  });
}
hologram_status hologram_buffer_to_bytes(hologram_handle executor, hologram_handle buffer,
                                         void* bytes, size_t capacity, size_t* needed) {
  return guarded(__func__, [&] {
    auto b = need_buffer_of(executor, buffer);
    if (!has_room(b->bytes(), bytes, capacity, needed)) return;
    b->executor->copy(bytes, b->data, b->bytes());
    b->executor->bytes_out.add(b->bytes());
  });
}
hologram_status hologram_buffer_as_ptr(hologram_handle executor, hologram_handle buffer,
                                       const void** pointer) {
  return guarded(__func__, [&] {
    require_out(pointer, "pointer");
    *pointer = address(executor, buffer);
  });
}
hologram_status hologram_buffer_as_mut_ptr(hologram_handle executor, hologram_handle buffer,
                                           void** pointer) {
  return guarded(__func__, [&] {
    require_out(pointer, "pointer");
    *pointer = address(executor, buffer);
  });
}
hologram_status hologram_buffer_device_ptr(hologram_handle executor, hologram_handle buffer,
                                           void** pointer) {
  return guarded(__func__, [&] {
    require_out(pointer, "pointer");
    auto b = need_buffer_of(executor, buffer);
    if (!b->executor->device())
      fail(ErrorCode::unsupported,
           "the buffer is in host memory: hologram_buffer_as_ptr tells where");
    *pointer = b->data;
  });
}
hologram_status hologram_buffer_fill(hologram_handle executor, hologram_handle buffer, float value,
                                     uint32_t length) {
  return guarded(__func__, [&] {
    auto b = need_buffer_of(executor, buffer);
    // From float by the conversion of the op table: integers truncate and saturate.
    const uint64_t from[] = {ir::bits_of(DType::f32, value)};
    const uint64_t bits = ir::eval_scalar(ir::Op::cast, DType::f32, from, b->dtype);
    fill(*b, &bits, length);
  });
}
hologram_status hologram_buffer_fill_element(hologram_handle executor, hologram_handle buffer,
                                             const void* value, uint64_t length) {
  return guarded(__func__, [&] {
    auto b = need_buffer_of(executor, buffer);
    require(value != nullptr, "value must not be NULL");
    uint64_t element = 0;
    std::memcpy(&element, value, static_cast<size_t>(size_of(b->dtype)));
    fill(*b, &element, length);
  });
}
hologram_status hologram_buffer_copy(hologram_handle executor, hologram_handle source,
                                     hologram_handle destination, uint32_t length) {
  return guarded(__func__, [&] { copy(executor, source, destination, length); });
}
hologram_status hologram_buffer_copy_u64(hologram_handle executor, hologram_handle source,
                                         hologram_handle destination, uint64_t length) {
  return guarded(__func__, [&] { copy(executor, source, destination, length); });
}

hologram_status hologram_buffer_copy_from_canonical_slice(hologram_handle executor,
                                                          hologram_handle buffer,
                                                          const char* json) {
  return guarded(__func__, [&] { copy_from_json(executor, buffer, json, true); });
}
hologram_status hologram_buffer_canonicalize_all(hologram_handle executor, hologram_handle buffer) {
  return guarded(__func__, [&] {
    auto b = need_buffer_of(executor, buffer);
    if (b->executor->device())
      return run_over_bytes(*b, "canonical", builtin::build_canonical, b->data);
    for (uint64_t i = 0; i < b->bytes(); ++i) b->data[i] &= std::byte{0xfe};
  });
}
hologram_status hologram_buffer_verify_canonical(hologram_handle executor, hologram_handle buffer,
                                                 uint8_t* canonical) {
  return guarded(__func__, [&] {
    require_out(canonical, "canonical");
    auto b = need_buffer_of(executor, buffer);
    std::byte any{0};
    if (b->executor->device())
      run_over_bytes(*b, "any odd", builtin::build_any_odd, &any);
    else
      for (uint64_t i = 0; i < b->bytes(); ++i) any |= b->data[i];
    *canonical = (any & std::byte{1}) == std::byte{0};
  });
}

hologram_status hologram_buffer_resize(hologram_handle executor, hologram_handle buffer,
                                       uint64_t length) {
  return guarded(__func__, [&] { resize(executor, buffer, length); });
}

hologram_status hologram_buffer_slice(hologram_handle executor, hologram_handle buffer,
                                      uint64_t offset, uint64_t length, hologram_handle* slice) {
  return guarded(__func__, [&] {
    require_out(slice, "slice");
    auto b = need_buffer_of(executor, buffer);
    require(offset <= b->length && length <= b->length - offset,
            "[{}, {} + {}) exceeds the buffer's {} elements", offset, offset, length, b->length);
    auto part = make_buffer(b->executor, b->dtype, length, b->storage);
    part->data = b->data + offset * static_cast<uint64_t>(size_of(b->dtype));
    part->slice = true;
    *slice = publish(buffers, std::move(part));
  });
}

hologram_status hologram_buffer_export(hologram_handle buffer, void** data, uint64_t* bytes,
                                       void** view) {
  return guarded(__func__, [&] {
    require_out(data, "data");
    require_out(view, "view");
    auto b = need_buffer(buffer);
    b->executor->require_host_memory("a view");
    runtime::StorageRef use = b->storage;
    *data = b->data;
    if (bytes) *bytes = b->bytes();
    *view = use.detach();
  });
}

hologram_status hologram_view_release(void* view) {
  if (view) static_cast<runtime::Storage*>(view)->release();
  return HOLOGRAM_OK;
}

hologram_status hologram_buffer_cleanup(hologram_handle buffer) {
  return guarded(__func__, [&] {
    if (!buffers.remove(buffer)) report_handle(buffers, buffer, "buffer");
  });
}

}  // extern "C"
