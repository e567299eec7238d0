// python/_core/device_key.h: what a call of an operator on the device is known by.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "runtime/dlpack.h"

namespace hologram::python {

/// How arguments of operators are read.
struct DeviceTypes {
  const dlpack::Exchange* exchange = nullptr;
  std::vector<PyObject*> tensors{};    // the types whose instances are plain tensors
  std::vector<PyObject*> constants{};  // types with one instance a value: dtypes, layouts
  std::vector<PyObject*> named{};      // types that their text tells all of: devices

  static DeviceTypes& of_process();
};

/// Which numbers are not part of the key, as the call takes them as tensors: those at positions of
/// the schema, or by the names of keywords.
struct OpenNumbers {
  std::vector<bool> positions{};
  PyObject* names = nullptr;  // a frozenset, borrowed
};

/// The arguments of one call.
struct DeviceArguments {
  std::string key{};                      // types, sizes and strides of tensors; the other values
  std::vector<PyObject*> objects{};       // the tensors, borrowed
  std::vector<dlpack::Tensor> tensors{};  // the same, valid as long as they are
  std::vector<double> numbers{};          // those left out of the key
  bool nested = false;                    // some are in lists
  bool alone = true;                      // no tensor is the host's

  /// False, without an exception: there is an argument of a kind that no graph has.
  bool read(PyObject* args, PyObject* kwargs, const OpenNumbers* open);
  void clear() {
    key.clear();
    objects.clear();
    tensors.clear();
    numbers.clear();
    nested = false;
    alone = true;
  }

 private:
  bool read_value(PyObject* value, bool open);
  bool read_tensor(PyObject* value);
  void put(char tag, const void* bytes, size_t n);
  template <class T>
  void put(char tag, T value) {
    put(tag, &value, sizeof value);
  }
};

/// A tensor's lowest and highest address; the same for one without elements.
std::pair<const char*, const char*> extent(const dlpack::Tensor& t);

/// Whether `written` has one place in memory for each element, and shares none with another of the
/// tensors.
bool is_apart(const DeviceArguments& given, size_t written);

}  // namespace hologram::python
