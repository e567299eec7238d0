// hologram/hologram.hpp: the C++ interface of Hologram, header-only over hologram.h.
//
// Objects own their handles and free them. There are two sets of them:
//   hologram::Executor, Buffer, Tensor, Graph, Executable           failures throw hologram::Error
//   hologram::status::Executor, …  the same, failures are returned: a Status, or a Result<T> that
//                                   holds a T or the Status
// Objects of both sets keep what they need of each other alive through the library: freeing an
// executor first is allowed, its buffers then report errors.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "hologram/hologram.h"

namespace hologram {
inline namespace v0 {

/// How a call ended, with the library's message.
class [[nodiscard]] Status {
 public:
  Status() = default;
  explicit Status(hologram_status code) : code_(code) {
    if (code != HOLOGRAM_OK) message_ = hologram_last_error();
  }
  bool ok() const noexcept { return code_ == HOLOGRAM_OK; }
  explicit operator bool() const noexcept { return ok(); }
  hologram_status code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }

 private:
  hologram_status code_ = HOLOGRAM_OK;
  std::string message_;
};

/// What the throwing interface throws.
class Error : public std::runtime_error {
 public:
  explicit Error(const Status& status) : std::runtime_error(status.message()), status_(status) {}
  hologram_status code() const noexcept { return status_.code(); }

 private:
  Status status_;
};

/// A value or the reason why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  const Status& status() const noexcept { return status_; }
  /// Throws Error when there is no value.
  T& value() & {
    if (!value_) throw Error(status_);
    return *value_;
  }
  T&& value() && {
    if (!value_) throw Error(status_);
    return std::move(*value_);
  }
  T& operator*() & { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

/// The dtype of C++ numbers.
template <class T>
struct dtype_of;
template <>
struct dtype_of<bool> : std::integral_constant<hologram_dtype, HOLOGRAM_B8> {};
template <>
struct dtype_of<uint8_t> : std::integral_constant<hologram_dtype, HOLOGRAM_U8> {};
template <>
struct dtype_of<int8_t> : std::integral_constant<hologram_dtype, HOLOGRAM_I8> {};
template <>
struct dtype_of<uint16_t> : std::integral_constant<hologram_dtype, HOLOGRAM_U16> {};
template <>
struct dtype_of<int16_t> : std::integral_constant<hologram_dtype, HOLOGRAM_I16> {};
template <>
struct dtype_of<uint32_t> : std::integral_constant<hologram_dtype, HOLOGRAM_U32> {};
template <>
struct dtype_of<int32_t> : std::integral_constant<hologram_dtype, HOLOGRAM_I32> {};
template <>
struct dtype_of<uint64_t> : std::integral_constant<hologram_dtype, HOLOGRAM_U64> {};
template <>
struct dtype_of<int64_t> : std::integral_constant<hologram_dtype, HOLOGRAM_I64> {};
template <>
struct dtype_of<float> : std::integral_constant<hologram_dtype, HOLOGRAM_F32> {};
template <>
struct dtype_of<double> : std::integral_constant<hologram_dtype, HOLOGRAM_F64> {};

namespace detail {

/// Failures throw.
struct Throwing {
  template <class T>
  using result = T;
  using status = void;
  static constexpr bool throws = true;
  static void done(hologram_status code) {
    if (code != HOLOGRAM_OK) [[unlikely]]
      throw Error(Status(code));
  }
  template <class Make>
  static auto give(hologram_status code, Make make) {
    done(code);
    return make();
  }
};

/// Failures are returned.
struct Returning {
  template <class T>
  using result = Result<T>;
  using status = Status;
  static constexpr bool throws = false;
  static Status done(hologram_status code) { return Status(code); }
  template <class Make>
  static auto give(hologram_status code, Make make) -> Result<decltype(make())> {
    if (code != HOLOGRAM_OK) return Status(code);
    return make();
  }
};

/// A handle that is freed with its owner.
template <hologram_status (*cleanup)(hologram_handle)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(hologram_handle handle) noexcept : handle_(handle) {}
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, 0)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Handle() { reset(); }
  hologram_handle get() const noexcept { return handle_; }
  hologram_handle release() noexcept { return std::exchange(handle_, 0); }
  void reset() noexcept {
    if (handle_ != 0) cleanup(std::exchange(handle_, 0));
  }

 private:
  hologram_handle handle_ = 0;
};

/// The text that get(buffer, capacity, needed) gives.
template <class Get>
hologram_status read_text(std::string& text, const Get& get) {
  size_t needed = 0;
  hologram_status code = get(nullptr, size_t{0}, &needed);
  if (code != HOLOGRAM_OK) return code;
  text.resize(needed);
  code = get(text.data(), text.size(), &needed);
  text.resize(needed - 1);
  return code;
}

inline std::string list_of(std::span<const int64_t> numbers) {
  std::string text = "[";
  for (int64_t n : numbers) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(n);
  }
  return text + "]";
}

}  // namespace detail

