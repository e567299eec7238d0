// python/_core/freeze_guard.cpp: whether a frozen model and its arguments still are as captured.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <vector>

#include "bindings.h"
#include "runtime/dlpack.h"
#include "torch_common.h"

namespace nb = nanobind;

namespace hologram::python {
namespace {

/// What is remembered of a captured model: entries of its modules' dictionaries, by identity, and
/// the layout of every tensor that its graph reads.
class FreezeGuard {
 public:
  FreezeGuard(nb::handle capsule, const nb::list& entries, const nb::list& sizes,
              const nb::list& tensors)
      : exchange_(exchange_of(capsule)) {
    for (nb::handle e : entries)
      entries_.push_back({nb::borrow<nb::dict>(e[0]), nb::borrow(e[1]), nb::borrow(e[2])});
    for (nb::handle s : sizes)
      sizes_.push_back({nb::borrow<nb::dict>(s[0]), nb::cast<Py_ssize_t>(s[1])});
    for (nb::handle t : tensors) layouts_.push_back(layout_of(t.ptr()));
  }

  /// Whether the modules' dictionaries are as they were.
  bool same_model() const {
    for (const Entry& e : entries_)
      if (PyDict_GetItemWithError(e.owner.ptr(), e.key.ptr()) != e.value.ptr()) return false;
    return std::all_of(sizes_.begin(), sizes_.end(),
                       [](const Size& s) { return PyDict_Size(s.owner.ptr()) == s.count; });
  }

  /// Whether these tensors have the captured types, dtypes, devices, sizes and strides.
  bool same_tensors(const nb::list& tensors) const {
    if (tensors.size() != layouts_.size()) return false;
    for (size_t i = 0; i < layouts_.size(); ++i) {
      const Layout& l = layouts_[i];
      PyObject* o = PyList_GET_ITEM(tensors.ptr(), static_cast<Py_ssize_t>(i));
      if (reinterpret_cast<PyObject*>(Py_TYPE(o)) != l.type.ptr()) return false;
      dlpack::Tensor t;
      if (exchange_->view_of_object(o, &t) != 0) {
        PyErr_Clear();
        return false;
      }
      size_t rank = l.sizes.size();
      if (t.device.type != l.device.type || t.device.id != l.device.id ||
          t.dtype.code != l.dtype.code || t.dtype.bits != l.dtype.bits ||
          static_cast<size_t>(t.ndim) != rank ||
          !std::equal(t.shape, t.shape + rank, l.sizes.begin()) ||
          !std::equal(t.strides, t.strides + rank, l.strides.begin()))
        return false;
    }
    return true;
  }

 private:
  struct Entry {
    nb::dict owner;
    nb::object key, value;
  };
  struct Size {
    nb::dict owner;
    Py_ssize_t count;
  };
  struct Layout {
    nb::object type;
    dlpack::Device device;
    dlpack::DataType dtype;
    std::vector<int64_t> sizes, strides;
  };

  Layout layout_of(PyObject* o) const {
    dlpack::Tensor t;
    if (exchange_->view_of_object(o, &t) != 0) nb::raise_python_error();
    return {nb::borrow(reinterpret_cast<PyObject*>(Py_TYPE(o))),
            t.device,
            t.dtype,
            {t.shape, t.shape + t.ndim},
            {t.strides, t.strides + t.ndim}};
  }

  const dlpack::Exchange* exchange_;
  std::vector<Entry> entries_;
  std::vector<Size> sizes_;
  std::vector<Layout> layouts_;
};

}  // namespace

void bind_freeze_guard(nb::module_& m) {
  nb::class_<FreezeGuard>(m, "FreezeGuard", "What a captured model and its arguments looked like.")
      .def(nb::init<nb::handle, nb::list, nb::list, nb::list>(), nb::arg("exchange"),
           nb::arg("entries"), nb::arg("sizes"), nb::arg("tensors"),
           "entries: (dictionary, key, value) that must stay the same objects; sizes: (dictionary, "
           "length); tensors: of the layouts to come.")
      .def("same_model", &FreezeGuard::same_model)
      .def("same_tensors", &FreezeGuard::same_tensors, nb::arg("tensors"));
}

}  // namespace hologram::python
