// python/_core/sdk_buffer.cpp: hologram.Buffer: elements that NumPy, PyTorch and Python can share.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <cstring>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "numpy_api.h"
#include "sdk.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace hologram::python {
namespace {

/// Above so many bytes a copy or kernel lets other Python threads run.
constexpr uint64_t long_copy = uint64_t{1} << 20;

/// A buffer's device by DLPack's numbers.
std::tuple<int, int> device_of(const PyBuffer& b) {
  int32_t type = 0, id = 0;
  raise(hologram_tensor_dlpack_device_type(b.executor_handle, &type));
  raise(hologram_tensor_dlpack_device_id(b.executor_handle, &id));
  return {type, id};
}

/// Whether Python may look at the memory itself.
bool on_host(const PyBuffer& b) { return std::get<0>(device_of(b)) == 1; }

/// A view that is released unless detach() gives it away; of a device's memory a copy.
class View {
 public:
  explicit View(const PyBuffer& b) {
    if (on_host(b)) {
      raise(hologram_buffer_export(b.alive(), &data, &bytes, &view_));
      return;
    }
    copy_.resize(b.size() * static_cast<uint64_t>(item_size(b.dtype)));
    data = copy_.data();
    bytes = copy_.size();
    raise(hologram_buffer_to_bytes(b.executor_handle, b.alive(), data, bytes, nullptr));
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  ~View() { hologram_view_release(view_); }
  void* detach() { return std::exchange(view_, nullptr); }

  void* data = nullptr;
  uint64_t bytes = 0;

 private:
  void* view_ = nullptr;
  std::vector<std::byte> copy_;
};

// --- the buffer protocol

struct ExportedView {
  void* view;
  Py_ssize_t shape, stride;
};

int get_buffer(PyObject* self, Py_buffer* out, int flags) {
  const PyBuffer& b = *nb::inst_ptr<PyBuffer>(self);
  out->obj = nullptr;
  const char* format = format_of(b.dtype);
  if ((flags & PyBUF_FORMAT) != 0 && !format) {
    PyErr_SetString(PyExc_BufferError,
                    "the buffer protocol has no bfloat16; use to_numpy() with ml_dtypes, "
                    "__dlpack__ or to_bytes()");
    return -1;
  }
  void* data = nullptr;
  void* view = nullptr;
  uint64_t bytes = 0;
  const hologram_status status =
      b.handle ? hologram_buffer_export(b.handle, &data, &bytes, &view) : HOLOGRAM_NOT_FOUND;
  if (status != HOLOGRAM_OK) {
    PyErr_SetString(hologram_error, b.handle ? hologram_last_error() : "this Buffer was freed");
    return -1;
  }
  auto* e = static_cast<ExportedView*>(PyMem_Malloc(sizeof(ExportedView)));
  if (!e) {
    hologram_view_release(view);
    PyErr_NoMemory();
    return -1;
  }
  const auto size = static_cast<Py_ssize_t>(item_size(b.dtype));
  *e = {view, static_cast<Py_ssize_t>(bytes) / size, size};
  out->obj = Py_NewRef(self);
  out->buf = data;
  out->len = static_cast<Py_ssize_t>(bytes);
  out->itemsize = size;
  out->readonly = 0;
  out->ndim = 1;
  out->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format) : nullptr;
  out->shape = (flags & PyBUF_ND) != 0 ? &e->shape : nullptr;
  out->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? &e->stride : nullptr;
  out->suboffsets = nullptr;
  out->internal = e;
  return 0;
}

void release_buffer(PyObject*, Py_buffer* out) {
  auto* e = static_cast<ExportedView*>(out->internal);
  hologram_view_release(e->view);
  PyMem_Free(e);
}

PyType_Slot buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                              {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                              {0, nullptr}};

// --- NumPy

void copy_from_numpy(PyBuffer& b, nb::handle array) {
  const hologram_handle handle = b.alive();
  if (!numpy::is_array(array.ptr()))
    throw nb::type_error(
        fmt::format(
            "Buffer.from_numpy: expected a numpy.ndarray, got {}",
            nb::type_name(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(array.ptr())))).c_str())
            .c_str());
  const numpy::Array* a = numpy::as_array(array.ptr());
  hologram_dtype t;
  if (!numpy::dtype_of(*a, t) || t != b.dtype)
    throw nb::value_error(
        fmt::format("Buffer.from_numpy: the array's dtype is {}, the buffer's {}; convert with "
                    "array.astype",
                    nb::str(nb::handle(reinterpret_cast<PyObject*>(a->descr))).c_str(),
                    dtype_name(b.dtype))
            .c_str());
  uint64_t n = 1;
  for (int i = 0; i < a->ndim; ++i) n *= static_cast<uint64_t>(a->shape[i]);
  if (n != b.size())
    throw nb::value_error(
        fmt::format("Buffer.from_numpy: the array has {} elements, the buffer {}", n, b.size())
            .c_str());
  nb::object dense;
  if ((a->flags & numpy::c_contiguous) == 0) {
    dense = numpy::contiguous(array);
    a = numpy::as_array(dense.ptr());
  }
  const uint64_t bytes = n * static_cast<uint64_t>(item_size(t));
  std::optional<nb::gil_scoped_release> others;
  if (bytes >= long_copy) others.emplace();
  raise(hologram_buffer_copy_from_bytes(b.executor_handle, handle, a->data, bytes));
}

