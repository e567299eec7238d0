// capi/objects.cpp: lives of executors, buffers and tensors.
#include "capi/objects.h"

#include <cstring>
#include <limits>
#include <map>

namespace hologram::capi {
namespace {

template <class T>
void destroy(void* object) {
  delete static_cast<T*>(object);
}

}  // namespace

constinit HandleTable executors{Kind::executor, destroy<ExecutorObject>};
constinit HandleTable buffers{Kind::buffer, destroy<BufferObject>};
constinit HandleTable tensors{Kind::tensor, destroy<TensorObject>};

void ExecutorState::copy(void* to, const void* from, size_t bytes) const {
  if (bytes == 0) return;
  if (Memory* elsewhere = device())
    elsewhere->copy(to, from, bytes, nullptr);
  else
    std::memmove(to, from, bytes);
}

void ExecutorState::repeat(std::byte* to, size_t bytes, const void* element, size_t size) const {
  uint64_t bits = 0;
  std::memcpy(&bits, element, size);
  const auto word = static_cast<uint32_t>(bits);
  const bool halves = size == 8 && bits >> 32 == word;
  if (size <= 4 || halves)
    if (device()->fill_later(to, word, halves ? 4 : size, bytes, nullptr))
      return device()->wait(nullptr);
  std::byte pattern[4096];
  for (size_t i = 0; i < sizeof pattern; i += size) std::memcpy(pattern + i, element, size);
  size_t done = std::min(bytes, sizeof pattern);
  copy(to, pattern, done);
  for (size_t n; done < bytes; done += n) {  // what is there doubles, without the host
    n = std::min(done, bytes - done);
    copy(to + done, to, n);
  }
}

void ExecutorState::clear(std::byte* to, size_t bytes) const {
  constexpr std::byte zero{0};
  if (device())
    repeat(to, bytes, &zero, 1);
  else if (bytes)
    std::memset(to, 0, bytes);
}

void ExecutorState::require_host_memory(std::string_view what) const {
  if (device())
    fail(ErrorCode::unsupported, "{}: the memory of backend {} is not the host's; copy the bytes",
         what, operations->runtime().backend().name());
}

void ExecutorState::join(Member& member, hologram_handle member_handle) {
  std::lock_guard lock(mutex_);
  if (closed_) fail(ErrorCode::not_found, "the executor was freed meanwhile");
  member.handle = member_handle;
  member.next = &members_;
  member.previous = members_.previous;
  members_.previous->next = &member;
  members_.previous = &member;
}

void ExecutorState::leave(Member& member) noexcept {
  std::lock_guard lock(mutex_);
  member.previous->next = member.next;
  member.next->previous = member.previous;
  member.previous = member.next = &member;
}

std::vector<hologram_handle> ExecutorState::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  std::vector<hologram_handle> handles;
  for (Member* m = members_.next; m != &members_; m = m->next) handles.push_back(m->handle);
  return handles;
}

BufferObject::~BufferObject() {
  if (!executor) return;
  executor->leave(*this);
  executor->buffers.fetch_sub(1, std::memory_order_relaxed);
}

TensorObject::~TensorObject() {
  if (!executor) return;
  executor->leave(*this);
  executor->tensors.fetch_sub(1, std::memory_order_relaxed);
}

int64_t TensorObject::numel() const {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

bool TensorObject::contiguous() const {
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return numel() == 0;
    expected *= shape[i];
  }
  return true;
}

namespace {

/// By backend and device; never freed, since threads may end after static objects.
struct Shared {
  std::mutex mutex;
  std::map<std::pair<const RegisteredBackend*, int>, std::shared_ptr<runtime::Operations>>
      operations;
  int threads = 0;
};
Shared& shared() {
  static auto* const state = new Shared;
  return *state;
}

}  // namespace

std::shared_ptr<runtime::Operations> shared_operations(const ChosenBackend& chosen) {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  auto& made = s.operations[{chosen.backend, chosen.device}];
  if (!made) {
    made = std::make_shared<runtime::Operations>(std::make_shared<runtime::Runtime>(chosen.make()));
    if (s.threads > 0) made->runtime().threads().set_num_threads(s.threads);
    log_notices();
  }
  return made;
}

std::shared_ptr<runtime::Operations> shared_operations() {
  const RegisteredBackend& backend = default_backend();
  return shared_operations({&backend, std::string(backend.name)});
}

