// python/_core/identities.h: numbers for objects, none of which is ever given twice.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>

#include "writes.h"

namespace hologram::python {

/// An address may be another object's later; a number is not. Used under the GIL.
class Identities {
 public:
  static Identities& of_process() {
    static Identities& identities = *new Identities;  // holds Python's objects
    return identities;
  }

  /// 0 for an object that no weak reference can name.
  uint64_t of(PyObject* object) {
    if (auto known = entries_.find(object);
        known != entries_.end() && refers_to(known->second.weak.ptr(), object))
      return known->second.number;
    nanobind::object weak = nanobind::steal(PyWeakref_NewRef(object, nullptr));
    if (!weak.is_valid()) {
      PyErr_Clear();
      return 0;
    }
    if (entries_.size() >= most_) forget_gone();
    entries_[object] = {std::move(weak), ++last_};
    return last_;
  }
  /// Drops the weak reference to an object.
  void drop(PyObject* object) { entries_.erase(object); }

 private:
  struct Entry {
    nanobind::object weak;
    uint64_t number;
  };

  void forget_gone() {
    std::erase_if(entries_,
                  [](const auto& e) { return !referent(e.second.weak.ptr()).is_valid(); });
    most_ = 2 * entries_.size() + 1024;
  }

  std::unordered_map<PyObject*, Entry> entries_;
  uint64_t last_ = 0;
  size_t most_ = 1024;
};

}  // namespace hologram::python