void release_view(PyObject* capsule) {
  hologram_view_release(PyCapsule_GetPointer(capsule, nullptr));
}

nb::object to_numpy(const PyBuffer& b, bool copy) {
  if (copy) {
    const auto n = static_cast<Py_ssize_t>(b.size());
    nb::object array = numpy::make_array(b.dtype, 1, &n);
    const uint64_t bytes = static_cast<uint64_t>(n) * static_cast<uint64_t>(item_size(b.dtype));
    void* data = numpy::as_array(array.ptr())->data;
    std::optional<nb::gil_scoped_release> others;
    if (bytes >= long_copy) others.emplace();
    raise(hologram_buffer_to_bytes(b.executor_handle, b.alive(), data, bytes, nullptr));
    others.reset();
    return array;
  }
  if (!on_host(b))
    throw nb::buffer_error("Buffer.to_numpy: the memory is a device's; only copy=True sees it");
  View view(b);
  const auto n = static_cast<Py_ssize_t>(view.bytes) / item_size(b.dtype);
  void* data = view.data;
  PyObject* keeper = PyCapsule_New(view.detach(), nullptr, release_view);
  if (!keeper) nb::raise_python_error();
  return numpy::make_array(b.dtype, 1, &n, data, keeper);
}

nb::object array_protocol(PyBuffer& b, nb::handle dtype, nb::handle copy) {
  const bool copies = copy.is_none() ? !on_host(b) : nb::cast<bool>(copy);
  nb::object array = to_numpy(b, copies);
  if (dtype.is_none()) return array;
  return array.attr("astype")(dtype, "copy"_a = false);
}

// --- bytes

void from_bytes(PyBuffer& b, nb::handle bytes) {
  const hologram_handle handle = b.alive();
  Py_buffer view;
  if (PyObject_GetBuffer(bytes.ptr(), &view, PyBUF_SIMPLE) != 0) nb::raise_python_error();
  const hologram_status status = hologram_buffer_copy_from_bytes(
      b.executor_handle, handle, view.buf, static_cast<size_t>(view.len));
  PyBuffer_Release(&view);
  raise(status);
}

nb::object to_bytes(PyBuffer& b) {
  const uint64_t size = b.size() * static_cast<uint64_t>(item_size(b.dtype));
  PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size));
  if (!bytes) nb::raise_python_error();
  nb::object result = nb::steal(bytes);
  raise(hologram_buffer_to_bytes(b.executor_handle, b.alive(), PyBytes_AsString(bytes), size,
                                 nullptr));
  return result;
}

