// python/_core/device_key.cpp: arguments of an operator as bytes.
#include "device_key.h"

#include <algorithm>

namespace nb = nanobind;

namespace hologram::python {

DeviceTypes& DeviceTypes::of_process() {
  static DeviceTypes& types = *new DeviceTypes;  // holds Python's objects, which end before statics
  return types;
}

void DeviceArguments::put(char tag, const void* bytes, size_t n) {
  key.push_back(tag);
  key.append(static_cast<const char*>(bytes), n);
}

bool DeviceArguments::read_tensor(PyObject* value) {
  dlpack::Tensor t;
  if (DeviceTypes::of_process().exchange->view_of_object(value, &t) != 0) {
    PyErr_Clear();
    return false;
  }
  struct {
    dlpack::DataType dtype;
    int32_t rank, device;
  } kind{t.dtype, t.ndim, t.device.type};
  put('t', kind);
  const auto rank = static_cast<size_t>(t.ndim);
  if (rank > 0) {
    key.append(reinterpret_cast<const char*>(t.shape), rank * sizeof(int64_t));
    key.append(reinterpret_cast<const char*>(t.strides), rank * sizeof(int64_t));
  }
  alone = alone && t.device.type == dlpack::external;
  objects.push_back(value);
  tensors.push_back(t);
  return true;
}

bool DeviceArguments::read_value(PyObject* value, bool open) {
  const DeviceTypes& types = DeviceTypes::of_process();
  auto is_among = [type = reinterpret_cast<PyObject*>(Py_TYPE(value))](const auto& some) {
    return std::ranges::find(some, type) != some.end();
  };
  if (is_among(types.tensors)) return read_tensor(value);
  if (value == Py_None) return key.push_back('n'), true;
  if (PyBool_Check(value)) return put('b', value == Py_True), true;
  if (PyFloat_CheckExact(value)) {
    const double number = PyFloat_AsDouble(value);
    if (!open) return put('f', number), true;
    numbers.push_back(number);
    return key.push_back('F'), true;
  }
  if (PyLong_CheckExact(value)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow) return false;
    if (!open) return put('i', number), true;
    numbers.push_back(static_cast<double>(number));
    return key.push_back('I'), true;
  }
  if (PyList_CheckExact(value) || PyTuple_CheckExact(value)) {
    const Py_ssize_t n = PySequence_Size(value);
    put('l', n);
    nested = true;
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* item =
          PyList_CheckExact(value) ? PyList_GetItem(value, i) : PyTuple_GetItem(value, i);
      if (!read_value(item, false)) return false;
    }
    return true;
  }
  if (is_among(types.constants)) return put('o', value), true;
  const bool text = PyUnicode_CheckExact(value);
  if (!text && !is_among(types.named)) return false;
  nb::object said = text ? nb::borrow(value) : nb::steal(PyObject_Str(value));
  Py_ssize_t n = 0;
  const char* bytes = said.is_valid() ? PyUnicode_AsUTF8AndSize(said.ptr(), &n) : nullptr;
  if (!bytes) return PyErr_Clear(), false;
  put(text ? 's' : 'd', n);
  key.append(bytes, static_cast<size_t>(n));
  return true;
}

bool DeviceArguments::read(PyObject* args, PyObject* kwargs, const OpenNumbers* open) {
  const Py_ssize_t n = PyTuple_Size(args);
  for (Py_ssize_t i = 0; i < n; ++i) {
    const auto k = static_cast<size_t>(i);
    const bool is_open = open && k < open->positions.size() && open->positions[k];
    if (!read_value(PyTuple_GetItem(args, i), is_open)) return false;
  }
  if (!kwargs) return true;
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(kwargs, &at, &name, &value);) {
    Py_ssize_t length = 0;
    const char* text = PyUnicode_AsUTF8AndSize(name, &length);
    if (!text) return PyErr_Clear(), false;
    put('k', text, static_cast<size_t>(length));
    const bool is_open = open && PySet_Contains(open->names, name) == 1;
    if (!read_value(value, is_open)) return false;
  }
  return true;
}

std::pair<const char*, const char*> extent(const dlpack::Tensor& t) {
  const char* begin = static_cast<const char*>(t.data) + t.byte_offset;
  int64_t last = 0;
  for (int32_t d = 0; d < t.ndim; ++d) {
    if (t.shape[d] == 0) return {begin, begin};
    last += (t.shape[d] - 1) * t.strides[d];
  }
  return {begin, begin + (last + 1) * ((t.dtype.bits * t.dtype.lanes + 7) / 8)};
}

bool is_apart(const DeviceArguments& given, size_t written) {
  const dlpack::Tensor& t = given.tensors[written];
  for (int32_t d = 0; d < t.ndim; ++d)
    if (t.strides[d] == 0 && t.shape[d] > 1) return false;
  const auto [begin, end] = extent(t);
  for (size_t i = 0; i < given.tensors.size(); ++i) {
    if (given.objects[i] == given.objects[written]) continue;
    const auto [first, last] = extent(given.tensors[i]);
    if (first != last && begin != end && first < end && begin < last) return false;
  }
  return true;
}

}  // namespace hologram::python
