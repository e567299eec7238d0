// python/_core/writes.h: which memory kept values were computed from, and writes into it that no
// version counter shows.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <map>

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

/// The object that a weak reference names, or none.
inline nanobind::object referent(PyObject* weak) {
  nanobind::object found = nanobind::steal(PyObject_CallNoArgs(weak));
  if (!found.is_valid()) PyErr_Clear();
  return found.is_none() ? nanobind::object() : found;
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
  void watch(const void* address) {
    ++watched_[reinterpret_cast<uintptr_t>(address)];
    ++changes_;
  }
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
  /// Begins another epoch if a watched address lies in these bytes, and tells it.
  bool written(const void* address, size_t bytes) {
    const bool watched = watches(address, bytes);
    if (watched) next_epoch();
    return watched;
  }
  /// How often an address has begun to be watched: what is not watched stays so while it is the same.
  int64_t changes() const { return changes_; }

 private:
  int64_t epoch_ = 0, changes_ = 0;
  std::map<uintptr_t, int> watched_;  // with how many stamps remember each
};

}  // namespace hologram::python