void set_shared_threads(int threads) {
  shared_operations();
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  s.threads = threads;
  for (auto& [backend, operations] : s.operations)
    if (operations) operations->runtime().threads().set_num_threads(threads);
}

void report_handle(HandleTable& table, hologram_handle handle, std::string_view argument) {
  const char* wanted = name_of(table.kind());
  const Kind kind = HandleTable::kind_of(handle);
  if (handle == 0) fail(ErrorCode::not_found, "{}: 0 is no {}", argument, wanted);
  if (kind != table.kind()) {
    if (kind >= Kind::executor && kind <= Kind::event)
      fail(ErrorCode::invalid_argument, "{}: expected a handle of kind {}, got one of kind {}",
           argument, wanted, name_of(kind));
    fail(ErrorCode::not_found, "{}: {:#x} is no handle", argument, handle);
  }
  if (table.exists(handle)) fail(busy, "{}: another call changes this {}", argument, wanted);
  fail(ErrorCode::not_found, "{}: there is no {} {:#x}; it was freed or never made", argument,
       wanted, handle);
}

Pin<BufferObject> need_buffer_of(hologram_handle executor, hologram_handle handle,
                                 std::string_view argument) {
  Pin<BufferObject> pin(buffers, handle);
  if (pin && pin->executor_handle() == executor) [[likely]]
    return pin;
  need_executor(executor);
  if (!pin) report_handle(buffers, handle, argument);
  fail(ErrorCode::invalid_argument, "{}: the buffer belongs to another executor", argument);
}

std::unique_ptr<BufferObject> make_buffer(const std::shared_ptr<ExecutorState>& executor,
                                          DType dtype, uint64_t length,
                                          runtime::StorageRef storage) {
  auto buffer = std::make_unique<BufferObject>();
  buffer->data = storage->data();
  buffer->storage = std::move(storage);
  buffer->length = length;
  buffer->dtype = dtype;
  buffer->executor = executor;
  executor->buffers.fetch_add(1, std::memory_order_relaxed);
  return buffer;
}

std::unique_ptr<TensorObject> make_tensor(const std::shared_ptr<ExecutorState>& executor,
                                          DType dtype, std::vector<int64_t> shape) {
  auto tensor = std::make_unique<TensorObject>();
  tensor->shape = std::move(shape);
  tensor->strides.resize(tensor->shape.size());
  uint64_t n = 1;
  for (size_t i = tensor->shape.size(); i-- > 0;) {
    tensor->strides[i] = static_cast<int64_t>(n);
    const auto dim = static_cast<uint64_t>(tensor->shape[i]);
    require(!__builtin_mul_overflow(n, dim, &n) && n <= INT64_MAX, "the tensor is too large");
  }
  tensor->dtype = dtype;
  tensor->storage = executor->memory->allocate(checked_bytes(n, dtype));
  tensor->base = tensor->storage->data();
  tensor->capacity = n;
  tensor->executor = executor;
  executor->tensors.fetch_add(1, std::memory_order_relaxed);
  return tensor;
}

DType checked_dtype(int dtype) {
  require(dtype >= 0 && dtype < num_dtypes && static_cast<DType>(dtype) != DType::host,
          "{} is no dtype", dtype);
  return static_cast<DType>(dtype);
}

uint64_t checked_bytes(uint64_t elements, DType dtype) {
  const auto size = static_cast<uint64_t>(size_of(dtype));
  require(elements <= static_cast<uint64_t>(INT64_MAX) / size, "{} elements of {} are too many",
          elements, name_of(dtype));
  return elements * size;
}

uint32_t checked_u32(uint64_t value, std::string_view what) {
  require(value <= UINT32_MAX, "the {} {} does not fit in 32 bits; use the _u64 form", what, value);
  return static_cast<uint32_t>(value);
}

std::string lower_case(const char* text) {
  std::string lower;
  for (const char* c = text; *c && lower.size() < 64; ++c)
    lower += *c >= 'A' && *c <= 'Z' ? static_cast<char>(*c - 'A' + 'a') : *c;
  return lower;
}

ChosenBackend backend_of(const char* text) {
  require(text != nullptr, "backend must not be NULL");
  const std::string name = lower_case(text);
  if (name == "auto") return {&default_backend(), std::string(default_backend().name)};
  ChosenBackend chosen = choose_backend(name);
  require(chosen.backend || chosen.name == "cuda" || chosen.name == "metal",
          "backend \"{}\" is unknown; this build has {}, and auto takes the first with a device",
          name, backend_names());
  return chosen;
}

}  // namespace hologram::capi
