// python/_core/sdk_ffi.cpp: hologram_ffi: the C interface as plain functions on handles.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <tuple>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/dlpack.h"
#include "sdk.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace hologram::python {
namespace {

template <class T>
T narrow(int64_t value, const char* function, const char* name) {
  if (value < static_cast<int64_t>(std::numeric_limits<T>::min()) ||
      value > static_cast<int64_t>(std::numeric_limits<T>::max()))
    throw Failure{HOLOGRAM_INVALID_ARGUMENT, std::string("hologram_") + function + ": " + name +
                                                 " = " + std::to_string(value) +
                                                 " is out of its type's range"};
  return static_cast<T>(value);
}

template <class T>
auto result_of(T value) {
  if constexpr (std::is_pointer_v<T>)
    return reinterpret_cast<uintptr_t>(value);
  else if constexpr (std::is_same_v<T, hologram_dtype>)
    return std::string(dtype_name(value));
  else if constexpr (std::is_enum_v<T>)
    return static_cast<int>(value);
  else
    return value;
}

template <class Call>
std::string text_of(const Call& call) {
  size_t needed = 0;
  raise(call(nullptr, 0, &needed));
  for (;;) {
    std::string text(needed, '\0');
    const hologram_status status = call(text.data(), text.size(), &needed);
    if (status == HOLOGRAM_SHORT_BUFFER && needed > text.size()) continue;
    raise(status);
    text.resize(needed - 1);
    return text;
  }
}

/// Cleaning up twice is a warning, not an error.
void cleaned(hologram_status status) {
  if (status != HOLOGRAM_NOT_FOUND) return raise(status);
  if (PyErr_WarnEx(PyExc_RuntimeWarning, hologram_last_error(), 1) != 0) nb::raise_python_error();
}

#include "ffi_bindings.inc"

const char* doc_of(std::string_view name) {
  for (const auto& row : by_hand_docs)
    if (name == row[0]) return row[1];
  return "";
}

/// The memory of an object with the buffer protocol; a number, which may be no address, is none.
struct Bytes {
  explicit Bytes(nb::handle object, int flags = PyBUF_SIMPLE) {
    if (PyObject_GetBuffer(object.ptr(), &view, flags) != 0) nb::raise_python_error();
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() { PyBuffer_Release(&view); }
  /// Throws ValueError unless there are `count` elements at least.
  void require(uint64_t count, hologram_dtype dtype, const char* function) const {
    const auto size = static_cast<uint64_t>(item_size(dtype)),
               bytes = static_cast<uint64_t>(view.len);
    if (count > bytes / size)
      throw Failure{HOLOGRAM_INVALID_ARGUMENT,
                    std::string(function) + ": " + std::to_string(count) + " elements of " +
                        dtype_name(dtype) + " asked for, got " + std::to_string(bytes) + " bytes"};
  }
  Py_buffer view;
};

/// What buffer_export gave and view_release has not taken back.
struct Views {
  std::mutex mutex;
  std::unordered_multiset<void*> given;  // the same one for each view of a buffer's memory
};
Views& views() {
  static Views all;
  return all;
}

/// The bytes of a buffer or tensor, by the function that gives them.
template <auto to_bytes>
nb::bytes bytes_of(uint64_t executor, uint64_t object) {
  size_t needed = 0;
  raise(to_bytes(executor, object, nullptr, 0, &needed));
  PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(needed));
  if (!bytes) nb::raise_python_error();
  nb::bytes result = nb::steal<nb::bytes>(bytes);
  char* data = PyBytes_AsString(bytes);
  hologram_status status;
  {
    nb::gil_scoped_release others;
    status = to_bytes(executor, object, data, needed, &needed);
  }
  raise(status);
  return result;
}

uint64_t wrap_memory(uint64_t executor, const nb::object& dtype, const nb::object& data,
                     uint64_t length) {
  struct Keep {
    static void drop(void* bytes) {
      if (!Py_IsInitialized()) return;
      const PyGILState_STATE state = PyGILState_Ensure();
      delete static_cast<Bytes*>(bytes);
      PyGILState_Release(state);
    }
  };
  const hologram_dtype type = dtype_of(dtype);
  auto bytes = std::make_unique<Bytes>(data, PyBUF_WRITABLE);
  bytes->require(length, type, "executor_wrap");
  hologram_handle buffer = 0;
  uint8_t copied = 0;
  raise(hologram_executor_wrap(executor, type, bytes->view.buf, length, Keep::drop, bytes.get(),
                               &copied, &buffer));
  bytes.release();  // Keep::drop has it, or has freed it
  return buffer;
}

struct Log {
  PyObject* function = nullptr;  // replaced under the GIL
};
Log& log_target() {
  static Log log;
  return log;
}

void log_line(void*, const char* level, const char* message) {
  if (!Py_IsInitialized()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  if (PyObject* function = log_target().function) {
    PyObject* result = PyObject_CallFunction(function, "ss", level, message);
    if (!result) PyErr_WriteUnraisable(function);
    Py_XDECREF(result);
  }
  PyGILState_Release(state);
}

void set_log_callback(nb::object function) {
  const bool none = function.is_none();
  PyObject* fresh = none ? nullptr : function.release().ptr();
  Py_XDECREF(std::exchange(log_target().function, fresh));
  raise(hologram_set_log_callback(none ? nullptr : log_line, nullptr));
}

std::vector<uint64_t> run_executable(uint64_t executable, const std::vector<uint64_t>& inputs,
                                     const std::optional<std::vector<uint64_t>>& outputs,
                                     const std::optional<std::vector<int64_t>>& symbols) {
  uint32_t count = 0;
  raise(hologram_executable_num_outputs(executable, &count));
  std::vector<uint64_t> out = outputs.value_or(std::vector<uint64_t>(count, 0));
  hologram_status status;
  {
    nb::gil_scoped_release release;
    status = symbols ? hologram_executable_run_with_symbols(executable, inputs.data(),
                                                            inputs.size(), symbols->data(),
                                                            symbols->size(), out.data(), out.size())
                     : hologram_executable_run(executable, inputs.data(), inputs.size(), out.data(),
                                               out.size());
  }
  raise(status);
  return out;
}

void bind_by_hand(nb::module_& m) {
  auto def = [&](const char* name, auto function, const auto&... extra) {
    m.def(name, function, doc_of(name), extra...);
  };
  def(
      "new_executor_with_backend",
      [](const char* backend) {
        hologram_handle executor = 0;
        return hologram_new_executor_with_backend(backend, &executor) == HOLOGRAM_OK ? executor : 0;
      },
      "backend"_a);
  def("set_log_callback", &set_log_callback, "function"_a.none());
  def("executor_wrap", &wrap_memory, "executor"_a, "dtype"_a, "data"_a, "length"_a);
  def(
      "stats",
      [](uint64_t executor) {
        return nb::module_::import_("json").attr("loads")(text_of(
            [&](char* s, size_t n, size_t* k) { return hologram_stats_json(executor, s, n, k); }));
      },
      "executor"_a);
  def(
      "class_neighbors",
      [](int64_t cls) {
        uint8_t out[8];
        size_t n = 0;
        raise(hologram_class_neighbors(narrow<uint8_t>(cls, "class_neighbors", "class_index"), out,
                                       sizeof out, &n));
        return std::vector<int>(out, out + n);
      },
      "class_index"_a);
  def(
      "buffer_copy_from_bytes",
      [](uint64_t executor, uint64_t buffer, const nb::object& data) {
        Bytes bytes(data);
        raise(hologram_buffer_copy_from_bytes(executor, buffer, bytes.view.buf,
                                              static_cast<size_t>(bytes.view.len)));
      },
      "executor"_a, "buffer"_a, "bytes"_a);
  def("buffer_to_bytes", &bytes_of<hologram_buffer_to_bytes>, "executor"_a, "buffer"_a);
  def("tensor_to_bytes", &bytes_of<hologram_tensor_to_bytes>, "executor"_a, "tensor"_a);
  def(
      "buffer_fill_element",
      [](uint64_t executor, uint64_t buffer, const nb::object& element, uint64_t length) {
        Bytes bytes(element);
        uint32_t size = 0;
        raise(hologram_buffer_element_size(buffer, &size));
        if (static_cast<uint64_t>(bytes.view.len) != size)
          throw nb::value_error("buffer_fill_element: the bytes of one element are expected");
        raise(hologram_buffer_fill_element(executor, buffer, bytes.view.buf, length));
      },
      "executor"_a, "buffer"_a, "element"_a, "length"_a);
  def(
      "buffer_export",
      [](uint64_t buffer) {
        void *data = nullptr, *view = nullptr;
        uint64_t bytes = 0;
        raise(hologram_buffer_export(buffer, &data, &bytes, &view));
        const std::lock_guard lock(views().mutex);
        views().given.insert(view);
        return std::make_tuple(reinterpret_cast<uintptr_t>(data), bytes,
                               reinterpret_cast<uintptr_t>(view));
      },
      "buffer"_a);
  def(
      "view_release",
      [](uint64_t view) {
        auto* const given = reinterpret_cast<void*>(view);
        {
          const std::lock_guard lock(views().mutex);
          const auto found = views().given.find(given);
          if (given != nullptr && found == views().given.end())
            throw nb::value_error("view_release: expected a view of buffer_export, each once");
          if (given != nullptr) views().given.erase(found);
        }
        raise(hologram_view_release(given));
      },
      "view"_a);
  def(
      "elementwise",
      [](uint64_t executor, const char* operation, const std::vector<uint64_t>& inputs,
         uint64_t output, uint64_t length) {
        MaybeRelease others(length >= long_length);
        raise(hologram_elementwise(executor, operation, inputs.data(), inputs.size(), output,
                                   length));
      },
      "executor"_a, "operation"_a, "inputs"_a, "output"_a, "length"_a);
  def(
      "elementwise_by_id",
      [](uint64_t executor, uint32_t id, const std::vector<uint64_t>& inputs, uint64_t output,
         uint64_t length) {
        MaybeRelease others(length >= long_length);
        raise(
            hologram_elementwise_by_id(executor, id, inputs.data(), inputs.size(), output, length));
      },
      "executor"_a, "id"_a, "inputs"_a, "output"_a, "length"_a);
  def(
      "archive_open_memory",
      [](const nb::object& data, int64_t flags) {
        Bytes bytes(data);
        hologram_handle archive = 0;
        raise(hologram_archive_open_memory(bytes.view.buf, static_cast<size_t>(bytes.view.len),
                                           narrow<uint32_t>(flags, "archive_open_memory", "flags"),
                                           &archive));
        return archive;
      },
      "bytes"_a, "flags"_a);
  def(
      "archive_replace",
      [](uint64_t archive, const char* name, nb::object dtype, const std::vector<int64_t>& shape,
         const nb::object& elements) {
        const hologram_dtype type = dtype_of(dtype);
        Bytes bytes(elements);
        uint64_t count = 1;  // no memory has as many elements as sizes below 0 make
        for (int64_t n : shape)
          if (__builtin_mul_overflow(count, static_cast<uint64_t>(n), &count)) count = UINT64_MAX;
        bytes.require(count, type, "archive_replace");
        raise(hologram_archive_replace(archive, name, type, shape.data(), shape.size(),
                                       bytes.view.buf));
      },
      "archive"_a, "name"_a, "dtype"_a, "shape"_a, "elements"_a);
  def(
      "tensor_create",
      [](uint64_t buffer, const std::vector<int64_t>& shape,
         std::optional<std::vector<int64_t>> strides, uint64_t offset) {
        if (strides && strides->size() != shape.size())
          throw nb::value_error("tensor_create: shape and strides differ in length");
        hologram_handle tensor = 0;
        raise(hologram_tensor_create(buffer, static_cast<uint32_t>(shape.size()), shape.data(),
                                     strides ? strides->data() : nullptr, offset, &tensor));
        return tensor;
      },
      "buffer"_a, "shape"_a, "strides"_a = nb::none(), "offset"_a = 0);
  def(
      "tensor_dimensions",
      [](uint64_t tensor) {
        size_t n = 0;
        raise(hologram_tensor_dimensions(tensor, nullptr, nullptr, 0, &n));
        std::vector<int64_t> shape(n), strides(n);
        raise(hologram_tensor_dimensions(tensor, shape.data(), strides.data(), n, &n));
        return std::make_tuple(shape, strides);
      },
      "tensor"_a);
  def(
      "tensor_from_dlpack_capsule",
      [](uint64_t executor, uint64_t managed) {
        char text[96];
        raise(hologram_tensor_from_dlpack_capsule(executor, managed, text, sizeof text, nullptr));
        return std::string(text);
      },
      "executor"_a, "managed"_a);
  def(
      "graph_apply",
      [](uint64_t graph, const char* operation, const std::vector<uint32_t>& inputs,
         std::optional<std::string> attributes, std::optional<std::string> result) {
        uint32_t node = 0;
        raise(hologram_graph_apply(graph, operation, inputs.data(), inputs.size(),
                                   attributes ? attributes->c_str() : nullptr,
                                   result ? result->c_str() : nullptr, &node));
        return node;
      },
      "graph"_a, "operation"_a, "inputs"_a, "attributes"_a = nb::none(), "result"_a = nb::none());
  def(
      "executable_run",
      [](uint64_t executable, const std::vector<uint64_t>& inputs,
         std::optional<std::vector<uint64_t>> outputs) {
        return run_executable(executable, inputs, std::move(outputs), std::nullopt);
      },
      "executable"_a, "inputs"_a, "outputs"_a = nb::none());
  def(
      "executable_run_on_stream",
      [](uint64_t executable, uint64_t stream, const std::vector<uint64_t>& inputs,
         std::optional<std::vector<uint64_t>> outputs) {
        uint32_t count = 0;
        raise(hologram_executable_num_outputs(executable, &count));
        std::vector<uint64_t> out = outputs.value_or(std::vector<uint64_t>(count, 0));
        raise(hologram_executable_run_on_stream(executable, stream, inputs.data(), inputs.size(),
                                                out.data(), out.size()));
        return out;
      },
      "executable"_a, "stream"_a, "inputs"_a, "outputs"_a = nb::none());
  def(
      "stream_from_native",
      [](uint64_t executor, uint64_t native) {
        hologram_handle stream = 0;
        raise(hologram_stream_from_native(executor, reinterpret_cast<void*>(native), &stream));
        return stream;
      },
      "executor"_a, "native"_a);
  def(
      "stream_native",
      [](uint64_t stream) {
        void* native = nullptr;
        raise(hologram_stream_native(stream, &native));
        return reinterpret_cast<uintptr_t>(native);
      },
      "stream"_a);
  def(
      "stream_copy_from_bytes",
      [](uint64_t stream, uint64_t buffer, const nb::object& data) {
        Bytes bytes(data);
        raise(hologram_stream_copy_from_bytes(stream, buffer, bytes.view.buf,
                                              static_cast<size_t>(bytes.view.len)));
      },
      "stream"_a, "buffer"_a, "bytes"_a);
  def(
      "stream_copy_to_bytes",
      [](uint64_t stream, uint64_t buffer, uint64_t address, uint64_t size) {
        raise(
            hologram_stream_copy_to_bytes(stream, buffer, reinterpret_cast<void*>(address), size));
      },
      "stream"_a, "buffer"_a, "address"_a, "size"_a);
  def(
      "buffer_device_ptr",
      [](uint64_t executor, uint64_t buffer) {
        void* pointer = nullptr;
        raise(hologram_buffer_device_ptr(executor, buffer, &pointer));
        return reinterpret_cast<uintptr_t>(pointer);
      },
      "executor"_a, "buffer"_a);
  def(
      "executable_run_with_symbols",
      [](uint64_t executable, const std::vector<uint64_t>& inputs,
         const std::vector<int64_t>& symbols, std::optional<std::vector<uint64_t>> outputs) {
        return run_executable(executable, inputs, std::move(outputs), symbols);
      },
      "executable"_a, "inputs"_a, "symbols"_a, "outputs"_a = nb::none());
}

/// Takes a DLPack capsule over: (tensor handle, whether its elements were copied).
std::tuple<uint64_t, bool> consume(uint64_t executor, nb::handle capsule) {
  const bool versioned = PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned");
  if (!versioned && !PyCapsule_IsValid(capsule.ptr(), "dltensor"))
    throw nb::value_error("from_dlpack: expected a DLPack capsule that was not consumed before");
  void* managed =
      PyCapsule_GetPointer(capsule.ptr(), versioned ? "dltensor_versioned" : "dltensor");
  const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(managed));
  hologram_handle tensor = 0;
  uint8_t copied = 0;
  raise(versioned ? hologram_tensor_from_dlpack_versioned(executor, address, &copied, &tensor)
                  : hologram_tensor_from_dlpack(executor, address, &copied, &tensor));
  PyCapsule_SetName(capsule.ptr(), versioned ? "used_dltensor_versioned" : "used_dltensor");
  return {tensor, copied != 0};
}

template <class Managed>
void drop(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* m = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (m && m->deleter) m->deleter(m);
}

/// DLManagedTensor, the form before DLPack 1.0.
struct OldManaged {
  dlpack::Tensor tensor;
  void* context;
  void (*deleter)(OldManaged* self);
};

}  // namespace

