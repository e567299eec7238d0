// python/_core/sdk.h: executors and buffers as Python objects over the C interface.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "hologram/hologram.h"

namespace hologram::python {

/// A failed call of the C interface on its way to becoming a Python exception.
struct Failure {
  hologram_status status;
  std::string message;
};

/// Throws Failure with the thread's last message unless the status is HOLOGRAM_OK.
inline void raise(hologram_status status) {
  if (status != HOLOGRAM_OK) [[unlikely]]
    throw Failure{status, hologram_last_error()};
}
/// The Python exception of a failed status: ValueError, MemoryError, NotImplementedError, OSError,
/// ZeroDivisionError, BufferError or HologramError.
PyObject* exception_of(hologram_status status);
/// Sets it for code that is called by Python directly.
void set_exception(hologram_status status);

/// hologram.Executor. `handle` is 0 after cleanup().
struct PyExecutor {
  hologram_handle handle = 0;
  std::string backend;
  PyExecutor() = default;
  PyExecutor(const PyExecutor&) = delete;
  PyExecutor& operator=(const PyExecutor&) = delete;
  ~PyExecutor() { close(); }
  void close() noexcept {
    if (handle) hologram_executor_cleanup(handle);
    handle = 0;
  }
  /// Throws Failure after cleanup().
  hologram_handle alive() const {
    if (!handle) [[unlikely]]
      throw Failure{HOLOGRAM_NOT_FOUND, "this Executor was cleaned up"};
    return handle;
  }
};

/// hologram.Buffer; keeps its executor alive. `handle` is 0 after free().
struct PyBuffer {
  hologram_handle handle = 0;
  hologram_handle executor_handle = 0;
  hologram_dtype dtype = HOLOGRAM_F32;
  bool copied = false;
  nanobind::object executor;
  PyBuffer() = default;
  PyBuffer(const PyBuffer&) = delete;
  PyBuffer& operator=(const PyBuffer&) = delete;
  ~PyBuffer() { close(); }
  void close() noexcept {
    if (handle) hologram_buffer_cleanup(handle);
    handle = 0;
  }
  hologram_handle alive() const {
    if (!handle) [[unlikely]]
      throw Failure{HOLOGRAM_NOT_FOUND, "this Buffer was freed"};
    return handle;
  }
  uint64_t size() const {
    uint64_t n = 0;
    raise(hologram_buffer_length_u64(alive(), &n));
    return n;
  }
};

/// A Buffer that owns `handle`.
nanobind::object make_buffer(nanobind::handle executor, hologram_handle handle,
                             hologram_dtype dtype, bool copied = false);
/// A DLPack capsule that shares a tensor's memory.
nanobind::object dlpack_capsule(hologram_handle executor, hologram_handle tensor, bool versioned);
/// The Python object's PyBuffer or PyExecutor; nullptr for other types.
PyBuffer* as_buffer(PyObject* object);
PyExecutor* as_executor(PyObject* object);

/// Bytes per element.
int item_size(hologram_dtype dtype);
/// "float32", "bfloat16", …
const char* dtype_name(hologram_dtype dtype);
/// struct-module format of an element, nullptr for bfloat16, which has none.
const char* format_of(hologram_dtype dtype);
/// From None (float32), a name, a NumPy dtype or scalar type, bool, int, float, a torch.dtype.
/// Throws Failure(unsupported) naming what it cannot take.
hologram_dtype dtype_of(nanobind::handle object);
/// NumPy's dtype object; ml_dtypes' for bfloat16, or the text "bfloat16" without that package.
nanobind::object numpy_dtype(hologram_dtype dtype);

/// Above so many elements, a call lets other Python threads run.
inline constexpr uint64_t long_length = uint64_t{1} << 15;
/// Lets other threads run while it lives, if the work is long.
class MaybeRelease {
 public:
  explicit MaybeRelease(bool release) : state_(release ? PyEval_SaveThread() : nullptr) {}
  MaybeRelease(const MaybeRelease&) = delete;
  MaybeRelease& operator=(const MaybeRelease&) = delete;
  ~MaybeRelease() {
    if (state_) PyEval_RestoreThread(state_);
  }

 private:
  PyThreadState* state_;
};

/// hologram._core's exception HologramError.
extern PyObject* hologram_error;

void bind_sdk_buffer(nanobind::module_& m);
void bind_sdk_ops(nanobind::module_& m);
void bind_sdk_ffi(nanobind::module_& m);

}  // namespace hologram::python
