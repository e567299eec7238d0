// capi/tensor.cpp: the functions on tensors.
#include <algorithm>
#include <array>
#include <cstring>

#include "capi/json.h"
#include "capi/tensors.h"

using namespace hologram;
using namespace hologram::capi;

namespace {

template <class T, class Get>
hologram_status tensor_property(const char* function, hologram_handle tensor, T* out,
                                const Get& get) {
  return guarded(function, [&] {
    require_out(out, "the result");
    *out = static_cast<T>(get(*need_tensor(tensor)));
  });
}

/// A function whose result is another view of one tensor, changed by `change`.
template <class Change>
hologram_status view(const char* function, hologram_handle tensor, hologram_handle* result,
                     const Change& change) {
  return guarded(function, [&] {
    require_out(result, "result");
    auto v = view_of(*need_tensor(tensor));
    change(*v);
    *result = publish(tensors, std::move(v));
  });
}

std::vector<int64_t> shape_from(const char* json, const char* name) {
  require(json != nullptr, "{} must not be NULL", name);
  return parse_integers(json, max_rank);
}

size_t need_dim(const TensorObject& t, uint32_t dim) {
  require(dim < t.shape.size(), "dimension {} of a tensor with {}", dim, t.shape.size());
  return dim;
}

/// How a matrix lies in memory, as the product kernels read it.
struct Layout {
  std::unique_ptr<TensorObject> copy;  ///< where neither order fits
  void* data;
  bool transposed = false;
  int64_t leading = 1;
};

Layout layout_of(const TensorObject& t) {
  const int64_t rows = t.shape[0], columns = t.shape[1];
  const int64_t down = t.strides[0], across = t.strides[1];
  if ((across == 1 || columns == 1) && (down >= columns || rows == 1))
    return {nullptr, t.data(), false, rows == 1 ? columns : down};
  if ((down == 1 || rows == 1) && (across >= rows || columns == 1))
    return {nullptr, t.data(), true, columns == 1 ? rows : across};
  auto copy = contiguous(t);
  void* data = copy->data();
  return {std::move(copy), data, false, columns};
}

/// Checks two matrices for a product; gives m, n, k.
std::array<int64_t, 3> product_sizes(const TensorObject& a, const TensorObject& b) {
  require(a.shape.size() == 2 && b.shape.size() == 2,
          "both tensors must be matrices, got {} and {} dimensions", a.shape.size(),
          b.shape.size());
  require(a.dtype == b.dtype && is_float(a.dtype),
          "both tensors must have one float dtype, got {} and {}", name_of(a.dtype),
          name_of(b.dtype));
  require(b.shape[0] == a.shape[1], "the inner sizes differ: {} x {} and {} x {}", a.shape[0],
          a.shape[1], b.shape[0], b.shape[1]);
  return {a.shape[0], b.shape[1], a.shape[1]};
}

std::unique_ptr<TensorObject> matmul(const TensorObject& a, const TensorObject& b) {
  const auto [m, n, k] = product_sizes(a, b);
  auto result = make_tensor(a.executor, a.dtype, {m, n});
  if (m == 0 || n == 0) return result;
  if (k == 0) {
    a.executor->clear(result->data(), static_cast<size_t>(m * n * size_of(a.dtype)));
    return result;
  }
  const Layout left = layout_of(a), right = layout_of(b);
  runtime::Operations& operations = *a.executor->operations;
  const auto e = operations.executable(
      fmt::format("gemm {} {} {}", name_of(a.dtype), left.transposed, right.transposed),
      [&](ir::Graph& g) { builtin::build_gemm(g, a.dtype, left.transposed, right.transposed); });
  void* const inputs[] = {left.data, right.data};
  void* const outputs[] = {result->data()};
  const int64_t symbols[] = {m, n, k, left.leading, right.leading};
  operations.run(*e, inputs, symbols, outputs);
  a.executor->kernel_calls.add(e->plan().steps.size());
  return result;
}

/// The bytes between a tensor's first and last element.
std::pair<const std::byte*, const std::byte*> span_of(const TensorObject& t) {
  int64_t last = 0;
  for (size_t i = 0; i < t.shape.size(); ++i) last += (t.shape[i] - 1) * t.strides[i];
  return {t.data(), t.data() + (t.numel() == 0 ? 0 : (last + 1) * size_of(t.dtype))};
}

void multiply(const TensorObject& a, const TensorObject& b, const TensorObject& c, double alpha,
              double beta) {
  const auto [m, n, k] = product_sizes(a, b);
  require(c.dtype == a.dtype && c.shape == std::vector<int64_t>({m, n}),
          "c must be {}[{}, {}], is {}{}", name_of(a.dtype), m, n, name_of(c.dtype),
          write_integers(c.shape));
  require((c.strides[1] == 1 || n <= 1) && (c.strides[0] >= n || m <= 1),
          "the rows of c must be contiguous, its strides are {}", write_integers(c.strides));
  if (m == 0 || n == 0) return;
  const auto [from, to] = span_of(c);
  for (const TensorObject* operand : {&a, &b}) {
    const auto [begin, end] = span_of(*operand);
    require(end <= from || to <= begin, "c overlaps an operand");
  }
  require(k != 0, "the inner size is 0");
  const Layout left = layout_of(a), right = layout_of(b);
  const bool accumulate = beta != 0;
  runtime::Operations& operations = *a.executor->operations;
  const auto e = operations.executable(fmt::format("gemm update {} {} {} {}", name_of(a.dtype),
                                                   left.transposed, right.transposed, accumulate),
                                       [&](ir::Graph& g) {
                                         builtin::build_gemm_update(g, a.dtype, left.transposed,
                                                                    right.transposed, accumulate);
                                       });
  const bool narrow = compute_type(a.dtype) == DType::f32;
  float alpha_f32 = static_cast<float>(alpha), beta_f32 = static_cast<float>(beta);
  void* const inputs[] = {left.data, right.data, c.data(),
                          narrow ? static_cast<void*>(&alpha_f32) : &alpha,
                          narrow ? static_cast<void*>(&beta_f32) : &beta};
  const int64_t symbols[] = {m, n, k, left.leading, right.leading, m <= 1 ? n : c.strides[0]};
  operations.run(*e, inputs, symbols, nullptr);
  a.executor->kernel_calls.add(e->plan().steps.size());
}

std::unique_ptr<TensorObject> reshape(const TensorObject& t, std::vector<int64_t> shape) {
  require(checked_numel(shape) == t.numel(), "the shape {} has {} elements, the tensor {}",
          write_integers(shape), checked_numel(shape), t.numel());
  auto result = contiguous(t);
  result->strides = row_major(shape);
  result->shape = std::move(shape);
  return result;
}

void permute(TensorObject& v, const std::vector<int64_t>& dims) {
  const size_t rank = v.shape.size();
  std::vector<bool> seen(rank);
  require(dims.size() == rank, "{} dims for a tensor with {} dimensions", dims.size(), rank);
  const std::vector<int64_t> shape = v.shape, strides = v.strides;
  for (size_t i = 0; i < rank; ++i) {
    const auto from = static_cast<size_t>(dims[i]);
    require(dims[i] >= 0 && from < rank && !seen[from], "dims {} is no permutation of 0…{}",
            write_integers(dims), rank == 0 ? 0 : rank - 1);
    seen[from] = true;
    v.shape[i] = shape[from];
    v.strides[i] = strides[from];
  }
}

/// Element `start` becomes the first; an empty view stays where it is.
void advance(TensorObject& v, size_t dim, int64_t start) {
  if (v.numel() != 0) v.offset += start * v.strides[dim];
}

hologram_handle buffer_of(TensorObject& t) {
  hologram_handle handle = t.buffer.load();
  if (handle != 0) {
    need_buffer(handle, "the tensor's buffer");
    return handle;
  }
  auto buffer = make_buffer(t.executor, t.dtype, t.capacity, t.storage);
  handle = publish(buffers, std::move(buffer));
  hologram_handle none = 0;
  if (t.buffer.compare_exchange_strong(none, handle)) return handle;
  buffers.remove(handle);
  return none;
}

}  // namespace