/// All classes for one way of reporting failures.
template <class P>
struct Api {
  template <class T>
  using result = typename P::template result<T>;
  using status = typename P::status;

  class Executor;
  class Tensor;

  /// Memory of an executor: elements of one dtype.
  class Buffer {
   public:
    Buffer() = default;
    /// Takes over a handle.
    Buffer(hologram_handle executor, hologram_handle handle)
        : executor_(executor), handle_(handle) {}
    hologram_handle get() const noexcept { return handle_.get(); }
    hologram_handle executor() const noexcept { return executor_; }
    result<uint64_t> size() const {
      uint64_t n = 0;
      return P::give(hologram_buffer_length_u64(get(), &n), [&] { return n; });
    }
    result<hologram_dtype> dtype() const {
      hologram_dtype t = HOLOGRAM_F32;
      return P::give(hologram_buffer_dtype(get(), &t), [&] { return t; });
    }
    /// Where it is in its device's memory; an error in the host's.
    result<void*> device_pointer() const {
      void* p = nullptr;
      return P::give(hologram_buffer_device_ptr(executor_, get(), &p), [&] { return p; });
    }
    /// The memory itself, valid until the buffer is freed or resized; of the host alone. T must be
    /// the dtype's type.
    template <class T>
    result<std::span<T>> view() const {
      void* data = nullptr;
      uint64_t n = 0;
      hologram_dtype t = dtype_of<T>::value;
      hologram_status code = hologram_buffer_as_mut_ptr(executor_, get(), &data);
      if (code == HOLOGRAM_OK) code = hologram_buffer_length_u64(get(), &n);
      if (code == HOLOGRAM_OK) code = hologram_buffer_dtype(get(), &t);
      const size_t count = t == dtype_of<T>::value ? static_cast<size_t>(n) : 0;
      return P::give(code, [&] { return std::span<T>(static_cast<T*>(data), count); });
    }
    template <class T>
    status write(std::span<const T> values) {
      return P::done(
          hologram_buffer_copy_from_bytes(executor_, get(), values.data(), values.size_bytes()));
    }
    template <class T>
    status write(const std::vector<T>& values) {
      return write(std::span<const T>(values));
    }
    template <class T>
    result<std::vector<T>> read() const {
      size_t bytes = 0;
      std::vector<T> values;
      hologram_status code = hologram_buffer_to_bytes(executor_, get(), nullptr, 0, &bytes);
      if (code == HOLOGRAM_OK) {
        values.resize(bytes / sizeof(T));
        code = hologram_buffer_to_bytes(executor_, get(), values.data(), values.size() * sizeof(T),
                                        &bytes);
      }
      return P::give(code, [&] { return std::move(values); });
    }
    status fill(float value) {
      uint64_t n = 0;
      hologram_status code = hologram_buffer_length_u64(get(), &n);
      if (code == HOLOGRAM_OK && n > UINT32_MAX) {
        hologram_dtype t = HOLOGRAM_F32;
        code = hologram_buffer_dtype(get(), &t);
        if (code == HOLOGRAM_OK && t == HOLOGRAM_F32)
          return P::done(hologram_buffer_fill_element(executor_, get(), &value, n));
      }
      if (code == HOLOGRAM_OK)
        code = hologram_buffer_fill(executor_, get(), value, static_cast<uint32_t>(n));
      return P::done(code);
    }
    status resize(uint64_t length) {
      return P::done(hologram_buffer_resize(executor_, get(), length));
    }
    result<Buffer> slice(uint64_t offset, uint64_t length) const {
      hologram_handle h = 0;
      return P::give(hologram_buffer_slice(executor_, get(), offset, length, &h),
                     [&] { return Buffer(executor_, h); });
    }
    /// A row-major view; its elements are as many as the buffer's.
    result<Tensor> tensor(std::initializer_list<int64_t> shape) const {
      hologram_handle h = 0;
      return P::give(hologram_tensor_create(get(), static_cast<uint32_t>(shape.size()),
                                            std::data(shape), nullptr, 0, &h),
                     [&] { return Tensor(executor_, h); });
    }

