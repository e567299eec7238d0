// python/_core/sdk.cpp: errors, dtypes and executors of the Python SDK.
#include "sdk.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <array>
#include <cstring>
#include <tuple>

#include "base/error.h"
#include "bindings.h"
#include "capi/objects.h"
#include "numpy_api.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace hologram::python {

PyObject* hologram_error = nullptr;

PyObject* exception_of(hologram_status status) {
  switch (status) {
    case HOLOGRAM_INVALID_ARGUMENT:
      return PyExc_ValueError;
    case HOLOGRAM_OUT_OF_MEMORY:
      return PyExc_MemoryError;
    case HOLOGRAM_UNSUPPORTED:
      return PyExc_NotImplementedError;
    case HOLOGRAM_IO:
      return PyExc_OSError;
    case HOLOGRAM_DIVISION_BY_ZERO:
      return PyExc_ZeroDivisionError;
    default:
      return hologram_error;
  }
}

void set_exception(hologram_status status) {
  PyErr_SetString(exception_of(status), hologram_last_error());
}

namespace {

struct Type {
  const char* name;
  const char* format;
  int size;
};
constexpr Type types[] = {{"bool", "?", 1},    {"uint8", "B", 1},        {"int8", "b", 1},
                          {"int16", "h", 2},   {"int32", "i", 4},        {"int64", "q", 8},
                          {"float16", "e", 2}, {"bfloat16", nullptr, 2}, {"float32", "f", 4},
                          {"float64", "d", 8}, {"uint16", "H", 2},       {"uint32", "I", 4},
                          {"uint64", "Q", 8}};
constexpr const char* short_names[] = {"b8",   "u8",  "i8",  "i16", "i32", "i64", "f16",
                                       "bf16", "f32", "f64", "u16", "u32", "u64"};

std::optional<hologram_dtype> find_dtype(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  for (size_t i = 0; i < std::size(types); ++i)
    if (name == types[i].name || name == short_names[i]) return static_cast<hologram_dtype>(i);
  if (name == "float" || name == "double") return HOLOGRAM_F64;
  if (name == "int") return HOLOGRAM_I64;
  if (name == "half") return HOLOGRAM_F16;
  return std::nullopt;
}

void open(PyExecutor* self, nb::handle backend) {
  nb::object name =
      nb::hasattr(backend, "value") ? nb::object(backend.attr("value")) : nb::borrow(backend);
  if (!PyUnicode_Check(name.ptr()))
    throw nb::type_error("Executor: backend must be a name or a BackendType");
  const char* text = PyUnicode_AsUTF8AndSize(name.ptr(), nullptr);
  if (!text) nb::raise_python_error();
  hologram_handle handle = 0;
  raise(hologram_new_executor_with_backend(text, &handle));
  char chosen[32];
  raise(hologram_executor_backend(handle, chosen, sizeof chosen, nullptr));
  new (self) PyExecutor();
  self->handle = handle;
  self->backend = chosen;
  tell_notices();
}

std::string text_of_executor(const PyExecutor& e) {
  hologram_statistics s{};
  s.struct_size = sizeof s;
  if (!e.handle || hologram_stats(e.handle, &s) != HOLOGRAM_OK)
    return "<hologram.Executor, cleaned up>";
  return fmt::format(
      "<hologram.Executor on {}: {} buffers, {} of 96 boundary classes busy, {} linear bytes>",
      e.backend, s.buffers, s.boundary_classes_busy, s.linear_bytes);
}

int64_t checked_size(nb::handle size) {
  PyObject* index = PyNumber_Index(size.ptr());
  if (!index) nb::raise_python_error();
  const long long n = PyLong_AsLongLong(index);
  Py_DECREF(index);
  if (n == -1 && PyErr_Occurred()) nb::raise_python_error();
  if (n <= 0) throw nb::value_error("Executor.allocate: size must be at least 1");
  return n;
}

nb::object allocate(nb::handle self, nb::handle size, nb::handle dtype, bool zero, bool linear) {
  const int64_t n = checked_size(size);
  const hologram_dtype t = dtype_of(dtype);
  hologram_handle buffer = 0;
  const uint32_t flags = (zero ? 0 : HOLOGRAM_UNINITIALIZED) | (linear ? HOLOGRAM_LINEAR : 0);
  raise(hologram_executor_allocate(nb::cast<PyExecutor&>(self).alive(), t, static_cast<uint64_t>(n),
                                   flags, &buffer));
  return make_buffer(self, buffer, t);
}

nb::object allocate_boundary(nb::handle self, int64_t cls, int64_t width, int64_t height,
                             nb::handle dtype) {
  if (cls < 0 || cls > 95)
    throw nb::value_error("Executor.allocate_boundary: class_index must be 0…95");
  if (width < 1 || width > 48)
    throw nb::value_error("Executor.allocate_boundary: width must be 1…48 pages");
  if (height < 1 || height > 256)
    throw nb::value_error("Executor.allocate_boundary: height must be 1…256 bytes per page");
  const hologram_dtype t = dtype_of(dtype);
  hologram_handle buffer = 0;
  raise(hologram_executor_allocate_boundary(nb::cast<PyExecutor&>(self).alive(), t,
                                            static_cast<uint8_t>(cls), static_cast<uint32_t>(width),
                                            static_cast<uint32_t>(height), &buffer));
  return make_buffer(self, buffer, t);
}

void drop_object(void* context) {
  if (!Py_IsInitialized()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF(static_cast<PyObject*>(context));
  PyGILState_Release(state);
}

/// A buffer over an array's memory where that is possible.
nb::object wrap_array(nb::handle self, nb::handle array) {
  if (!numpy::is_array(array.ptr()))
    throw nb::type_error("Executor.wrap: expected a numpy.ndarray");
  nb::object kept = nb::borrow(array);
  const bool dense = (numpy::as_array(array.ptr())->flags & numpy::c_contiguous) != 0;
  if (!dense) kept = numpy::contiguous(array);
  const numpy::Array& a = *numpy::as_array(kept.ptr());
  hologram_dtype t;
  if (!numpy::dtype_of(a, t))
    throw Failure{HOLOGRAM_UNSUPPORTED, "Executor.wrap: the array's dtype is none of Hologram's"};
  uint64_t n = 1;
  for (int i = 0; i < a.ndim; ++i) n *= static_cast<uint64_t>(a.shape[i]);
  const hologram_handle executor = nb::cast<PyExecutor&>(self).alive();
  hologram_handle buffer = 0;
  uint8_t copied = 0;
  if ((a.flags & numpy::writeable) != 0) {
    kept.inc_ref();
    const hologram_status status =
        hologram_executor_wrap(executor, t, a.data, n, drop_object, kept.ptr(), &copied, &buffer);
    if (status != HOLOGRAM_OK) kept.dec_ref();
    raise(status);
  } else {  // nothing may be written into it
    raise(hologram_executor_allocate(executor, t, n, HOLOGRAM_UNINITIALIZED, &buffer));
    raise(hologram_buffer_copy_from_bytes(executor, buffer, a.data,
                                          n * static_cast<uint64_t>(item_size(t))));
    copied = 1;
  }
  return make_buffer(self, buffer, t, copied || !dense);
}

nb::object buffer_from_numpy(nb::handle self, nb::handle array) {
  if (!numpy::is_array(array.ptr()))
    throw nb::type_error("Executor.from_numpy: expected a numpy.ndarray");
  nb::object kept = numpy::contiguous(array);
  const numpy::Array& a = *numpy::as_array(kept.ptr());
  hologram_dtype t;
  if (!numpy::dtype_of(a, t))
    throw Failure{HOLOGRAM_UNSUPPORTED,
                  "Executor.from_numpy: the array's dtype is none of Hologram's"};
  uint64_t n = 1;
  for (int i = 0; i < a.ndim; ++i) n *= static_cast<uint64_t>(a.shape[i]);
  const hologram_handle executor = nb::cast<PyExecutor&>(self).alive();
  hologram_handle buffer = 0;
  raise(hologram_executor_allocate(executor, t, n, HOLOGRAM_UNINITIALIZED, &buffer));
  nb::object result = make_buffer(self, buffer, t);
  raise(hologram_buffer_copy_from_bytes(executor, buffer, a.data,
                                        n * static_cast<uint64_t>(item_size(t))));
  return result;
}

nb::object stats(PyExecutor& e) {
  char text[4096];
  raise(hologram_stats_json(e.alive(), text, sizeof text, nullptr));
  return nb::module_::import_("json").attr("loads")(text);
}

/// An object with the buffer protocol over memory that another one keeps alive.
void copy_tensor(hologram_handle tensor, const PyBuffer& to) {
  auto b = capi::need_buffer(to.alive());
  raise(hologram_tensor_to_bytes(to.executor_handle, tensor, b->data, b->bytes(), nullptr));
}

nb::object memory_at(uintptr_t address, size_t bytes, nb::handle owner) {
  nb::object ctypes = nb::module_::import_("ctypes");
  nb::object block =
      nb::object(ctypes.attr("c_char") * nb::int_(bytes)).attr("from_address")(address);
  block.attr("_owner") = owner;
  return nb::module_::import_("builtins").attr("memoryview")(block).attr("cast")("B");
}

}  // namespace

int item_size(hologram_dtype dtype) { return types[dtype].size; }
const char* dtype_name(hologram_dtype dtype) { return types[dtype].name; }
const char* format_of(hologram_dtype dtype) { return types[dtype].format; }

hologram_dtype dtype_of(nb::handle object) {
  if (object.is_none()) return HOLOGRAM_F32;
  nb::object name;
  if (PyUnicode_Check(object.ptr()))
    name = nb::borrow(object);
  else if (nb::hasattr(object, "__name__"))  // numpy.float32, ml_dtypes.bfloat16, bool, float
    name = object.attr("__name__");
  else if (nb::hasattr(object, "name"))  // numpy.dtype
    name = object.attr("name");
  else
    name = nb::str(object);  // torch.float32
  const char* text = PyUnicode_AsUTF8AndSize(name.ptr(), nullptr);
  if (!text) nb::raise_python_error();
  std::string_view view = text;
  if (view == "bool_") view = "bool";
  if (auto t = find_dtype(view)) return *t;
  throw Failure{HOLOGRAM_UNSUPPORTED,
                "dtype " + std::string(text) +
                    " is not supported; expected bool, uint8…uint64, int8…int64, float16, "
                    "bfloat16, float32 or float64"};
}

nb::object numpy_dtype(hologram_dtype dtype) {
  static std::array<PyObject*, std::size(types)> cache{};  // guarded by the GIL
  PyObject*& place = cache[dtype];
  if (!place) {
    nb::object found;
    if (dtype == HOLOGRAM_BF16) {
      try {
        found = nb::module_::import_("numpy").attr("dtype")(
            nb::module_::import_("ml_dtypes").attr("bfloat16"));
      } catch (nb::python_error&) {
        found = nb::str("bfloat16");
      }
    } else {
      found = nb::module_::import_("numpy").attr("dtype")(dtype_name(dtype));
    }
    place = found.release().ptr();
  }
  return nb::borrow(place);
}

PyExecutor* as_executor(PyObject* object) {
  static const nb::handle type = nb::type<PyExecutor>();
  if (Py_TYPE(object) != reinterpret_cast<PyTypeObject*>(type.ptr()) &&
      !PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(type.ptr())))
    return nullptr;
  return nb::inst_ptr<PyExecutor>(object);
}

