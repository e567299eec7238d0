// python/_core/writes.h: which memory kept values were computed from, and writes into it that no
// version counter shows.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace hologram::python {

/// Whether a weak reference still names the object.
inline bool refers_to(PyObject* weak, PyObject* object) {
#if !defined(Py_LIMITED_API) && PY_VERSION_HEX >= 0x030d0000
  PyObject* found = nullptr;
  if (PyWeakref_GetRef(weak, &found) < 0) PyErr_Clear();
  Py_XDECREF(found);  // the caller holds the object: its address is not another's
  return found == object;
#else
  return PyWeakref_GetObject(weak) == object;
#endif
}

/// -1 for inference tensors, which keep none.
inline int64_t version_of(PyObject* tensor) {
  static PyObject* const name = PyUnicode_InternFromString("_version");
  PyObject* v = PyObject_GetAttr(tensor, name);
  if (!v) {
    PyErr_Clear();
    return -1;
  }
  const int64_t version = PyLong_AsLongLong(v);
  Py_DECREF(v);
  return version;
}

/// The addresses that the stamps of this process remember, and the epoch: whatever is kept by
/// identity, address and version holds only while the epoch stays the same. Used under the GIL.
class Writes {
 public:
  static Writes& of_process() {
    static Writes& writes = *new Writes;  // holds Python's objects, which end before statics do
    return writes;
  }

  int64_t epoch() const { return epoch_; }
  void next_epoch() { ++epoch_; }
  void watch(const void* address) { ++watched_[reinterpret_cast<uintptr_t>(address)]; }
  void forget(const void* address) {
    auto it = watched_.find(reinterpret_cast<uintptr_t>(address));
    if (it != watched_.end() && --it->second == 0) watched_.erase(it);
  }
  /// Whether a watched address lies in these bytes.
  bool watches(const void* address, size_t bytes) const {
    auto begin = reinterpret_cast<uintptr_t>(address);
    auto it = watched_.lower_bound(begin);
    return it != watched_.end() && it->first - begin < bytes;
  }
  /// Begins another epoch if a watched address lies in these bytes.
  void written(const void* address, size_t bytes) {
    if (watches(address, bytes)) next_epoch();
  }
  /// A tensor over these bytes with a version counter of its own, which may be written at once, and
  /// as long as it lives.
  void aliased(nanobind::handle alias, const void* address, size_t bytes) {
    if (!watches(address, bytes)) return;
    next_epoch();
    if (aliases_.size() >= sweep_at_) {
      look();
      sweep_at_ = std::max<size_t>(64, 2 * aliases_.size());
    }
    aliases_.push_back({nanobind::weakref(alias), version_of(alias.ptr()), address, bytes});
  }
  /// Begins another epoch if an alias has been written.
  void look() {
    if (aliases_.empty()) return;
    std::vector<Alias> aliases = std::exchange(aliases_, {});  // asking may run Python
    for (Alias& a : aliases) {
      nanobind::object tensor = a.weak();
      if (tensor.is_none()) continue;
      const int64_t version = version_of(tensor.ptr());
      if (version != a.version) written(a.address, a.bytes);
      a.version = version;
      aliases_.push_back(std::move(a));
    }
  }

 private:
  struct Alias {
    nanobind::object weak;
    int64_t version;
    const void* address;
    size_t bytes;
  };

  int64_t epoch_ = 0;
  std::vector<Alias> aliases_;
  size_t sweep_at_ = 64;
  std::map<uintptr_t, int> watched_;  // with how many stamps remember each
};

}  // namespace hologram::python