   private:
    hologram_handle executor_ = 0;
    detail::Handle<hologram_buffer_cleanup> handle_;
  };

  /// A strided view of memory that it keeps alive.
  class Tensor {
   public:
    Tensor() = default;
    Tensor(hologram_handle executor, hologram_handle handle)
        : executor_(executor), handle_(handle) {}
    hologram_handle get() const noexcept { return handle_.get(); }
    result<std::vector<int64_t>> shape() const { return dimensions(true); }
    result<std::vector<int64_t>> strides() const { return dimensions(false); }
    result<uint64_t> size() const {
      uint64_t n = 0;
      return P::give(hologram_tensor_numel_u64(get(), &n), [&] { return n; });
    }
    result<hologram_dtype> dtype() const {
      hologram_dtype t = HOLOGRAM_F32;
      return P::give(hologram_tensor_dtype(get(), &t), [&] { return t; });
    }
    /// The elements in row-major order.
    template <class T>
    result<std::vector<T>> read() const {
      size_t bytes = 0;
      std::vector<T> values;
      hologram_status code = hologram_tensor_to_bytes(executor_, get(), nullptr, 0, &bytes);
      if (code == HOLOGRAM_OK) {
        values.resize(bytes / sizeof(T));
        code = hologram_tensor_to_bytes(executor_, get(), values.data(), values.size() * sizeof(T),
                                        &bytes);
      }
      return P::give(code, [&] { return std::move(values); });
    }
    result<Tensor> transpose() const {
      return made([&](auto* h) { return hologram_tensor_transpose(get(), h); });
    }
    result<Tensor> permute(std::initializer_list<int64_t> dims) const {
      const std::string json = detail::list_of(dims);
      return made([&](auto* h) { return hologram_tensor_permute(get(), json.c_str(), h); });
    }
    result<Tensor> reshape(std::initializer_list<int64_t> shape) const {
      const std::string json = detail::list_of(shape);
      return made(
          [&](auto* h) { return hologram_tensor_reshape(executor_, get(), json.c_str(), h); });
    }
    result<Tensor> broadcast_to(std::initializer_list<int64_t> shape) const {
      const std::string json = detail::list_of(shape);
      return made([&](auto* h) { return hologram_tensor_broadcast_to(get(), json.c_str(), h); });
    }
    result<Tensor> select(uint32_t dim, uint32_t index) const {
      return made([&](auto* h) { return hologram_tensor_select(get(), dim, index, h); });
    }
    result<Tensor> narrow(uint32_t dim, uint32_t start, uint32_t length) const {
      return made([&](auto* h) { return hologram_tensor_narrow(get(), dim, start, length, h); });
    }
    result<Tensor> slice(uint32_t dim, int32_t start, int32_t end, int32_t step = 1) const {
      return made([&](auto* h) { return hologram_tensor_slice(get(), dim, start, end, step, h); });
    }
    result<Tensor> contiguous() const {
      return made([&](auto* h) { return hologram_tensor_contiguous(executor_, get(), h); });
    }
    result<Tensor> matmul(const Tensor& right) const {
      return made(
          [&](auto* h) { return hologram_tensor_matmul(executor_, get(), right.get(), h); });
    }
    /// This tensor becomes alpha a b + beta times itself.
    status gemm(const Tensor& a, const Tensor& b, double alpha = 1, double beta = 0) {
      return P::done(hologram_tensor_gemm(executor_, a.get(), b.get(), get(), alpha, beta));
    }
    /// Address of a DLManagedTensorVersioned; its deleter must be called once.
    result<uint64_t> to_dlpack() const {
      uint64_t address = 0;
      return P::give(hologram_tensor_to_dlpack_versioned(executor_, get(), &address),
                     [&] { return address; });
    }

   private:
    template <class Make>
    result<Tensor> made(const Make& make) const {
      hologram_handle h = 0;
      const hologram_status code = make(&h);
      return P::give(code, [&] { return Tensor(executor_, h); });
    }
    result<std::vector<int64_t>> dimensions(bool shape) const {
      size_t rank = 0;
      std::vector<int64_t> numbers;
      hologram_status code = hologram_tensor_dimensions(get(), nullptr, nullptr, 0, &rank);
      if (code == HOLOGRAM_OK) {
        numbers.resize(rank);
        code = hologram_tensor_dimensions(get(), shape ? numbers.data() : nullptr,
                                          shape ? nullptr : numbers.data(), rank, &rank);
      }
      return P::give(code, [&] { return std::move(numbers); });
    }
    hologram_handle executor_ = 0;
    detail::Handle<hologram_tensor_cleanup> handle_;
  };

