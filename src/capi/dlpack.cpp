// capi/dlpack.cpp: tensors from and to other libraries, without a copy where memory allows it.
#include "runtime/dlpack.h"

#include <cstring>

#include "capi/json.h"
#include "capi/tensors.h"

using namespace hologram;
using namespace hologram::capi;

namespace {

/// DLManagedTensor, the form before DLPack 1.0.
struct OldManagedTensor {
  dlpack::Tensor tensor;
  void* context;
  void (*deleter)(OldManagedTensor* self);
};

dlpack::DataType type_of(DType t) {
  const auto bits = static_cast<uint8_t>(8 * size_of(t));
  if (t == DType::b8) return {dlpack::code_bool, 8, 1};
  if (t == DType::bf16) return {dlpack::code_bfloat, 16, 1};
  if (is_float(t)) return {dlpack::code_float, bits, 1};
  return {is_signed_int(t) ? dlpack::code_int : dlpack::code_uint, bits, 1};
}

DType dtype_of(dlpack::DataType type) {
  for (int i = 0; i < num_dtypes; ++i) {
    const auto t = static_cast<DType>(i);
    if (t == DType::host) continue;
    const dlpack::DataType mine = type_of(t);
    if (mine.code == type.code && mine.bits == type.bits && mine.lanes == type.lanes) return t;
  }
  fail(ErrorCode::unsupported, "DLPack dtype (code {}, {} bits, {} lanes) is not supported",
       int{type.code}, int{type.bits}, int{type.lanes});
}

/// An exported tensor: what the consumer sees and what keeps it alive.
template <class Managed>
struct Export {
  Managed managed{};
  runtime::StorageRef storage;
  std::vector<int64_t> shape, strides;
};

dlpack::Device device_of(const ExecutorState& executor) {
  const Memory* memory = executor.device();
  return memory ? dlpack::Device{memory->device().type, memory->device().id}
                : dlpack::Device{dlpack::cpu, 0};
}

template <class Managed>
Managed* export_tensor(const TensorObject& t) {
  auto e = std::make_unique<Export<Managed>>();
  e->storage = t.storage;
  e->shape = t.shape;
  e->strides = t.strides;
  e->managed.tensor = {t.data(),
                       device_of(*t.executor),
                       static_cast<int32_t>(t.shape.size()),
                       type_of(t.dtype),
                       e->shape.data(),
                       e->strides.data(),
                       0};
  e->managed.context = e.get();
  e->managed.deleter = [](Managed* self) {
    if (self) delete static_cast<Export<Managed>*>(self->context);
  };
  if constexpr (std::is_same_v<Managed, dlpack::ManagedTensor>) e->managed.version = {1, 0};
  return &e.release()->managed;
}

template <class Managed>
#ifdef __clang__
__attribute__((no_sanitize("function")))  // an exporter's structure has a type of its own
#endif
void release(void* managed) {
  auto* m = static_cast<Managed*>(managed);
  if (m->deleter) m->deleter(m);
}

/// Copies element by element from host memory that may lie anyhow; `data` is the first one's.
void gather(const std::byte* data, const std::vector<int64_t>& shape,
            const std::vector<int64_t>& strides, int size, std::byte* out) {
  std::vector<int64_t> at(shape.size(), 0);
  for (int64_t n = checked_numel(shape); n > 0; --n) {
    int64_t offset = 0;
    for (size_t i = 0; i < shape.size(); ++i) offset += at[i] * strides[i];
    std::memcpy(out, data + offset * size, static_cast<size_t>(size));
    out += size;
    for (size_t i = shape.size(); i > 0; --i) {
      if (++at[i - 1] < shape[i - 1]) break;
      at[i - 1] = 0;
    }
  }
}

/// The same from memory of the executor's device to its memory, by a kernel.
void gather_on_device(ExecutorState& state, const std::byte* data, std::vector<int64_t> shape,
                      std::vector<int64_t> strides, int size, std::byte* out) {
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size) != 0) {  // byte by byte
    for (int64_t& s : strides) s *= size;
    shape.push_back(size);
    strides.push_back(1);
    size = 1;
  }
  copy_row_major(state, shape, strides, size, data, out);
}

