// python/_core/freeze_guard.cpp: whether a frozen model and its arguments still are as captured.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "bindings.h"
#include "runtime/dlpack.h"
#include "torch_common.h"

namespace nb = nanobind;

namespace hologram::python {
namespace {

/// What is remembered of a captured model: entries of its modules' dictionaries, by identity, the
/// layout of every tensor that its graph reads, and the values of other inputs.
class FreezeGuard {
 public:
  FreezeGuard(nb::handle capsule, const nb::list& entries, const nb::list& sizes,
              const nb::list& arguments, const nb::tuple& inputs)
      : exchange_(exchange_of(capsule)), is_neg_(nb::str("is_neg")) {
    for (nb::handle e : entries)
      entries_.push_back({nb::borrow<nb::dict>(e[0]), nb::borrow(e[1]), nb::borrow(e[2])});
    for (nb::handle s : sizes)
      sizes_.push_back({nb::borrow<nb::dict>(s[0]), nb::cast<Py_ssize_t>(s[1])});
    nb::object is_tensor = nb::module_::import_("torch").attr("is_tensor");
    auto layout = [&](nb::handle x) {
      return nb::cast<bool>(is_tensor(x)) ? std::optional(layout_of(x.ptr())) : std::nullopt;
    };
    for (nb::handle a : arguments) {
      if (PyLong_CheckExact(a.ptr()))
        arguments_.push_back({{}, nb::cast<size_t>(a), {}});
      else
        arguments_.push_back({nb::borrow(a), 0, layout(a)});
    }
    for (nb::handle x : inputs) inputs_.push_back({nb::borrow(x.type()), nb::borrow(x), layout(x)});
    for (Input& x : inputs_)
      if (x.layout) x.value = {};  // the caller's tensor is not kept
    for (const Argument& a : arguments_)
      if (!a.held && a.input >= inputs_.size()) throw nb::index_error("FreezeGuard: arguments");
  }

  /// The graph's arguments for these inputs; None where the model or an input is not as captured.
  nb::object arguments(const nb::args& inputs) const {
    if (inputs.size() != inputs_.size() || !same_model()) return nb::none();
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (!same_input(inputs_[i], inputs[i].ptr())) return nb::none();
    nb::list out;
    for (const Argument& a : arguments_) {
      if (a.layout && !has_layout(a.held.ptr(), *a.layout)) return nb::none();
      out.append(a.held ? a.held : nb::object(inputs[a.input]));
    }
    return out;
  }

  /// Whether the modules' dictionaries are as they were.
  bool same_model() const {
    for (const Entry& e : entries_)
      if (PyDict_GetItemWithError(e.owner.ptr(), e.key.ptr()) != e.value.ptr()) return false;
    return std::all_of(sizes_.begin(), sizes_.end(),
                       [](const Size& s) { return PyDict_Size(s.owner.ptr()) == s.count; });
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
  struct Argument {
    nb::object held;  // or null: input number `input`
    size_t input;
    std::optional<Layout> layout;  // of a tensor that is held
  };
  struct Input {
    nb::object type, value;        // value: of what is no tensor
    std::optional<Layout> layout;  // of a tensor
  };

  bool same_input(const Input& known, PyObject* o) const {
    if (known.layout) {
      if (!has_layout(o, *known.layout)) return false;
      // DLPack does not tell.
      nb::object negative = nb::steal(PyObject_CallMethodObjArgs(o, is_neg_.ptr(), nullptr));
      if (!negative) nb::raise_python_error();
      return negative.ptr() == Py_False;
    }
    if (reinterpret_cast<PyObject*>(Py_TYPE(o)) != known.type.ptr()) return false;
    const int same = PyObject_RichCompareBool(o, known.value.ptr(), Py_EQ);
    if (same < 0) nb::raise_python_error();
    return same == 1;
  }

  /// Whether a tensor has the captured type, dtype, device, sizes and strides.
  bool has_layout(PyObject* o, const Layout& l) const {
    if (reinterpret_cast<PyObject*>(Py_TYPE(o)) != l.type.ptr()) return false;
    dlpack::Tensor t;
    if (exchange_->view_of_object(o, &t) != 0) {
      PyErr_Clear();
      return false;
    }
    size_t rank = l.sizes.size();
    return t.device.type == l.device.type && t.device.id == l.device.id &&
           t.dtype.code == l.dtype.code && t.dtype.bits == l.dtype.bits &&
           static_cast<size_t>(t.ndim) == rank &&
           std::equal(t.shape, t.shape + rank, l.sizes.begin()) &&
           std::equal(t.strides, t.strides + rank, l.strides.begin());
  }

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
  nb::object is_neg_;
  std::vector<Argument> arguments_;
  std::vector<Input> inputs_;
};

}  // namespace

void bind_freeze_guard(nb::module_& m) {
  nb::class_<FreezeGuard>(m, "FreezeGuard", "What a captured model and its arguments looked like.")
      .def(nb::init<nb::handle, nb::list, nb::list, nb::list, nb::tuple>(), nb::arg("exchange"),
           nb::arg("entries"), nb::arg("sizes"), nb::arg("arguments"), nb::arg("inputs"),
           "entries: (dictionary, key, value) that must stay the same objects; sizes: (dictionary, "
           "length); arguments: of the graph, the model's objects or numbers of inputs; inputs: of "
           "the layouts and values to come.")
      .def("same_model", &FreezeGuard::same_model)
      .def("arguments", &FreezeGuard::arguments, nb::arg("inputs"),
           "The graph's arguments for these inputs, or None where something is not as captured.");
}

}  // namespace hologram::python