  /// What an executor and each of its streams do with buffers. On a stream, calls return at once.
  template <class Place>
  class Operations {
   public:
    // Element-wise over the first n elements.
    status add(const Buffer& a, const Buffer& b, Buffer& c, uint64_t n) const {
      return P::done(hologram_vector_add_f32_u64(place(), a.get(), b.get(), c.get(), n));
    }
    status sub(const Buffer& a, const Buffer& b, Buffer& c, uint64_t n) const {
      return P::done(hologram_vector_sub_f32_u64(place(), a.get(), b.get(), c.get(), n));
    }
    status mul(const Buffer& a, const Buffer& b, Buffer& c, uint64_t n) const {
      return P::done(hologram_vector_mul_f32_u64(place(), a.get(), b.get(), c.get(), n));
    }
    status div(const Buffer& a, const Buffer& b, Buffer& c, uint64_t n) const {
      return P::done(hologram_vector_div_f32_u64(place(), a.get(), b.get(), c.get(), n));
    }
    status min(const Buffer& a, const Buffer& b, Buffer& c, uint64_t n) const {
      return P::done(hologram_vector_min_f32_u64(place(), a.get(), b.get(), c.get(), n));
    }
    status max(const Buffer& a, const Buffer& b, Buffer& c, uint64_t n) const {
      return P::done(hologram_vector_max_f32_u64(place(), a.get(), b.get(), c.get(), n));
    }
    status abs(const Buffer& a, Buffer& c, uint64_t n) const {
      return P::done(hologram_vector_abs_f32_u64(place(), a.get(), c.get(), n));
    }
    status neg(const Buffer& a, Buffer& c, uint64_t n) const {
      return P::done(hologram_vector_neg_f32_u64(place(), a.get(), c.get(), n));
    }
    status relu(const Buffer& a, Buffer& c, uint64_t n) const {
      return P::done(hologram_vector_relu_f32_u64(place(), a.get(), c.get(), n));
    }
    status sigmoid(const Buffer& a, Buffer& c, uint64_t n) const {
      return P::done(hologram_sigmoid_f32_u64(place(), a.get(), c.get(), n));
    }
    status tanh(const Buffer& a, Buffer& c, uint64_t n) const {
      return P::done(hologram_tanh_f32_u64(place(), a.get(), c.get(), n));
    }
    status gelu(const Buffer& a, Buffer& c, uint64_t n) const {
      return P::done(hologram_gelu_f32_u64(place(), a.get(), c.get(), n));
    }
    status gelu_tanh(const Buffer& a, Buffer& c, uint64_t n) const {
      return P::done(hologram_gelu_tanh_f32_u64(place(), a.get(), c.get(), n));
    }
    status softmax(const Buffer& a, Buffer& c, uint64_t n) const {
      return P::done(hologram_softmax_f32_u64(place(), a.get(), c.get(), n));
    }
    status clip(const Buffer& a, Buffer& c, uint64_t n, float low, float high) const {
      return P::done(hologram_vector_clip_f32_u64(place(), a.get(), c.get(), n, low, high));
    }
    status scalar_add(const Buffer& a, Buffer& c, uint64_t n, float scalar) const {
      return P::done(hologram_scalar_add_f32_u64(place(), a.get(), c.get(), n, scalar));
    }
    status scalar_mul(const Buffer& a, Buffer& c, uint64_t n, float scalar) const {
      return P::done(hologram_scalar_mul_f32_u64(place(), a.get(), c.get(), n, scalar));
    }
    /// Any operation of the op table by name.
    status elementwise(const char* operation, std::initializer_list<const Buffer*> inputs,
                       Buffer& output, uint64_t n) const {
      std::vector<hologram_handle> in;
      for (const Buffer* b : inputs) in.push_back(b->get());
      return P::done(
          hologram_elementwise(place(), operation, in.data(), in.size(), output.get(), n));
    }

    /// c (m x n) = a (m x k) b (k x n).
    status gemm(const Buffer& a, const Buffer& b, Buffer& c, uint64_t m, uint64_t n,
                uint64_t k) const {
      return P::done(hologram_gemm_f32_u64(place(), a.get(), b.get(), c.get(), m, n, k));
    }
    /// y (m) = a (m x n) x (n).
    status matvec(const Buffer& a, const Buffer& x, Buffer& y, uint64_t m, uint64_t n) const {
      return P::done(hologram_matvec_f32_u64(place(), a.get(), x.get(), y.get(), m, n));
    }