extern "C" {

hologram_status hologram_tensor_from_buffer(hologram_handle buffer, const char* shape_json,
                                            hologram_handle* tensor) {
  return guarded(__func__, [&] {
    require_out(tensor, "tensor");
    auto b = need_buffer(buffer);
    std::vector<int64_t> shape = shape_from(shape_json, "shape_json");
    const int64_t n = checked_numel(shape);
    require(static_cast<uint64_t>(n) == b->length, "the shape {} has {} elements, the buffer {}",
            write_integers(shape), n, b->length);
    std::vector<int64_t> strides = row_major(shape);
    *tensor = publish(tensors, view_of_buffer(*b, buffer, shape, strides, 0));
  });
}

hologram_status hologram_tensor_from_buffer_with_strides(hologram_handle buffer,
                                                         const char* shape_json,
                                                         const char* strides_json,
                                                         hologram_handle* tensor) {
  return guarded(__func__, [&] {
    require_out(tensor, "tensor");
    auto b = need_buffer(buffer);
    *tensor = publish(tensors, view_of_buffer(*b, buffer, shape_from(shape_json, "shape_json"),
                                              shape_from(strides_json, "strides_json"), 0));
  });
}

hologram_status hologram_tensor_create(hologram_handle buffer, uint32_t ndim, const int64_t* shape,
                                       const int64_t* strides, uint64_t offset,
                                       hologram_handle* tensor) {
  return guarded(__func__, [&] {
    require_out(tensor, "tensor");
    auto b = need_buffer(buffer);
    require(ndim <= max_rank, "at most {} dimensions, got {}", max_rank, ndim);
    require(ndim == 0 || shape != nullptr, "shape must not be NULL");
    std::vector<int64_t> dims(shape, shape + ndim);
    checked_numel(dims);
    std::vector<int64_t> steps =
        strides ? std::vector<int64_t>(strides, strides + ndim) : row_major(dims);
    *tensor = publish(tensors, view_of_buffer(*b, buffer, dims, steps, offset));
  });
}

hologram_status hologram_tensor_shape(hologram_handle tensor, char* json, size_t capacity,
                                      size_t* needed) {
  return guarded(__func__, [&] {
    give_text(write_integers(need_tensor(tensor)->shape), json, capacity, needed);
  });
}
hologram_status hologram_tensor_strides(hologram_handle tensor, char* json, size_t capacity,
                                        size_t* needed) {
  return guarded(__func__, [&] {
    give_text(write_integers(need_tensor(tensor)->strides), json, capacity, needed);
  });
}
hologram_status hologram_tensor_dimensions(hologram_handle tensor, int64_t* shape, int64_t* strides,
                                           size_t capacity, size_t* needed) {
  return guarded(__func__, [&] {
    auto t = need_tensor(tensor);
    const size_t rank = t->shape.size();
    if (needed) *needed = rank;
    if (!shape && !strides) return;
    if (capacity < rank)
      fail(short_buffer, "{} numbers are needed, the arrays have {}", rank, capacity);
    if (shape) std::copy(t->shape.begin(), t->shape.end(), shape);
    if (strides) std::copy(t->strides.begin(), t->strides.end(), strides);
  });
}
hologram_status hologram_tensor_ndim(hologram_handle tensor, uint32_t* ndim) {
  return tensor_property(__func__, tensor, ndim,
                         [](const TensorObject& t) { return t.shape.size(); });
}
hologram_status hologram_tensor_numel(hologram_handle tensor, uint32_t* numel) {
  return tensor_property(__func__, tensor, numel, [](const TensorObject& t) {
    return checked_u32(static_cast<uint64_t>(t.numel()), "number of elements");
  });
}
hologram_status hologram_tensor_numel_u64(hologram_handle tensor, uint64_t* numel) {
  return tensor_property(__func__, tensor, numel, [](const TensorObject& t) { return t.numel(); });
}
hologram_status hologram_tensor_offset(hologram_handle tensor, uint32_t* offset) {
  return tensor_property(__func__, tensor, offset, [](const TensorObject& t) {
    return checked_u32(static_cast<uint64_t>(t.offset), "offset");
  });
}
hologram_status hologram_tensor_offset_u64(hologram_handle tensor, uint64_t* offset) {
  return tensor_property(__func__, tensor, offset, [](const TensorObject& t) { return t.offset; });
}
hologram_status hologram_tensor_dtype(hologram_handle tensor, hologram_dtype* dtype) {
  return tensor_property(__func__, tensor, dtype, [](const TensorObject& t) { return t.dtype; });
}
hologram_status hologram_tensor_data(hologram_handle tensor, void** pointer) {
  return guarded(__func__, [&] {
    require_out(pointer, "pointer");
    auto t = need_tensor(tensor);
    t->executor->require_host_memory("the tensor's address");
    *pointer = t->data();
  });
}
hologram_status hologram_tensor_to_bytes(hologram_handle executor, hologram_handle tensor,
                                         void* bytes, size_t capacity, size_t* needed) {
  return guarded(__func__, [&] {
    auto t = need_tensor_of(executor, tensor);
    const uint64_t size = checked_bytes(static_cast<uint64_t>(t->numel()), t->dtype);
    if (!has_room(size, bytes, capacity, needed)) return;
    if (reinterpret_cast<uintptr_t>(bytes) % static_cast<uintptr_t>(size_of(t->dtype)) == 0) {
      copy_row_major(*t, bytes);
    } else {  // kernels store whole elements
      std::vector<std::byte> aligned(size);
      copy_row_major(*t, aligned.data());
      std::memcpy(bytes, aligned.data(), size);
    }
    t->executor->bytes_out.add(size);
  });
}
hologram_status hologram_tensor_is_contiguous(hologram_handle tensor, uint8_t* yes) {
  return tensor_property(__func__, tensor, yes,
                         [](const TensorObject& t) { return t.contiguous(); });
}

hologram_status hologram_tensor_contiguous(hologram_handle executor, hologram_handle tensor,
                                           hologram_handle* result) {
  return guarded(__func__, [&] {
    require_out(result, "result");
    *result = publish(tensors, contiguous(*need_tensor_of(executor, tensor)));
  });
}

hologram_status hologram_tensor_transpose(hologram_handle tensor, hologram_handle* result) {
  return view(__func__, tensor, result, [](TensorObject& v) {
    require(v.shape.size() == 2, "the tensor must be a matrix, it has {} dimensions",
            v.shape.size());
    permute(v, {1, 0});
  });
}

hologram_status hologram_tensor_reshape(hologram_handle executor, hologram_handle tensor,
                                        const char* shape_json, hologram_handle* result) {
  return guarded(__func__, [&] {
    require_out(result, "result");
    auto t = need_tensor_of(executor, tensor);
    *result = publish(tensors, reshape(*t, shape_from(shape_json, "shape_json")));
  });
}

hologram_status hologram_tensor_permute(hologram_handle tensor, const char* dims_json,
                                        hologram_handle* result) {
  return view(__func__, tensor, result,
              [&](TensorObject& v) { permute(v, shape_from(dims_json, "dims_json")); });
}

hologram_status hologram_tensor_view_1d(hologram_handle tensor, hologram_handle* result) {
  return view(__func__, tensor, result, [](TensorObject& v) {
    require(v.contiguous(), "the tensor is not contiguous; tensor_contiguous makes it so");
    v.shape = {v.numel()};
    v.strides = {1};
  });
}

hologram_status hologram_tensor_select(hologram_handle tensor, uint32_t dim, uint32_t index,
                                       hologram_handle* result) {
  return view(__func__, tensor, result, [&](TensorObject& v) {
    const size_t d = need_dim(v, dim);
    require(index < v.shape[d], "index {} of dimension {}, whose size is {}", index, dim,
            v.shape[d]);
    advance(v, d, index);
    v.shape.erase(v.shape.begin() + static_cast<ptrdiff_t>(d));
    v.strides.erase(v.strides.begin() + static_cast<ptrdiff_t>(d));
  });
}

hologram_status hologram_tensor_narrow(hologram_handle tensor, uint32_t dim, uint32_t start,
                                       uint32_t length, hologram_handle* result) {
  return view(__func__, tensor, result, [&](TensorObject& v) {
    const size_t d = need_dim(v, dim);
    require(uint64_t{start} + length <= static_cast<uint64_t>(v.shape[d]),
            "[{}, {} + {}) of dimension {}, whose size is {}", start, start, length, dim,
            v.shape[d]);
    v.shape[d] = length;
    advance(v, d, start);
  });
}

hologram_status hologram_tensor_slice(hologram_handle tensor, uint32_t dim, int32_t start,
                                      int32_t end, int32_t step, hologram_handle* result) {
  return view(__func__, tensor, result, [&](TensorObject& v) {
    const size_t d = need_dim(v, dim);
    const int64_t size = v.shape[d];
    const int64_t first = start < 0 ? 0 : start;
    const int64_t last = end < 0 ? size : std::min<int64_t>(end, size);
    const int64_t by = step < 0 ? 1 : step;
    require(by != 0, "step must not be 0");
    require(first < size, "start {} of dimension {}, whose size is {}", first, dim, size);
    v.shape[d] = last > first ? (last - first + by - 1) / by : 0;
    advance(v, d, first);
    require(!__builtin_mul_overflow(v.strides[d], by, &v.strides[d]), "step {} is too large", by);
  });
}

hologram_status hologram_tensor_broadcast_to(hologram_handle tensor, const char* shape_json,
                                             hologram_handle* result) {
  return view(__func__, tensor, result, [&](TensorObject& v) {
    std::vector<int64_t> wanted = shape_from(shape_json, "shape_json"), common;
    checked_numel(wanted);
    require(broadcast(v.shape, wanted, common) && common == wanted,
            "the shape {} does not broadcast to {}", write_integers(v.shape),
            write_integers(wanted));
    std::vector<int64_t> strides(wanted.size(), 0);
    const size_t lead = wanted.size() - v.shape.size();
    for (size_t i = 0; i < v.shape.size(); ++i)
      if (v.shape[i] == wanted[lead + i]) strides[lead + i] = v.strides[i];
    v.shape = std::move(wanted);
    v.strides = std::move(strides);
  });
}

hologram_status hologram_tensor_matmul(hologram_handle executor, hologram_handle a,
                                       hologram_handle b, hologram_handle* result) {
  return guarded(__func__, [&] {
    require_out(result, "result");
    auto left = need_tensor_of(executor, a, "a");
    auto right = need_tensor_of(executor, b, "b");
    *result = publish(tensors, matmul(*left, *right));
  });
}

hologram_status hologram_tensor_gemm(hologram_handle executor, hologram_handle a, hologram_handle b,
                                     hologram_handle c, double alpha, double beta) {
  return guarded(__func__, [&] {
    auto left = need_tensor_of(executor, a, "a");
    auto right = need_tensor_of(executor, b, "b");
    multiply(*left, *right, *need_tensor_of(executor, c, "c"), alpha, beta);
  });
}

hologram_status hologram_tensor_is_broadcast_compatible_with(hologram_handle a, hologram_handle b,
                                                             uint8_t* yes) {
  return guarded(__func__, [&] {
    require_out(yes, "yes");
    std::vector<int64_t> common;
    *yes = broadcast(need_tensor(a, "a")->shape, need_tensor(b, "b")->shape, common);
  });
}

hologram_status hologram_tensor_broadcast_shapes(const char* a_json, const char* b_json, char* json,
                                                 size_t capacity, size_t* needed) {
  return guarded(__func__, [&] {
    std::vector<int64_t> common;
    const std::vector<int64_t> a = shape_from(a_json, "a_json"), b = shape_from(b_json, "b_json");
    checked_numel(a);
    checked_numel(b);
    require(broadcast(a, b, common), "the shapes {} and {} do not go together", write_integers(a),
            write_integers(b));
    give_text(write_integers(common), json, capacity, needed);
  });
}

hologram_status hologram_tensor_buffer(hologram_handle tensor, hologram_handle* buffer) {
  return guarded(__func__, [&] {
    require_out(buffer, "buffer");
    *buffer = buffer_of(*need_tensor(tensor));
  });
}

hologram_status hologram_tensor_cleanup(hologram_handle tensor) {
  return guarded(__func__, [&] {
    if (!tensors.remove(tensor)) report_handle(tensors, tensor, "tensor");
  });
}

}  // extern "C"