// --- elements

void fill(PyBuffer& b, nb::handle value) {
  const uint64_t n = b.size();
  if (b.dtype == HOLOGRAM_F32) {
    const double v = PyFloat_AsDouble(value.ptr());
    if (v == -1.0 && PyErr_Occurred()) nb::raise_python_error();
    const auto element = static_cast<float>(v);
    raise(hologram_buffer_fill_element(b.executor_handle, b.alive(), &element, n));
    return;
  }
  uint64_t element = 0;  // any element's bytes
  if (b.dtype == HOLOGRAM_BF16) {
    const double v = PyFloat_AsDouble(value.ptr());
    if (v == -1.0 && PyErr_Occurred()) nb::raise_python_error();
    const auto single = static_cast<float>(v);
    uint32_t bits;
    std::memcpy(&bits, &single, sizeof bits);
    element = v != v ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  } else {
    nb::object bytes = nb::module_::import_("struct").attr("pack")(
        (std::string("=") + format_of(b.dtype)).c_str(), value);
    std::memcpy(&element, PyBytes_AsString(bytes.ptr()),
                static_cast<size_t>(PyBytes_Size(bytes.ptr())));
  }
  raise(hologram_buffer_fill_element(b.executor_handle, b.alive(), &element, n));
}

void copy_from(PyBuffer& b, const PyBuffer& source) {
  if (source.dtype != b.dtype)
    throw nb::value_error(fmt::format("Buffer.copy_from: the source's dtype is {}, this one's {}",
                                      dtype_name(source.dtype), dtype_name(b.dtype))
                              .c_str());
  const uint64_t n = source.size();
  if (n != b.size())
    throw nb::value_error(
        fmt::format("Buffer.copy_from: the source has {} elements, this one {}", n, b.size())
            .c_str());
  raise(hologram_buffer_copy_u64(b.executor_handle, source.alive(), b.alive(), n));
}

nb::object slice(const PyBuffer& b, uint64_t offset, uint64_t length) {
  hologram_handle handle = 0;
  raise(hologram_buffer_slice(b.executor_handle, b.alive(), offset, length, &handle));
  return make_buffer(b.executor, handle, b.dtype);
}

/// The elements that a key names, if it is a number or a slice with step 1; nothing for others.
std::optional<std::pair<uint64_t, uint64_t>> range_of(const PyBuffer& b, nb::handle key) {
  const auto n = static_cast<Py_ssize_t>(b.size());
  if (PySlice_Check(key.ptr())) {
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(key.ptr(), &start, &stop, &step) != 0) nb::raise_python_error();
    const Py_ssize_t length = PySlice_AdjustIndices(n, &start, &stop, step);
    if (step != 1) return std::nullopt;
    return std::pair(static_cast<uint64_t>(start), static_cast<uint64_t>(length));
  }
  if (!PyLong_Check(key.ptr()) || PyBool_Check(key.ptr())) return std::nullopt;
  const Py_ssize_t at = PyNumber_AsSsize_t(key.ptr(), nullptr);
  if (at < -n || at >= n) return std::nullopt;
  return std::pair(static_cast<uint64_t>(at < 0 ? at + n : at), uint64_t{1});
}

nb::object get_item(const PyBuffer& b, nb::handle key) {
  const auto range = range_of(b, key);
  if (PySlice_Check(key.ptr())) {
    if (!range) throw nb::value_error("Buffer: slices must have step 1");
    return slice(b, range->first, range->second);
  }
  if (on_host(b)) return to_numpy(b, false)[key].attr("item")();
  if (!range) return to_numpy(b, true)[key].attr("item")();
  nb::object element = slice(b, range->first, 1);
  return to_numpy(nb::cast<PyBuffer&>(element), true)[nb::int_(0)].attr("item")();
}