   private:
    hologram_handle place() const noexcept { return static_cast<const Place*>(this)->get(); }
  };

  class Event;

  /// A queue of work on an executor's device.
  class Stream : public Operations<Stream> {
   public:
    Stream() = default;
    explicit Stream(hologram_handle handle) : handle_(handle) {}
    hologram_handle get() const noexcept { return handle_.get(); }
    /// Returns when its work is done, with the first error since.
    status synchronize() const { return P::done(hologram_stream_synchronize(get())); }
    result<bool> done() const {
      uint8_t yes = 0;
      return P::give(hologram_stream_query(get(), &yes), [&] { return yes != 0; });
    }
    result<void*> native() const {
      void* p = nullptr;
      return P::give(hologram_stream_native(get(), &p), [&] { return p; });
    }
    /// The values may change at once.
    template <class T>
    status write(Buffer& to, std::span<const T> values) const {
      return P::done(
          hologram_stream_copy_from_bytes(get(), to.get(), values.data(), values.size_bytes()));
    }
    /// The values are there, and may go, when the stream has been waited for.
    template <class T>
    status read(const Buffer& from, std::span<T> values) const {
      return P::done(
          hologram_stream_copy_to_bytes(get(), from.get(), values.data(), values.size_bytes()));
    }
    // Over the first n elements to out[0].
    status sum(const Buffer& a, Buffer& out, uint64_t n) const {
      return P::done(hologram_reduce_sum_f32_u64(get(), a.get(), out.get(), n, nullptr));
    }
    status smallest(const Buffer& a, Buffer& out, uint64_t n) const {
      return P::done(hologram_reduce_min_f32_u64(get(), a.get(), out.get(), n, nullptr));
    }
    status largest(const Buffer& a, Buffer& out, uint64_t n) const {
      return P::done(hologram_reduce_max_f32_u64(get(), a.get(), out.get(), n, nullptr));
    }
    status mse_loss(const Buffer& p, const Buffer& t, Buffer& out, uint64_t n) const {
      return P::done(hologram_mse_loss_f32_u64(get(), p.get(), t.get(), out.get(), n, nullptr));
    }
    status cross_entropy_loss(const Buffer& p, const Buffer& t, Buffer& out, uint64_t n) const {
      return P::done(
          hologram_cross_entropy_loss_f32_u64(get(), p.get(), t.get(), out.get(), n, nullptr));
    }
    status binary_cross_entropy_loss(const Buffer& p, const Buffer& t, Buffer& out,
                                     uint64_t n) const {
      return P::done(hologram_binary_cross_entropy_loss_f32_u64(get(), p.get(), t.get(), out.get(),
                                                                n, nullptr));
    }

    status record(Event& event) const { return P::done(hologram_event_record(event.get(), get())); }
    /// What is put on the stream from now on begins behind the event.
    status wait_for(const Event& event) const {
      return P::done(hologram_stream_wait_event(get(), event.get()));
    }

   private:
    detail::Handle<hologram_stream_cleanup> handle_;
  };

  /// A mark in a stream's work.
  class Event {
   public:
    Event() = default;
    explicit Event(hologram_handle handle) : handle_(handle) {}
    hologram_handle get() const noexcept { return handle_.get(); }
    status synchronize() const { return P::done(hologram_event_synchronize(get())); }
    result<bool> reached() const {
      uint8_t yes = 0;
      return P::give(hologram_event_query(get(), &yes), [&] { return yes != 0; });
    }

   private:
    detail::Handle<hologram_event_cleanup> handle_;
  };