/// Whether the memory is the host's, for tensors that this executor takes.
bool on_host(const ExecutorState& state, const dlpack::Tensor& t) {
  if (t.device.type == dlpack::cpu || t.device.type == dlpack::cuda_host) return true;
  const dlpack::Device own = device_of(state);
  if (t.device.type != own.type || t.device.id != own.id)
    fail(ErrorCode::unsupported,
         "the memory is that of DLPack device ({}, {}); expected the host's{}", t.device.type,
         t.device.id, state.device() ? fmt::format(" or ({}, {})", own.type, own.id) : "");
  require(!t.data || state.device()->contains(t.data), "the data lie outside the device's memory");
  return false;
}

struct Imported {
  hologram_handle buffer, tensor;
  bool copied;
};

/// On success the managed tensor is ours.
Imported import_tensor(hologram_handle executor, const dlpack::Tensor& t, bool must_copy,
                       void (*release)(void*), void* managed) {
  auto pin = need_executor(executor);
  const auto& state = pin->state;
  const bool host = on_host(*state, t);
  const DType dtype = dtype_of(t.dtype);
  const int size = size_of(dtype);
  require(t.ndim >= 0 && static_cast<size_t>(t.ndim) <= max_rank, "{} dimensions", t.ndim);
  require(t.ndim == 0 || t.shape, "the shape is NULL");
  std::vector<int64_t> shape(t.shape, t.shape + t.ndim);
  const int64_t n = checked_numel(shape);
  require(n == 0 || t.data, "the data pointer is NULL");
  std::vector<int64_t> strides =
      t.strides ? std::vector<int64_t>(t.strides, t.strides + t.ndim) : row_major(shape);
  if (n == 0) strides = row_major(shape);
  uint64_t reach = 0;
  bool backwards = false;
  for (size_t i = 0; i < shape.size() && n != 0; ++i) {
    backwards |= strides[i] < 0;
    int64_t step = 0;
    require(!__builtin_mul_overflow(shape[i] - 1, strides[i], &step) &&
                (step < 0 || !__builtin_add_overflow(reach, static_cast<uint64_t>(step), &reach)),
            "the strides overflow");
  }
  auto* data = static_cast<std::byte*>(t.data) + t.byte_offset;
  const bool aligned = reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size) == 0;
  const bool elsewhere = host && state->device();
  const bool copies = must_copy || backwards || !aligned || n == 0 || elsewhere;
  const uint64_t length = copies ? static_cast<uint64_t>(n) : reach + 1;
  const uint64_t bytes = checked_bytes(length, dtype);
  runtime::StorageRef storage =
      copies ? state->memory->allocate(bytes) : state->memory->wrap(data, bytes, release, managed);
  if (copies) {
    if (!host && n != 0) {
      gather_on_device(*state, data, shape, strides, size, storage->data());
    } else {
      std::vector<std::byte> elements(bytes);
      gather(data, shape, strides, size, elements.data());
      state->copy(storage->data(), elements.data(), bytes);
    }
    strides = row_major(shape);
    state->bytes_in.add(bytes);
  }
  runtime::StorageRef guard = storage;
  Imported result{0, 0, copies};
  try {
    auto buffer = make_buffer(state, dtype, length, std::move(storage));
    BufferObject& b = *buffer;
    auto tensor = view_of_buffer(b, 0, shape, strides, 0);
    TensorObject& view = *tensor;
    result.buffer = publish(buffers, std::move(buffer));
    view.buffer = result.buffer;
    result.tensor = publish(tensors, std::move(tensor));
  } catch (...) {
    guard->disarm();
    buffers.remove(result.buffer);
    throw;
  }
  if (copies) release(managed);
  return result;
}

