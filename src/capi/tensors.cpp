// capi/tensors.cpp: views, copies and products of strided tensors.
#include "capi/tensors.h"

#include <algorithm>
#include <cstring>

#include "runtime/planning.h"
#include "runtime/transpose.h"

namespace hologram::capi {

int64_t checked_numel(const std::vector<int64_t>& shape) {
  require(shape.size() <= max_rank, "at most {} dimensions, got {}", max_rank, shape.size());
  int64_t n = 1, without_zeros = 1;
  for (int64_t d : shape) {
    require(d >= 0, "no dimension may be negative, got {}", d);
    require(!__builtin_mul_overflow(without_zeros, std::max<int64_t>(d, 1), &without_zeros),
            "the shape has too many elements");
    n = d == 0 ? 0 : n * d;
  }
  return n;
}

std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t n = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = n;
    n *= std::max<int64_t>(1, shape[i]);
  }
  return strides;
}

std::unique_ptr<TensorObject> view_of(const TensorObject& tensor) {
  auto view = std::make_unique<TensorObject>();
  view->storage = tensor.storage;
  view->buffer = tensor.buffer.load();
  view->base = tensor.base;
  view->capacity = tensor.capacity;
  view->dtype = tensor.dtype;
  view->shape = tensor.shape;
  view->strides = tensor.strides;
  view->offset = tensor.offset;
  view->executor = tensor.executor;
  view->executor->tensors.fetch_add(1, std::memory_order_relaxed);
  return view;
}

std::unique_ptr<TensorObject> view_of_buffer(const BufferObject& buffer, hologram_handle handle,
                                             std::vector<int64_t> shape,
                                             std::vector<int64_t> strides, uint64_t offset) {
  require(shape.size() == strides.size(), "{} dimensions have {} strides", shape.size(),
          strides.size());
  const int64_t n = checked_numel(shape);
  uint64_t reach = offset;
  for (size_t i = 0; i < shape.size(); ++i) {
    require(strides[i] >= 0, "no stride may be negative, got {}", strides[i]);
    uint64_t step = 0;
    require(n == 0 || (!__builtin_mul_overflow(static_cast<uint64_t>(shape[i] - 1),
                                               static_cast<uint64_t>(strides[i]), &step) &&
                       !__builtin_add_overflow(reach, step, &reach)),
            "the view reaches beyond the buffer's {} elements", buffer.length);
  }
  require(n == 0 ? offset <= buffer.length : reach < buffer.length,
          "the view reaches element {}, the buffer has {}", reach, buffer.length);
  auto view = std::make_unique<TensorObject>();
  view->storage = buffer.storage;
  view->buffer = handle;
  view->base = buffer.data;
  view->capacity = buffer.length;
  view->dtype = buffer.dtype;
  view->shape = std::move(shape);
  view->strides = std::move(strides);
  view->offset = static_cast<int64_t>(offset);
  view->executor = buffer.executor;
  view->executor->tensors.fetch_add(1, std::memory_order_relaxed);
  return view;
}

void copy_row_major(const TensorObject& tensor, void* out) {
  const auto n = static_cast<size_t>(tensor.numel());
  const int bytes = size_of(tensor.dtype);
  if (n == 0) return;
  if (tensor.contiguous())
    tensor.executor->copy(out, tensor.data(), n * static_cast<size_t>(bytes));
  else
    copy_row_major(*tensor.executor, tensor.shape, tensor.strides, bytes, tensor.data(), out);
}

void copy_row_major(ExecutorState& executor, const std::vector<int64_t>& dims,
                    const std::vector<int64_t>& steps, int bytes, const std::byte* from,
                    void* out) {
  // Fewest dimensions: those of size 1 go, neighbours that step alike become one.
  std::vector<int64_t> shape, strides;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t d = dims[i], s = steps[i];
    if (d == 1) continue;
    if (!shape.empty() && strides.back() == d * s) {
      shape.back() *= d;
      strides.back() = s;
    } else {
      shape.push_back(d);
      strides.push_back(s);
    }
  }
  if (shape.empty()) return executor.copy(out, from, static_cast<size_t>(bytes));
  if (!runtime::can_compile()) return runtime::copy_strided(shape, strides, bytes, from, out);
  runtime::Operations& operations = *executor.operations;
  if (!executor.device() && runtime::is_transposed(shape, strides)) {
    runtime::copy_transposed(shape, strides, bytes, from, out, operations.runtime().threads());
    return;
  }
  uint64_t flips = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (strides[i] >= 0) continue;
    flips |= uint64_t{1} << i;
    from += (shape[i] - 1) * strides[i] * bytes;
    strides[i] = -strides[i];
  }
  const int rank = static_cast<int>(shape.size());
  const bool last = strides.back() == 1;
  std::vector<int64_t> symbols = shape;
  symbols.insert(symbols.end(), strides.begin(), strides.end());
  if (last) symbols.pop_back();
  const auto e = operations.executable(
      fmt::format("copy {} {} {} {}", bytes, rank, last, flips),
      [&](ir::Graph& g) { builtin::build_copy(g, bytes, rank, last, flips); });
  void* const inputs[] = {const_cast<std::byte*>(from)};
  void* const outputs[] = {out};
  operations.run(*e, inputs, symbols.data(), outputs);
  executor.kernel_calls.add(e->plan().steps.size());
}

std::unique_ptr<TensorObject> contiguous(const TensorObject& tensor) {
  if (tensor.contiguous()) {
    auto view = view_of(tensor);
    view->strides = row_major(view->shape);
    return view;
  }
  auto result = make_tensor(tensor.executor, tensor.dtype, tensor.shape);
  copy_row_major(tensor, result->data());
  return result;
}

bool broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
               std::vector<int64_t>& result) {
  const size_t rank = std::max(a.size(), b.size());
  result.assign(rank, 1);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return false;
    result[rank - 1 - i] = x == 1 ? y : x;
  }
  return true;
}

Pin<TensorObject> need_tensor_of(hologram_handle executor, hologram_handle handle,
                                 std::string_view argument) {
  Pin<TensorObject> pin(tensors, handle);
  if (pin && pin->executor->handle == executor) return pin;
  need_executor(executor);
  if (!pin) report_handle(tensors, handle, argument);
  fail(ErrorCode::invalid_argument, "{}: the tensor belongs to another executor", argument);
}

}  // namespace hologram::capi
