// python/_core/stamps.h: whether the tensors that cached values were computed from have changed.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <vector>

#include "schedule/plan.h"

namespace hologram::python {

/// Whether a weak reference still names the object.
inline bool refers_to(PyObject* weak, PyObject* object) {
#if PY_VERSION_HEX >= 0x030d0000
  PyObject* found = nullptr;
  if (PyWeakref_GetRef(weak, &found) < 0) PyErr_Clear();
  Py_XDECREF(found);  // the caller holds the object: its address is not another's
  return found == object;
#else
  return PyWeakref_GetObject(weak) == object;
#endif
}

/// Per parameter of a plan's cache entries: which tensor, at which address and version, its content
/// was computed from last time.
class Stamps {
 public:
  explicit Stamps(const schedule::Plan& plan)
      : plan_(plan), stamps_(static_cast<size_t>(plan.num_parameters)) {
    for (const auto& entry : plan.cache)
      used_.insert(used_.end(), entry.parameters.begin(), entry.parameters.end());
    std::sort(used_.begin(), used_.end());
    used_.erase(std::unique(used_.begin(), used_.end()), used_.end());
  }
  ~Stamps() {
    for (Stamp& s : stamps_) Py_XDECREF(s.weak);
  }
  Stamps(const Stamps&) = delete;
  Stamps& operator=(const Stamps&) = delete;

  /// Sets per cache entry whether one of its parameters is another tensor, or another version of
  /// it, than last time. `object(p)` is the tensor of parameter p, `data` the addresses by
  /// parameter. False with a Python exception.
  template <typename Object>
  bool check(Object object, void* const* data, std::vector<char>& stale) {
    stale.clear();
    if (plan_.cache.empty()) return true;
    static PyObject* const version_name = PyUnicode_InternFromString("_version");
    std::vector<char> changed(stamps_.size(), 0);
    for (int p : used_) {
      auto k = static_cast<size_t>(p);
      Stamp& s = stamps_[k];
      PyObject* o = object(p);
      int64_t version = -1;
      if (PyObject* v = PyObject_GetAttr(o, version_name)) {
        version = PyLong_AsLongLong(v);
        Py_DECREF(v);
      } else {
        PyErr_Clear();  // inference tensors keep no version: always computed anew
      }
      bool same = s.weak && refers_to(s.weak, o) && s.data == data[k] && s.version == version;
      if (same && version >= 0) continue;
      changed[k] = 1;
      PyObject* weak = PyWeakref_NewRef(o, nullptr);
      if (!weak) return false;
      Py_XSETREF(s.weak, weak);
      s.data = data[k];
      s.version = version;
    }
    stale.assign(plan_.cache.size(), 0);
    for (size_t c = 0; c < plan_.cache.size(); ++c)
      for (int p : plan_.cache[c].parameters) stale[c] |= changed[static_cast<size_t>(p)];
    return true;
  }

 private:
  struct Stamp {
    PyObject* weak = nullptr;  // weak reference to the tensor
    void* data = nullptr;
    int64_t version = -1;
  };
  const schedule::Plan& plan_;
  std::vector<Stamp> stamps_;
  std::vector<int> used_;
};

}  // namespace hologram::python
