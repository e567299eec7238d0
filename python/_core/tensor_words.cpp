// python/_core/tensor_words.cpp: places in PyTorch's tensors, learned from some of which all is
// known.
#include "tensor_words.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace hologram::python {
namespace {

// A word is looked for among the first of an object: of the smallest that PyTorch has, 48 bytes of
// a Python object, 192 of a TensorImpl, 64 of a StorageImpl, whose allocator may lie behind them.
constexpr size_t object_bytes = 48, implementation_bytes = 192, storage_bytes = 64,
                 allocator_bytes = 80;

struct Sample {
  PyObject* tensor;
  const void *implementation, *storage;
  int64_t version, counter;
  uint32_t holders;
  const void *data, *offset;
};

const void* word(const void* base, size_t place) {
  return *reinterpret_cast<void* const*>(static_cast<const char*>(base) + place);
}

// The only place of a word that `holds(place)`; 0: none, or several.
template <class Holds>
size_t place_of(size_t bytes, const Holds& holds) {
  size_t found = 0;
  for (size_t p = sizeof(void*); p < bytes; p += sizeof(void*))
    if (holds(p)) {
      if (found) return 0;
      found = p;
    }
  return found;
}

// Whether the words are the same where samples share a version counter, and only there, and null
// where they have none: no other word is, so that it is an address.
bool is_counter(const std::vector<Sample>& samples, size_t place) {
  for (const Sample& a : samples) {
    const void* mine = word(a.implementation, place);
    if ((mine == nullptr) != (a.version < 0)) return false;
    for (const Sample& b : samples)
      if (mine && (mine == word(b.implementation, place)) != (a.counter == b.counter)) return false;
  }
  return true;
}

}  // namespace

TensorWords& TensorWords::of_process() {
  static TensorWords& words = *new TensorWords;  // holds Python's objects, which end before statics
  return words;
}

bool TensorWords::learn(const nb::list& list, nb::handle type, nb::object ask) {
  known_ = false;
  resizable_ = 0;
  allocator_ = nullptr;
  type_ = nb::borrow(type);
  kinds_ = {};
  ask_ = std::move(ask);
  std::vector<Sample> samples;
  auto address = [](nb::handle n) { return reinterpret_cast<const void*>(nb::cast<uintptr_t>(n)); };
  for (nb::handle s : list)
    samples.push_back({nb::handle(s[0]).ptr(), address(s[1]), address(s[2]),
                       nb::cast<int64_t>(s[3]), nb::cast<int64_t>(s[4]), nb::cast<uint32_t>(s[5]),
                       address(s[6]), address(s[7])});
  auto all = [&](auto&& holds) { return std::ranges::all_of(samples, holds); };
  implementation_ = place_of(object_bytes, [&](size_t p) {
    return all([p](const Sample& s) { return word(s.tensor, p) == s.implementation; });
  });
  if (samples.empty() || !implementation_) return false;
  storage_ = place_of(implementation_bytes, [&](size_t p) {
    return all([p](const Sample& s) { return word(s.implementation, p) == s.storage; });
  });
  counter_ = place_of(implementation_bytes, [&](size_t p) { return is_counter(samples, p); });
  offset_ = place_of(implementation_bytes, [&](size_t p) {
    return all([p](const Sample& s) { return word(s.implementation, p) == s.offset; });
  });
  data_ = place_of(storage_bytes, [&](size_t p) {
    return all([p](const Sample& s) { return word(s.storage, p) == s.data; });
  });
  known_ = storage_ && counter_ && all([this](const Sample& s) {
             const TensorState state = read(s.tensor);
             return state.version == s.version && state.holders == s.holders;
           });
  return known_;
}

bool TensorWords::learn_resizable(nb::handle tensor, nb::handle change) {
  if (!known_) return false;
  char before[storage_bytes], after[storage_bytes];
  const void* storage = storage_of(tensor.ptr());
  std::memcpy(before, storage, storage_bytes);
  nb::object held = change();
  std::memcpy(after, storage, storage_bytes);
  size_t found = 0;
  for (size_t i = version_at; i < storage_bytes; ++i)
    if (before[i] != after[i]) {
      if (found || before[i] != 1 || after[i] != 0) return false;
      found = i;
    }
  resizable_ = found;
  return found != 0;
}

bool TensorWords::learn_allocator(const nb::list& own, nb::handle foreign) {
  allocator_ = nullptr;
  if (!known_ || !resizable_) return false;
  std::vector<const void*> storages;
  for (nb::handle tensor : own) storages.push_back(storage_of(tensor.ptr()));
  const void* other = storage_of(foreign.ptr());
  auto all = [&](auto&& holds) { return std::ranges::all_of(storages, holds); };
  if (storages.empty() || is_resizable(other) || !all([this](auto* s) { return is_resizable(s); }))
    return false;
  allocator_at_ = place_of(allocator_bytes, [&](size_t p) {
    const void* first = word(storages[0], p);
    return p != resizable_ / sizeof(void*) * sizeof(void*) && first && !word(other, p) &&
           all([&](auto* s) { return word(s, p) == first; });
  });
  if (allocator_at_) allocator_ = word(storages[0], allocator_at_);
  return allocator_ != nullptr;
}

bool TensorWords::is_tensor(PyObject* object) const {
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (type == kinds_[0].ptr() || type == kinds_[1].ptr()) return true;
  if (!type_.is_valid() ||
      !PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(type_.ptr())))
    return false;
  kinds_[1] = std::exchange(kinds_[0], nb::borrow(type));
  return true;
}

TensorState TensorWords::look_at_any(PyObject* object) const {
  return is_tensor(object) ? look(object) : TensorState{version_of(object)};
}

TensorState TensorWords::ask(PyObject* tensor) const {
  TensorState out{version_of(tensor)};
  if (!ask_.is_valid()) return out;
  PyObject* holders = PyObject_CallFunctionObjArgs(ask_.ptr(), tensor, nullptr);
  if (holders) {
    out.holders = static_cast<uint32_t>(PyLong_AsUnsignedLong(holders));
    Py_DECREF(holders);
  }
  if (PyErr_Occurred()) {  // a tensor without a storage
    PyErr_Clear();
    out.holders = 2;
  }
  return out;
}

}  // namespace hologram::python