nb::object dlpack_capsule(hologram_handle executor, hologram_handle tensor, bool versioned) {
  uint64_t managed = 0;
  raise(versioned ? hologram_tensor_to_dlpack_versioned(executor, tensor, &managed)
                  : hologram_tensor_to_dlpack(executor, tensor, &managed));
  void* address = reinterpret_cast<void*>(static_cast<uintptr_t>(managed));
  PyObject* capsule =
      versioned
          ? PyCapsule_New(address, "dltensor_versioned",
                          [](PyObject* c) { drop<dlpack::ManagedTensor>(c, "dltensor_versioned"); })
          : PyCapsule_New(address, "dltensor",
                          [](PyObject* c) { drop<OldManaged>(c, "dltensor"); });
  if (!capsule) nb::raise_python_error();
  return nb::steal(capsule);
}

void bind_sdk_ffi(nb::module_& m) {
  nb::module_ ffi = m.def_submodule("ffi", "The C interface as plain functions on handles.");
  bind_plain(ffi);
  bind_by_hand(ffi);
  m.def("dlpack_consume", &consume, "executor"_a, "capsule"_a,
        "Takes a DLPack capsule over: (tensor handle, whether its elements were copied).");
  m.def("dlpack_capsule", &dlpack_capsule, "executor"_a, "tensor"_a, "versioned"_a,
        "A DLPack capsule that shares a tensor's memory.");
}

}  // namespace hologram::python