/// As NumPy sets elements; on a device, only those that change are brought there.
void set_item(PyBuffer& b, nb::handle key, nb::handle value) {
  const auto range = range_of(b, key);
  const PyBuffer* source = as_buffer(value.ptr());
  if (range && source && source->dtype == b.dtype && source->size() == range->second) {
    nb::object part = slice(b, range->first, range->second);
    return copy_from(nb::cast<PyBuffer&>(part), *source);
  }
  if (on_host(b)) {
    to_numpy(b, false)[key] = value;
    return;
  }
  if (!range) {
    nb::object array = to_numpy(b, true);
    array[key] = value;
    return from_bytes(b, array);
  }
  const bool number = nb::cast<int>(nb::module_::import_("numpy").attr("ndim")(value)) == 0;
  const auto n = number ? Py_ssize_t{1} : static_cast<Py_ssize_t>(range->second);
  nb::object array = numpy::make_array(b.dtype, 1, &n);
  array[nb::ellipsis()] = value;
  nb::object part = slice(b, range->first, range->second);
  if (!number) return from_bytes(nb::cast<PyBuffer&>(part), array);
  raise(hologram_buffer_fill_element(b.executor_handle, nb::cast<PyBuffer&>(part).alive(),
                                     numpy::as_array(array.ptr())->data, range->second));
}

void resize(PyBuffer& b, int64_t size) {
  if (size < 0) throw nb::value_error("Buffer.resize: size must not be negative");
  const hologram_status status =
      hologram_buffer_resize(b.executor_handle, b.alive(), static_cast<uint64_t>(size));
  if (status == HOLOGRAM_BUSY) throw nb::buffer_error(hologram_last_error());
  raise(status);
}

// --- DLPack

nb::object to_dlpack(PyBuffer& b, nb::handle stream,
                     std::optional<std::tuple<int, int>> max_version,
                     std::optional<std::tuple<int, int>> device, std::optional<bool> copy) {
  if (const auto own = device_of(b); device && *device != own)
    throw nb::buffer_error(fmt::format("Buffer.__dlpack__: the memory is that of device ({}, {})",
                                       std::get<0>(own), std::get<1>(own))
                               .c_str());
  if (!stream.is_none() && on_host(b))
    throw nb::buffer_error(
        "Buffer.__dlpack__: stream must be None: the host's memory has no streams");
  PyBuffer fresh;
  PyBuffer* from = &b;
  if (copy.value_or(false)) {
    raise(hologram_executor_allocate(b.executor_handle, b.dtype, b.size(), HOLOGRAM_UNINITIALIZED,
                                     &fresh.handle));
    raise(hologram_buffer_copy_u64(b.executor_handle, b.alive(), fresh.handle, b.size()));
    from = &fresh;
  }
  const auto shape = static_cast<int64_t>(b.size());
  hologram_handle tensor = 0;
  raise(hologram_tensor_create(from->alive(), 1, &shape, nullptr, 0, &tensor));
  const bool versioned = max_version && std::get<0>(*max_version) >= 1;
  struct Done {
    hologram_handle tensor;
    ~Done() { hologram_tensor_cleanup(tensor); }
  } done{tensor};
  return dlpack_capsule(b.executor_handle, tensor, versioned);
}

// --- properties

std::string pool_of(const PyBuffer& b) {
  char text[16];
  raise(hologram_buffer_pool(b.alive(), text, sizeof text, nullptr));
  return text;
}

std::optional<int> class_of(const PyBuffer& b) {
  uint8_t boundary = 0, cls = 0;
  raise(hologram_buffer_is_boundary(b.alive(), &boundary));
  if (!boundary) return std::nullopt;
  raise(hologram_buffer_class_index(b.alive(), &cls));
  return cls;
}