  /// A compiled graph.
  class Executable {
   public:
    Executable() = default;
    Executable(hologram_handle executor, hologram_handle handle)
        : executor_(executor), handle_(handle) {}
    hologram_handle get() const noexcept { return handle_.get(); }
    /// Runs once on tensors and returns the results as new ones.
    template <class... Inputs>
    result<std::vector<Tensor>> operator()(const Inputs&... inputs) const {
      const hologram_handle in[] = {inputs.get()..., 0};
      uint32_t count = 0;
      hologram_status code = hologram_executable_num_outputs(get(), &count);
      std::vector<hologram_handle> out(count, 0);
      if (code == HOLOGRAM_OK)
        code = hologram_executable_run(get(), in, sizeof...(inputs), out.data(), count);
      return P::give(code, [&] {
        std::vector<Tensor> tensors;
        for (hologram_handle h : out) tensors.emplace_back(executor_, h);
        return tensors;
      });
    }
    /// Runs once into tensors or buffers that exist.
    status run(std::span<const hologram_handle> inputs, std::span<hologram_handle> outputs) const {
      return P::done(hologram_executable_run(get(), inputs.data(), inputs.size(), outputs.data(),
                                             outputs.size()));
    }
    /// The same without waiting for it.
    status run(const Stream& stream, std::span<const hologram_handle> inputs,
               std::span<hologram_handle> outputs) const {
      return P::done(hologram_executable_run_on_stream(
          get(), stream.get(), inputs.data(), inputs.size(), outputs.data(), outputs.size()));
    }
    result<std::string> report() const {
      std::string text;
      return P::give(detail::read_text(text,
                                       [&](char* t, size_t n, size_t* needed) {
                                         return hologram_executable_report(get(), t, n, needed);
                                       }),
                     [&] { return std::move(text); });
    }

   private:
    hologram_handle executor_ = 0;
    detail::Handle<hologram_executable_cleanup> handle_;
  };

  /// A copy of an archive's state, which methods read and write.
  class Session {
   public:
    Session() = default;
    explicit Session(hologram_handle handle) : handle_(handle) {}
    hologram_handle get() const noexcept { return handle_.get(); }
    status reset() const { return P::done(hologram_session_reset(get())); }

   private:
    detail::Handle<hologram_session_cleanup> handle_;
  };

  /// A .holo file: a model's graphs and weights.
  class Archive {
   public:
    Archive() = default;
    explicit Archive(hologram_handle handle) : handle_(handle) {}
    hologram_handle get() const noexcept { return handle_.get(); }
    /// `verify`: compare the weights with their checksums too.
    static result<Archive> open(const char* path, bool verify = false) {
      hologram_handle h = 0;
      return P::give(hologram_archive_open(path, verify ? HOLOGRAM_VERIFY : 0, &h),
                     [&] { return Archive(h); });
    }
    /// JSON: fingerprint, methods with inputs, results and sizes, tensors.
    result<std::string> info() const {
      std::string text;
      return P::give(detail::read_text(text,
                                       [&](char* t, size_t n, size_t* needed) {
                                         return hologram_archive_info(get(), t, n, needed);
                                       }),
                     [&] { return std::move(text); });
    }
    status verify() const { return P::done(hologram_archive_verify(get())); }
    /// 64 hexadecimal digits that name the whole content.
    result<std::string> fingerprint() const {
      std::string text;
      return P::give(detail::read_text(text,
                                       [&](char* t, size_t n, size_t* needed) {
                                         return hologram_archive_fingerprint(get(), t, n, needed);
                                       }),
                     [&] { return std::move(text); });
    }
    /// Other elements, in row-major order, for a tensor of this dtype and shape.
    status replace(const char* name, hologram_dtype dtype, std::span<const int64_t> shape,
                   const void* elements) {
      return P::done(
          hologram_archive_replace(get(), name, dtype, shape.data(), shape.size(), elements));
    }
    /// Methods made from here on run machine code of the archive. `fingerprint`: what it must be;
    /// null trusts it whatever it is.
    status trust(const char* fingerprint = nullptr) {
      return P::done(hologram_archive_trust(get(), fingerprint));
    }
    result<Session> session() const {
      hologram_handle h = 0;
      return P::give(hologram_archive_session(get(), &h), [&] { return Session(h); });
    }
    /// Compiled, or from the cache of kernels. `session`: for a method that keeps state.
    template <class Executor>
    result<Executable> method(const Executor& executor, const char* name,
                              const Session& session = {}) const {
      hologram_handle h = 0;
      return P::give(hologram_archive_method(get(), executor.get(), name, session.get(), &h),
                     [&] { return Executable(executor.get(), h); });
    }

   private:
    detail::Handle<hologram_archive_cleanup> handle_;
  };