void bind_sdk(nb::module_& m) {
  hologram_error = PyErr_NewExceptionWithDoc(
      "hologram.HologramError",
      "A failure of the runtime: a backend that is absent, an object that was freed, a busy class.",
      PyExc_RuntimeError, nullptr);
  m.attr("HologramError") = nb::borrow(hologram_error);
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Failure& f) {
      PyErr_SetString(exception_of(f.status), f.message.c_str());
    }
  });

  nb::class_<PyExecutor>(m, "Executor", nb::is_weak_referenceable(),
                         R"(Memory and kernels of one backend.

An executor owns a boundary pool (96 classes of 12,288 bytes, contiguous and cache-resident), a
bounded linear pool for larger buffers, and the kernels. It may be used from several threads; calls
on different buffers run side by side.

As a context manager it frees itself and its buffers at the end of the block.

Args:
    backend: "auto", "cpu", "cuda", "cuda:1" for the second device, "metal" or a BackendType.

Raises:
    ValueError: the name is unknown.
    HologramError: the backend is absent from this machine or build.
)")
      .def("__init__", &open, "backend"_a = "auto",
           nb::sig("def __init__(self, backend: str | BackendType = 'auto') -> None"))
      .def_prop_ro(
          "handle", [](const PyExecutor& e) { return e.alive(); },
          "Handle for hologram_ffi. HologramError once cleaned up.")
      .def_prop_ro(
          "backend",
          [](const PyExecutor& e) {
            e.alive();
            return e.backend;
          },
          "Name of the backend that was chosen. HologramError once cleaned up.")
      .def("allocate", &allocate, "size"_a, "dtype"_a = nb::none(), nb::kw_only(), "zero"_a = true,
           "linear"_a = false,
           nb::sig("def allocate(self, size: int, dtype: DTypeLike = None, *, zero: bool = True, "
                   "linear: bool = False) -> Buffer"),
           R"(A buffer of `size` elements, float32 unless `dtype` says otherwise.

It takes a free class of the boundary pool if it fits in 12,288 bytes and `linear` is False, else
linear memory. Its elements are 0 unless `zero` is False.

Raises:
    ValueError: size < 1.
    NotImplementedError: a dtype that is none of Hologram's.
    MemoryError: the memory limit or the system refuses; nothing was changed.
)")
      .def(
          "allocate_boundary", &allocate_boundary, "class_index"_a, "width"_a, "height"_a,
          "dtype"_a = nb::none(),
          nb::sig("def allocate_boundary(self, class_index: int, width: int, height: int, "
                  "dtype: DTypeLike = None) -> Buffer"),
          R"(A zeroed buffer in boundary class 0…95: `width` pages (1…48) of `height` bytes (1…256).

It has width * height / itemsize elements.

Raises:
    ValueError: a number out of range.
    HologramError: the class is taken.
)")
      .def("from_numpy", &buffer_from_numpy, "array"_a,
           nb::sig("def from_numpy(self, array: NDArray[Any]) -> Buffer"),
           "A new buffer with a copy of the array's elements in row-major order, of its dtype.")
      .def("wrap", &wrap_array, "array"_a, nb::sig("def wrap(self, array: NDArray[Any]) -> Buffer"),
           R"(A buffer over the array's own memory, which it keeps alive.

Arrays that are read-only, misaligned or not row-major are copied; `Buffer.copied` tells.
)")
      .def(
          "synchronize",
          [](const PyExecutor& e) {
            nb::gil_scoped_release release;
            raise(hologram_synchronize(e.alive()));
          },
          "Returns when everything that was started is done.")
      .def(
          "stats", &stats, nb::sig("def stats(self) -> dict[str, int]"),
          "Counters: buffers, boundary and linear memory, kernels, bytes copied each way, bytes of "
          "machine code and plans.")
      .def(
          "set_memory_limit",
          [](const PyExecutor& e, uint64_t bytes) {
            raise(hologram_executor_set_memory_limit(e.alive(), bytes));
          },
          "bytes"_a, "Bounds the live linear memory; allocations beyond it are a MemoryError.")
      .def(
          "trim",
          [](const PyExecutor& e) {
            uint64_t bytes = 0;
            raise(hologram_executor_trim(e.alive(), &bytes));
            return bytes;
          },
          "Gives cached linear memory back to the system; returns the bytes.")
      .def_prop_ro(
          "free_classes",
          [](const PyExecutor& e) {
            uint32_t count = 0;
            raise(hologram_boundary_free_classes(e.alive(), &count));
            return count;
          },
          "How many of the 96 boundary classes are free.")
      .def(
          "boundary_pointer",
          [](const PyExecutor& e, uint8_t cls, uint8_t page, uint8_t byte) {
            void* p = nullptr;
            raise(hologram_boundary_pointer(e.alive(), cls, page, byte, &p));
            return reinterpret_cast<uintptr_t>(p);
          },
          "class_index"_a, "page"_a, "byte"_a,
          "Address of a byte of the boundary pool by its coordinates.")
      .def(
          "boundary_address",
          [](const PyExecutor& e, uintptr_t pointer) {
            uint8_t cls = 0, page = 0, byte = 0;
            raise(hologram_boundary_address(e.alive(), reinterpret_cast<const void*>(pointer), &cls,
                                            &page, &byte));
            return std::make_tuple(cls, page, byte);
          },
          "pointer"_a, "The inverse: (class, page, byte). HologramError outside the pool.")
      .def(
          "cleanup", [](PyExecutor& e) { e.close(); },
          "Frees the executor and all its buffers; idempotent. Exported views stay valid.")
      .def_prop_ro("closed", [](const PyExecutor& e) { return e.handle == 0; })
      .def(
          "__enter__",
          [](nb::handle self) {
            nb::cast<PyExecutor&>(self).alive();
            return nb::borrow(self);
          },
          nb::sig("def __enter__(self) -> Self"))
      .def(
          "__exit__", [](PyExecutor& e, nb::args) { e.close(); },
          nb::sig("def __exit__(self, *exception: object) -> None"))
      .def("__repr__", &text_of_executor);
  m.def(
      "numpy_dtype", [](nb::object dtype) { return numpy_dtype(dtype_of(dtype)); }, "dtype"_a,
      nb::sig("def numpy_dtype(dtype: DTypeLike) -> Any"), "NumPy's dtype for one of ours.");
  m.def(
      "shared_runtime",
      [](const std::optional<std::string>& backend) {
        if (!backend) return capi::shared_operations()->shared_runtime();
        const ChosenBackend named = choose_backend(*backend);
        require(named.backend, "backend \"{}\" is unknown; this build has {}", *backend,
                backend_names());
        return capi::shared_operations(named)->shared_runtime();
      },
      "backend"_a = nb::none(),
      "The runtime that all executors on a backend share; None: \"auto\".");
  m.def("memory_at", &memory_at, "address"_a, "bytes"_a, "owner"_a,
        nb::sig("def memory_at(address: int, bytes: int, owner: object) -> memoryview"),
        "A writable view of memory that `owner` keeps alive.");
  m.def("copy_tensor", &copy_tensor, "tensor"_a, "buffer"_a,
        "Copies a tensor's elements in row-major order into a buffer of its executor.");
  bind_sdk_buffer(m);
  bind_sdk_ops(m);
  bind_sdk_ffi(m);
}

}  // namespace hologram::python