std::string text_of_buffer(const PyBuffer& b) {
  uint64_t n = 0;
  if (!b.handle || hologram_buffer_length_u64(b.handle, &n) != HOLOGRAM_OK)
    return fmt::format("<hologram.Buffer of {}, freed>", dtype_name(b.dtype));
  const std::string pool = pool_of(b);
  std::string where = pool + " memory";
  if (auto cls = class_of(b)) where = fmt::format("boundary class {}", *cls);
  std::string values;
  if (format_of(b.dtype)) {
    const auto shown = static_cast<Py_ssize_t>(std::min<uint64_t>(n, 4));
    nb::object first = slice(b, 0, static_cast<uint64_t>(shown));
    View view(nb::cast<PyBuffer&>(first));
    nb::object list = nb::module_::import_("struct").attr("unpack")(
        (fmt::format("={}{}", shown, format_of(b.dtype))).c_str(),
        nb::bytes(view.data, static_cast<size_t>(shown) * static_cast<size_t>(item_size(b.dtype))));
    for (nb::handle v : nb::list(list)) {
      nb::object shorter = PyFloat_Check(v.ptr())
                               ? nb::module_::import_("builtins").attr("format")(v, "g")
                               : nb::object(nb::repr(v));
      values += fmt::format("{}{}", values.empty() ? ": " : ", ", nb::str(shorter).c_str());
    }
    if (n > 4) values += ", …";
  }
  return fmt::format("<hologram.Buffer of {} {} in {}{}>", n, dtype_name(b.dtype), where, values);
}

uintptr_t address(const PyBuffer& b) {
  void* p = nullptr;
  raise(hologram_buffer_as_mut_ptr(b.executor_handle, b.alive(), &p));
  return reinterpret_cast<uintptr_t>(p);
}

}  // namespace

nb::object make_buffer(nb::handle executor, hologram_handle handle, hologram_dtype dtype,
                       bool copied) {
  auto b = std::make_unique<PyBuffer>();
  b->handle = handle;
  b->executor_handle = nb::cast<PyExecutor&>(executor).handle;
  b->dtype = dtype;
  b->copied = copied;
  b->executor = nb::borrow(executor);
  nb::object result = nb::cast(b.get(), nb::rv_policy::take_ownership);
  b.release();
  return result;
}

PyBuffer* as_buffer(PyObject* object) {
  static const nb::handle type = nb::type<PyBuffer>();
  if (Py_TYPE(object) != reinterpret_cast<PyTypeObject*>(type.ptr()) &&
      !PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(type.ptr())))
    return nullptr;
  return nb::inst_ptr<PyBuffer>(object);
}