  /// Threads, memory and kernels. May be used from several threads.
  class Executor : public Operations<Executor> {
   public:
    /// "cpu", "cuda", "metal" or "auto". Throws Error.
    explicit Executor(const char* backend = "auto") requires(P::throws) {
      P::done(create(backend));
    }
    static result<Executor> make(const char* backend = "auto") {
      Executor e{Empty{}};
      const hologram_status code = e.create(backend);
      return P::give(code, [&] { return std::move(e); });
    }
    hologram_handle get() const noexcept { return handle_.get(); }
    result<std::string> backend() const {
      std::string text;
      return P::give(detail::read_text(text,
                                       [&](char* t, size_t n, size_t* needed) {
                                         return hologram_executor_backend(get(), t, n, needed);
                                       }),
                     [&] { return std::move(text); });
    }
    result<hologram_statistics> stats() const {
      hologram_statistics s{};
      s.struct_size = sizeof s;
      return P::give(hologram_stats(get(), &s), [&] { return s; });
    }

    result<Stream> stream() const {
      hologram_handle h = 0;
      return P::give(hologram_stream_create(get(), &h), [&] { return Stream(h); });
    }
    result<Event> event() const {
      hologram_handle h = 0;
      return P::give(hologram_event_create(get(), &h), [&] { return Event(h); });
    }

    /// Zeroed elements.
    template <class T = float>
    result<Buffer> allocate(uint64_t length) const {
      hologram_handle h = 0;
      return P::give(hologram_executor_allocate(get(), dtype_of<T>::value, length, 0, &h),
                     [&] { return Buffer(get(), h); });
    }
    template <class T = float>
    result<Buffer> allocate_boundary(uint8_t cls, uint32_t width, uint32_t height) const {
      hologram_handle h = 0;
      return P::give(
          hologram_executor_allocate_boundary(get(), dtype_of<T>::value, cls, width, height, &h),
          [&] { return Buffer(get(), h); });
    }
    /// A copy of these elements.
    template <class T>
    result<Buffer> buffer(const std::vector<T>& values) const {
      hologram_handle h = 0;
      hologram_status code = hologram_executor_allocate(get(), dtype_of<T>::value, values.size(),
                                                        HOLOGRAM_UNINITIALIZED, &h);
      Buffer b(get(), h);
      if (code == HOLOGRAM_OK)
        code = hologram_buffer_copy_from_bytes(get(), h, values.data(), values.size() * sizeof(T));
      return P::give(code, [&] { return std::move(b); });
    }

    // Over the first n elements to a number, which is stored in out[0] too.
    result<float> sum(const Buffer& a, Buffer& out, uint64_t n) const {
      float r = 0;
      return P::give(hologram_reduce_sum_f32_u64(get(), a.get(), out.get(), n, &r),
                     [&] { return r; });
    }
    result<float> smallest(const Buffer& a, Buffer& out, uint64_t n) const {
      float r = 0;
      return P::give(hologram_reduce_min_f32_u64(get(), a.get(), out.get(), n, &r),
                     [&] { return r; });
    }
    result<float> largest(const Buffer& a, Buffer& out, uint64_t n) const {
      float r = 0;
      return P::give(hologram_reduce_max_f32_u64(get(), a.get(), out.get(), n, &r),
                     [&] { return r; });
    }
    result<float> mse_loss(const Buffer& p, const Buffer& t, Buffer& out, uint64_t n) const {
      float r = 0;
      return P::give(hologram_mse_loss_f32_u64(get(), p.get(), t.get(), out.get(), n, &r),
                     [&] { return r; });
    }
    result<float> cross_entropy_loss(const Buffer& p, const Buffer& t, Buffer& out,
                                     uint64_t n) const {
      float r = 0;
      return P::give(hologram_cross_entropy_loss_f32_u64(get(), p.get(), t.get(), out.get(), n, &r),
                     [&] { return r; });
    }
    result<float> binary_cross_entropy_loss(const Buffer& p, const Buffer& t, Buffer& out,
                                            uint64_t n) const {
      float r = 0;
      return P::give(
          hologram_binary_cross_entropy_loss_f32_u64(get(), p.get(), t.get(), out.get(), n, &r),
          [&] { return r; });
    }

   private:
    struct Empty {};
    explicit Executor(Empty) {}
    hologram_status create(const char* backend) {
      hologram_handle h = 0;
      const hologram_status code = hologram_new_executor_with_backend(backend, &h);
      if (code == HOLOGRAM_OK) handle_ = detail::Handle<hologram_executor_cleanup>(h);
      return code;
    }
    detail::Handle<hologram_executor_cleanup> handle_;
  };

  /// A graph under construction. Nodes are numbers of this graph.
  class Graph {
   public:
    /// A value of a graph, valid as long as the graph.
    struct Node {
      hologram_handle graph = 0;
      uint32_t id = 0;
    };