Imported import_old(hologram_handle executor, uint64_t managed) {
  auto* m = reinterpret_cast<OldManagedTensor*>(static_cast<uintptr_t>(managed));
  require(m != nullptr, "managed must not be 0");
  return import_tensor(executor, m->tensor, false, release<OldManagedTensor>, m);
}

}  // namespace

extern "C" {

hologram_status hologram_tensor_to_dlpack(hologram_handle executor, hologram_handle tensor,
                                          uint64_t* managed) {
  return guarded(__func__, [&] {
    require_out(managed, "managed");
    auto t = need_tensor_of(executor, tensor);
    *managed = reinterpret_cast<uintptr_t>(export_tensor<OldManagedTensor>(*t));
  });
}

hologram_status hologram_tensor_to_dlpack_versioned(hologram_handle executor,
                                                    hologram_handle tensor, uint64_t* managed) {
  return guarded(__func__, [&] {
    require_out(managed, "managed");
    auto t = need_tensor_of(executor, tensor);
    *managed = reinterpret_cast<uintptr_t>(export_tensor<dlpack::ManagedTensor>(*t));
  });
}

hologram_status hologram_tensor_from_dlpack_capsule(hologram_handle executor, uint64_t managed,
                                                    char* json, size_t capacity, size_t* needed) {
  return guarded(__func__, [&] {
    // Room for two handles in decimal, so that nothing is taken over that cannot be told.
    constexpr size_t most = 80;
    if (!json || capacity < most) {
      if (needed) *needed = most;
      require_out(json, "json");
      fail(short_buffer, "{} bytes are needed, the buffer has {}", most, capacity);
    }
    const Imported r = import_old(executor, managed);
    give_text(fmt::format("{{\"buffer\": {}, \"tensor\": {}}}", r.buffer, r.tensor), json, capacity,
              needed);
  });
}

hologram_status hologram_tensor_from_dlpack(hologram_handle executor, uint64_t managed,
                                            uint8_t* copied, hologram_handle* tensor) {
  return guarded(__func__, [&] {
    require_out(tensor, "tensor");
    const Imported r = import_old(executor, managed);
    buffers.remove(r.buffer);
    need_tensor(r.tensor)->buffer = 0;
    if (copied) *copied = r.copied;
    *tensor = r.tensor;
  });
}

hologram_status hologram_tensor_from_dlpack_versioned(hologram_handle executor, uint64_t managed,
                                                      uint8_t* copied, hologram_handle* tensor) {
  return guarded(__func__, [&] {
    require_out(tensor, "tensor");
    auto* m = reinterpret_cast<dlpack::ManagedTensor*>(static_cast<uintptr_t>(managed));
    require(m != nullptr, "managed must not be 0");
    if (m->version.major != 1)
      fail(ErrorCode::unsupported, "DLPack {}.{} is not supported; expected 1.x", m->version.major,
           m->version.minor);
    const bool read_only = (m->flags & dlpack::read_only) != 0;
    const Imported r =
        import_tensor(executor, m->tensor, read_only, release<dlpack::ManagedTensor>, m);
    buffers.remove(r.buffer);
    need_tensor(r.tensor)->buffer = 0;
    if (copied) *copied = r.copied;
    *tensor = r.tensor;
  });
}

hologram_status hologram_tensor_dlpack_device_type(hologram_handle executor, int32_t* type) {
  return guarded(__func__, [&] {
    require_out(type, "type");
    *type = device_of(*need_executor(executor)->state).type;
  });
}

hologram_status hologram_tensor_dlpack_device_id(hologram_handle executor, int32_t* id) {
  return guarded(__func__, [&] {
    require_out(id, "id");
    *id = device_of(*need_executor(executor)->state).id;
  });
}

}  // extern "C"
