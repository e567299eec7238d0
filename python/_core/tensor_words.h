// python/_core/tensor_words.h: what lies in the memory of PyTorch's tensors: versions, storages and
// how many tensors hold one.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace hologram::python {

/// What tells whether a tensor's memory may have been written.
struct TensorState {
  int64_t version = -1;           // -1: an inference tensor, which keeps none
  const void* storage = nullptr;  // null: not known
  uint32_t holders = 1;           // tensors that hold the storage, this one among them
};

/// What tells that a tensor's elements begin where they did, as long as its type is the same.
struct TensorPlace {
  const void *implementation = nullptr, *storage = nullptr, *data = nullptr;  // null: not known
  int64_t offset = 0;                                                         // in elements
  bool operator==(const TensorPlace&) const = default;
};

/// Where a tensor's object, its implementation, storage and version counter keep what is read at
/// each call. The places are learned from tensors of which all is known; where that fails Python is
/// asked, which takes 0.5 µs a tensor. Used under the GIL.
class TensorWords {
 public:
  static TensorWords& of_process();

  /// samples: (tensor, address of its implementation, of its storage, version or -1, number of its
  /// version counter, tensors that hold the storage, address of the storage's memory, offset);
  /// type: of PyTorch's tensors; ask: callable that gives a tensor's holders. → whether what
  /// look() tells has been found.
  bool learn(const nanobind::list& samples, nanobind::handle type, nanobind::object ask);
  /// Learns the place of what is 1 in the storage of `tensor`, and 0 once `change()` has run.
  bool learn_resizable(nanobind::handle tensor, nanobind::handle change);
  /// Learns where a storage keeps what allocates its memory anew, which is the same in all of `own`
  /// and missing in `foreign`, a tensor of memory that is not PyTorch's.
  bool learn_allocator(const nanobind::list& own, nanobind::handle foreign);
  /// From here on Python is asked.
  void forget() {
    known_ = false;
    allocator_ = nullptr;
  }
  bool known() const { return known_; }

  bool is_tensor(PyObject* object) const;
  /// Of an object that is_tensor().
  TensorState look(PyObject* tensor) const { return known_ ? read(tensor) : ask(tensor); }
  /// Of any object that has a version.
  TensorState look_at_any(PyObject* object) const;

  /// Of an object of any kind; places are not known without the words that tell of them.
  TensorPlace place(PyObject* object) const {
    if (!known_ || !data_ || !offset_ || !is_tensor(object)) return {};
    const void* implementation = implementation_of(object);
    const void* storage = implementation ? at(implementation, storage_) : nullptr;
    if (!storage) return {};
    return {implementation, storage, at(storage, data_),
            static_cast<int64_t>(reinterpret_cast<intptr_t>(at(implementation, offset_)))};
  }

  /// Null: none.
  const void* storage_of(PyObject* tensor) const {
    const void* implementation = implementation_of(tensor);
    return implementation ? at(implementation, storage_) : nullptr;
  }
  /// Python's object for a storage, once made, is one of its holders as long as tensors are.
  static uint32_t holders_of(const void* storage) {
    return half(storage, count_at) - (half(storage, wrapped_at) >> 31);
  }
  /// Reads a word of each line that calls read of a tensor, which a model's weights have driven out
  /// of the caches: where nothing else is done between two tensors, a processor looks for those of
  /// many at once. Fetching by instructions that may be left undone would not bring pages.
  uint64_t touch(PyObject* object) const {
    if (!known_ || !is_tensor(object)) return 0;
    const void* implementation = implementation_of(object);
    if (!implementation) return 0;
    __builtin_prefetch(static_cast<const char*>(implementation) + 2 * line);
    const void *storage = at(implementation, storage_), *counter = at(implementation, counter_);
    uint64_t sum = half(implementation, line);
    if (storage) sum += half(storage, count_at);
    if (counter) sum += half(counter, version_at);
    return sum;
  }

  /// Moves the tensor's version, as each of PyTorch's writes does. False: its place is not known.
  bool move_version(PyObject* tensor) const {
    if (!known_ || !is_tensor(tensor)) return false;
    const void* counter = at(implementation_of(tensor), counter_);
    if (!counter) return true;
    void* version = static_cast<char*>(const_cast<void*>(counter)) + version_at;
    __atomic_fetch_add(static_cast<uint32_t*>(version), 1U, __ATOMIC_RELAXED);
    return true;
  }

  /// How many hold the tensor's implementation: its object alone, or C++ too, DLPack's capsules and
  /// views of it.
  uint32_t uses_of(PyObject* tensor) const { return half(implementation_of(tensor), count_at); }
  /// Whether no NumPy array has been made of the storage's memory.
  bool is_resizable(const void* storage) const {
    return resizable_ && static_cast<const char*>(storage)[resizable_] != 0;
  }
  /// Lets PyTorch give the tensor other memory when it is resized, as it does its own: what it was
  /// made over is then given back. Of a tensor of the host that nobody else has seen.
  void let_resize(PyObject* tensor) const {
    char* storage =
        allocator_ ? static_cast<char*>(const_cast<void*>(storage_of(tensor))) : nullptr;
    if (!storage || at(storage, allocator_at_)) return;
    std::memcpy(storage + allocator_at_, &allocator_, sizeof allocator_);
    storage[resizable_] = 1;
  }

 private:
  static constexpr size_t count_at = 8, wrapped_at = 12, version_at = 16, line = 64;

  static const void* at(const void* base, size_t place) {
    return *reinterpret_cast<void* const*>(static_cast<const char*>(base) + place);
  }
  static uint32_t half(const void* base, size_t place) {
    return __atomic_load_n(
        reinterpret_cast<const uint32_t*>(static_cast<const char*>(base) + place),
        __ATOMIC_RELAXED);
  }
  const void* implementation_of(PyObject* tensor) const { return at(tensor, implementation_); }
  TensorState read(PyObject* tensor) const {
    const void* implementation = implementation_of(tensor);
    const void* counter = at(implementation, counter_);
    TensorState out{counter ? int64_t{half(counter, version_at)} : -1, at(implementation, storage_),
                    1};
    if (out.storage) out.holders = holders_of(out.storage);
    return out;
  }
  TensorState ask(PyObject* tensor) const;

  bool known_ = false;
  size_t implementation_ = 0, storage_ = 0, counter_ = 0, resizable_ = 0, allocator_at_ = 0;
  size_t data_ = 0, offset_ = 0;     // 0: not known
  const void* allocator_ = nullptr;  // null: not known
  nanobind::object type_, ask_;
  mutable std::array<nanobind::object, 2> kinds_;  // types that have been found to be tensors'
};

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

inline bool is_parameter(nanobind::handle tensor) {
  static PyObject* const type =
      nanobind::object(nanobind::module_::import_("torch.nn").attr("Parameter")).release().ptr();
  return PyObject_IsInstance(tensor.ptr(), type) == 1;
}

}  // namespace hologram::python