    explicit Graph(uint32_t num_symbols = 0) requires(P::throws) {
      hologram_handle h = 0;
      P::done(hologram_graph_create(num_symbols, &h));
      handle_ = detail::Handle<hologram_graph_cleanup>(h);
    }
    static result<Graph> make(uint32_t num_symbols = 0) {
      hologram_handle h = 0;
      return P::give(hologram_graph_create(num_symbols, &h), [&] { return Graph(Taken{h}); });
    }
    static result<Graph> parse(const char* text) {
      hologram_handle h = 0;
      return P::give(hologram_graph_parse(text, &h), [&] { return Graph(Taken{h}); });
    }
    hologram_handle get() const noexcept { return handle_.get(); }

    /// `shape` as in the text form: "[s0, 384]".
    result<Node> parameter(hologram_dtype dtype, const char* shape) {
      uint32_t id = 0;
      return P::give(hologram_graph_parameter(get(), dtype, shape, &id), [&] {
        return Node{get(), id};
      });
    }
    result<Node> constant(hologram_dtype dtype, double value) {
      uint32_t id = 0;
      return P::give(hologram_graph_constant(get(), dtype, value, nullptr, &id), [&] {
        return Node{get(), id};
      });
    }
    /// Any operation of the op table; see hologram_graph_apply.
    result<Node> apply(const char* operation, std::initializer_list<Node> inputs,
                       const char* attributes = nullptr, const char* type = nullptr) {
      return applied(get(), operation, inputs, attributes, type);
    }
    status output(Node node) { return P::done(hologram_graph_output(get(), node.id)); }
    result<std::string> text() const {
      std::string text;
      return P::give(detail::read_text(text,
                                       [&](char* t, size_t n, size_t* needed) {
                                         return hologram_graph_print(get(), t, n, needed);
                                       }),
                     [&] { return std::move(text); });
    }
    /// The graph may be changed or destroyed afterwards.
    result<Executable> compile(const Executor& executor, uint32_t flags = 0) const {
      hologram_handle h = 0;
      return P::give(hologram_graph_compile(executor.get(), get(), flags, &h),
                     [&] { return Executable(executor.get(), h); });
    }

    friend Node operator+(Node a, Node b) requires(P::throws) {
      return applied(a.graph, "add", {a, b});
    }
    friend Node operator-(Node a, Node b) requires(P::throws) {
      return applied(a.graph, "sub", {a, b});
    }
    friend Node operator*(Node a, Node b) requires(P::throws) {
      return applied(a.graph, "mul", {a, b});
    }
    friend Node operator/(Node a, Node b) requires(P::throws) {
      return applied(a.graph, "div", {a, b});
    }
    friend Node operator-(Node a) requires(P::throws) { return applied(a.graph, "neg", {a}); }

   private:
    struct Taken {
      hologram_handle handle;
    };
    static result<Node> applied(hologram_handle graph, const char* operation,
                                std::initializer_list<Node> inputs,
                                const char* attributes = nullptr, const char* type = nullptr) {
      std::vector<uint32_t> ids;
      for (const Node& n : inputs) ids.push_back(n.id);
      uint32_t id = 0;
      return P::give(
          hologram_graph_apply(graph, operation, ids.data(), ids.size(), attributes, type, &id),
          [&] {
            return Node{graph, id};
          });
    }
    explicit Graph(Taken taken) : handle_(taken.handle) {}
    detail::Handle<hologram_graph_cleanup> handle_;
  };
};

using Executor = Api<detail::Throwing>::Executor;
using Buffer = Api<detail::Throwing>::Buffer;
using Tensor = Api<detail::Throwing>::Tensor;
using Graph = Api<detail::Throwing>::Graph;
using Executable = Api<detail::Throwing>::Executable;
using Stream = Api<detail::Throwing>::Stream;
using Event = Api<detail::Throwing>::Event;
using Archive = Api<detail::Throwing>::Archive;
using Session = Api<detail::Throwing>::Session;

/// The same classes, failures returned.
namespace status {
using Executor = Api<detail::Returning>::Executor;
using Buffer = Api<detail::Returning>::Buffer;
using Tensor = Api<detail::Returning>::Tensor;
using Graph = Api<detail::Returning>::Graph;
using Executable = Api<detail::Returning>::Executable;
using Stream = Api<detail::Returning>::Stream;
using Event = Api<detail::Returning>::Event;
using Archive = Api<detail::Returning>::Archive;
using Session = Api<detail::Returning>::Session;
}  // namespace status

}  // namespace v0
}  // namespace hologram