void bind_sdk_buffer(nb::module_& m) {
  nb::class_<PyBuffer>(
      m, "Buffer", nb::is_weak_referenceable(), nb::type_slots(buffer_slots),
      R"(A one-dimensional array of an executor, made by Executor.allocate and its like.

It shares its memory with NumPy (`to_numpy(copy=False)`, `numpy.asarray(buffer)`), with Python
(`memoryview(buffer)`) and with whatever speaks DLPack (`torch.from_dlpack(buffer)`). Views keep the
memory alive after free() and after the executor's end. Using a freed buffer raises HologramError.
)")
      .def_prop_ro("handle", &PyBuffer::alive, "Handle for hologram_ffi.")
      .def_prop_ro(
          "executor", [](const PyBuffer& b) { return b.executor; },
          nb::sig("def executor(self) -> Executor"), "The executor it belongs to.")
      .def_prop_ro("size", &PyBuffer::size, "Elements.")
      .def_prop_ro(
          "dtype", [](const PyBuffer& b) { return numpy_dtype(b.dtype); },
          nb::sig("def dtype(self) -> Any"), "NumPy's dtype (that of ml_dtypes for bfloat16).")
      .def_prop_ro(
          "itemsize", [](const PyBuffer& b) { return item_size(b.dtype); }, "Bytes of one element.")
      .def_prop_ro(
          "nbytes",
          [](const PyBuffer& b) { return b.size() * static_cast<uint64_t>(item_size(b.dtype)); },
          "Bytes of all elements.")
      .def_prop_ro("pool", &pool_of,
                   "\"boundary\", \"linear\" or, for wrapped memory, \"foreign\".")
      .def_prop_ro("class_index", &class_of, "Boundary class 0…95, None outside that pool.")
      .def_prop_ro(
          "copied", [](const PyBuffer& b) { return b.copied; },
          "Whether wrap() or from_dlpack() had to copy.")
      .def_prop_ro(
          "freed",
          [](const PyBuffer& b) {
            uint64_t n = 0;
            return !b.handle || hologram_buffer_length_u64(b.handle, &n) != HOLOGRAM_OK;
          },
          "Whether the buffer or its executor was freed.")
      .def_prop_ro("ptr", &address, "Address of the first element.")
      .def("__len__", &PyBuffer::size)
      .def("__getitem__", &get_item, nb::sig("def __getitem__(self, key: Any) -> Any"),
           "An element, or for a slice with step 1 a Buffer over the same memory.")
      .def("__setitem__", &set_item, nb::sig("def __setitem__(self, key: Any, value: Any) -> None"))
      .def("from_numpy", &copy_from_numpy, "array"_a,
           nb::sig("def from_numpy(self, array: NDArray[Any]) -> None"),
           R"(Copies the elements of an array of any shape, in row-major order.

Raises:
    TypeError: not an ndarray.
    ValueError: another dtype or number of elements.
    HologramError: the buffer was freed.
)")
      .def("to_numpy", &to_numpy, "copy"_a = true,
           nb::sig("def to_numpy(self, copy: bool = True) -> NDArray[Any]"),
           "A one-dimensional array: a copy, or with copy=False a view of the same memory.")
      .def("__array__", &array_protocol, "dtype"_a = nb::none(), "copy"_a = nb::none(),
           nb::sig(
               "def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]"))
      .def("from_bytes", &from_bytes, "data"_a,
           nb::sig(
               "def from_bytes(self, data: bytes | bytearray | memoryview | NDArray[Any]) -> None"),
           "Copies exactly nbytes bytes from whatever has contiguous bytes. ValueError otherwise.")
      .def("to_bytes", &to_bytes, nb::sig("def to_bytes(self) -> bytes"), "The elements' bytes.")
      .def("fill", &fill, "value"_a, nb::sig("def fill(self, value: float | int | bool) -> None"),
           "Sets every element.")
      .def("copy_from", &copy_from, "other"_a,
           "Copies another buffer of the same dtype and size; it may belong to another executor.")
      .def("slice", &slice, "offset"_a, "length"_a,
           nb::sig("def slice(self, offset: int, length: int) -> Buffer"),
           "A buffer over `length` elements from `offset` on, in the same memory.")
      .def("resize", &resize, "size"_a,
           "Changes the size; elements that stay keep their values, new ones are 0. BufferError "
           "while a view or slice exists.")
      .def(
          "canonicalize",
          [](const PyBuffer& b) {
            raise(hologram_buffer_canonicalize_all(b.executor_handle, b.alive()));
          },
          "Clears bit 0 of every byte.")
      .def(
          "is_canonical",
          [](const PyBuffer& b) {
            uint8_t yes = 0;
            raise(hologram_buffer_verify_canonical(b.executor_handle, b.alive(), &yes));
            return yes != 0;
          },
          "Whether bit 0 of every byte is clear.")
      .def(
          "__dlpack__", &to_dlpack, nb::kw_only(), "stream"_a = nb::none(),
          "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none(),
          nb::sig(
              "def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None "
              "= None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any"),
          "A DLPack capsule that shares the memory. BufferError for another device than its own, "
          "and "
          "for a stream of the host's memory; of a device's, all work on it is done.")
      .def("__dlpack_device__", &device_of, "DLPack's device type and number; (1, 0) is the host.")
      .def(
          "free", [](PyBuffer& b) { b.close(); },
          "Frees the buffer; idempotent. Views keep the memory alive.")
      .def("__repr__", &text_of_buffer);
}

}  // namespace hologram::python
