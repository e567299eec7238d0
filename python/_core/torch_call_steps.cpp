// python/_core/torch_call_steps.cpp: tensors of a call's slots: results, and operands and results
// of the steps that PyTorch runs.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "torch_call_state.h"
#include "torch_common.h"

namespace nb = nanobind;

namespace hologram::python {

using runtime::Frame;
using schedule::SlotKind;

namespace {

// Never freed, since calls in progress read it. Null: PyTorch's profiler is off.
PyObject* recorder = nullptr;

}  // namespace

void set_recorder(nb::object maker) {
  recorder = maker.is_none() ? nullptr : maker.release().ptr();
}

// False with a Python exception for a tensor of another device.
bool TorchCall::State::is_there(const dlpack::Tensor& t, const char* what) {
  const dlpack::Device wanted = owner_.place_.device;
  if (t.device.type == wanted.type && t.device.id == wanted.id) return true;
  PyErr_Format(PyExc_RuntimeError,
               "hologram: %s of a compiled graph is on device %d:%d, its kernels on %d:%d (by "
               "DLPack's numbers)",
               what, t.device.type, t.device.id, wanted.type, wanted.id);
  return false;
}

// An uninitialised tensor of the framework's for an output.
PyObject* TorchCall::State::empty(int slot) {
  const schedule::Slot& s = plan().slots[static_cast<size_t>(slot)];
  auto values = [&](const Shape& shape) {
    nb::list out;
    for (const Expr& e : shape) out.append(e.eval(frame_.symbols));
    return out;
  };
  return PyObject_CallFunction(owner_.place_.empty.ptr(), "OOs", values(s.shape).ptr(),
                               values(s.strides).ptr(), std::string(name_of(s.dtype)).c_str());
}

void* TorchCall::State::allocate_there(int index) {
  PyEval_RestoreThread(saved_);
  const int slot = owner_.output_slot_[static_cast<size_t>(index)];
  return address_of(objects_[static_cast<size_t>(slot)] = empty(slot), "memory for a result");
}

void* TorchCall::Allocator::allocate_on(int32_t device, size_t bytes) const {
  void *guard = nullptr, *block = nullptr;
  if (set_device(device, &guard) != 0) return nullptr;
  const bool good = allocate(std::max<size_t>(bytes, 1), &block) == 0;
  reset_device(guard);
  return good ? block : nullptr;
}

std::shared_ptr<void> TorchCall::State::device_memory(size_t bytes, runtime::Frame& frame) {
  const Place& place = owner_.place_;
  if (!place.on_device()) return nullptr;
  if (place.allocator) {
    if (void* block = place.allocator->allocate_on(place.device.id, bytes))
      return {block, place.allocator->free};
  } else if (!owner_.executable_->runtime().device()->captured(frame.stream)) {
    return nullptr;
  }
  PyEval_RestoreThread(saved_);
  PyObject* tensor =
      PyObject_CallFunction(place.empty.ptr(), "(n)(i)s", static_cast<Py_ssize_t>(bytes), 1, "u8");
  std::shared_ptr<PyObject> owned(tensor, [](PyObject* o) {
    const PyGILState_STATE state = PyGILState_Ensure();
    Py_XDECREF(o);
    PyGILState_Release(state);
  });
  return {owned, address_of(tensor, "memory for a call")};
}

// Of a new tensor, or of null behind an exception; gives the interpreter up. The exception travels
// as C++'s: what it unwinds gives memory back, which may run Python.
void* TorchCall::State::address_of(PyObject* made, const char* what) {
  dlpack::Tensor t{};
  const bool good = made && owner_.exchange_->view_of_object(made, &t) == 0 && is_there(t, what);
  std::exception_ptr error = good ? nullptr : std::make_exception_ptr(nb::python_error());
  saved_ = PyEval_SaveThread();
  if (error) std::rethrow_exception(error);
  return static_cast<char*>(t.data) + t.byte_offset;
}

// A tensor over `data`, with the slot's dtype, sizes and strides. It owns `block` (null: it
// borrows).
PyObject* TorchCall::State::make_tensor(const schedule::Slot& slot, void* data, void* block) {
  size_t rank = slot.shape.size();
  Exported* e = new_exported(rank, block);
  if (!e) return nullptr;
  for (size_t i = 0; i < rank; ++i) {
    e->shape_and_strides[i] = slot.shape[i].eval(frame_.symbols);
    e->shape_and_strides[rank + i] = slot.strides[i].eval(frame_.symbols);
  }
  return export_tensor(*owner_.exchange_, e, slot.dtype, rank, data, owner_.place_.device);
}

// The tensor of a slot, made on first use, which owns the memory of an output; borrowed from this
// state.
PyObject* TorchCall::State::object_of(int slot) {
  auto i = static_cast<size_t>(slot);
  if (objects_[i]) return objects_[i];
  const schedule::Slot& s = plan().slots[i];
  void* block = s.kind == SlotKind::output
                    ? std::exchange(blocks_[static_cast<size_t>(s.index)], nullptr)
                    : nullptr;
  return objects_[i] = make_tensor(s, block ? block : frame_.slots[i], block);
}

// Takes over a result of a host call; the host has seen to the strides of natively read ones. Their
// sizes are checked here: kernels read as many elements as tracing promised.
bool TorchCall::State::adopt(int slot, PyObject* object) {
  auto i = static_cast<size_t>(slot);
  Py_XDECREF(std::exchange(objects_[i], Py_NewRef(object)));
  if (plan().slots[i].dtype == DType::host) return true;
  dlpack::Tensor t;
  if (owner_.exchange_->view_of_object(object, &t) != 0) return false;
  if (!is_there(t, plan().slots[i].name.c_str())) return false;
  const Shape& promised = plan().slots[i].shape;
  bool same = static_cast<size_t>(t.ndim) == promised.size();
  for (size_t d = 0; same && d < promised.size(); ++d)
    same = t.shape[d] == promised[d].eval(frame_.symbols);
  if (!same) {
    PyErr_Format(PyExc_RuntimeError,
                 "hologram: %s gave a tensor of another size than tracing promised",
                 plan().slots[i].name.c_str());
    return false;
  }
  frame_.slots[i] = static_cast<char*>(t.data) + t.byte_offset;
  return true;
}

int32_t TorchCall::State::call_with_lock(const schedule::Step& step) {
  auto n = static_cast<Py_ssize_t>(step.arguments.size());
  nb::object operands = nb::steal(PyList_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = object_of(step.arguments[static_cast<size_t>(i)]);
    if (!o) return 1;
    PyList_SetItem(operands.ptr(), i, Py_NewRef(o));
  }
  nb::list sizes;
  for (const Expr& e : step.sizes) sizes.append(e.eval(frame_.symbols));
  nb::list strides;
  for (int slot : step.results) {
    if (slot < 0 || plan().slots[static_cast<size_t>(slot)].dtype == DType::host) {
      strides.append(nb::none());
      continue;
    }
    nb::list s;
    for (const Expr& e : plan().slots[static_cast<size_t>(slot)].strides)
      s.append(e.eval(frame_.symbols));
    strides.append(s);
  }
  nb::object results = nb::steal(PyObject_CallFunction(owner_.host_, "iOOO", step.callee,
                                                       operands.ptr(), sizes.ptr(), strides.ptr()));
  if (!results.is_valid()) return 1;
  for (size_t i = 0; i < step.results.size(); ++i) {
    if (step.results[i] < 0) continue;
    nb::object r = nb::steal(PySequence_GetItem(results.ptr(), static_cast<Py_ssize_t>(i)));
    if (!r.is_valid() || !adopt(step.results[i], r.ptr())) return 1;
  }
  return 0;
}

int32_t TorchCall::State::call(const schedule::Step& step, Frame&) {
  PyEval_RestoreThread(saved_);
  int32_t status = call_with_lock(step);
  saved_ = PyEval_SaveThread();
  return status;
}

runtime::Observer* TorchCall::State::observer() { return recorder ? this : nullptr; }

// A profile that lacks a step is no reason to end the call: what recording raises is dropped.
void TorchCall::State::begin(const schedule::Step& step) {
  PyEval_RestoreThread(saved_);
  const std::string name = "hologram::" + step.name;
  record_ = recorder ? PyObject_CallFunction(recorder, "s", name.c_str()) : nullptr;
  if (record_) Py_XDECREF(PyObject_CallMethod(record_, "__enter__", nullptr));
  PyErr_Clear();
  saved_ = PyEval_SaveThread();
}

void TorchCall::State::end() {
  PyEval_RestoreThread(saved_);
  // The step's own exception waits while the profiler is told.
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  if (record_)
    Py_XDECREF(PyObject_CallMethod(record_, "__exit__", "OOO", Py_None, Py_None, Py_None));
  Py_CLEAR(record_);
  PyErr_Restore(type, value, trace);
  saved_ = PyEval_SaveThread();
}

// base.view(dtype).as_strided(sizes, strides, base.storage_offset() + value), then as its bond says
PyObject* TorchCall::State::view_of(PyObject* base, const Result& r) {
  nb::object typed;
  if (r.dtype.is_valid()) {
    typed = nb::steal(PyObject_CallMethod(base, "view", "O", r.dtype.ptr()));
    if (!typed.is_valid()) return nullptr;
    base = typed.ptr();
  }
  auto tuple = [&](const Shape& shape) {
    nb::object t = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
    for (size_t i = 0; i < shape.size(); ++i)
      PyTuple_SetItem(t.ptr(), static_cast<Py_ssize_t>(i),
                      PyLong_FromLongLong(shape[i].eval(symbols_)));
    return t;
  };
  nb::object offset = nb::steal(PyObject_CallMethod(base, "storage_offset", nullptr));
  if (!offset.is_valid()) return nullptr;
  int64_t start = PyLong_AsLongLong(offset.ptr()) + r.value.eval(symbols_);
  nb::object view =
      nb::steal(PyObject_CallMethod(base, "as_strided", "OOL", tuple(r.sizes).ptr(),
                                    tuple(r.strides).ptr(), static_cast<long long>(start)));
  if (!view.is_valid() || r.bond == Bond::view) return view.release().ptr();
  return r.bond == Bond::detached ? PyObject_CallMethod(view.ptr(), "detach", nullptr)
                                  : PyObject_GetAttrString(view.ptr(), "data");
}

// A new reference, or null with an exception.
PyObject* TorchCall::State::result_of(const Result& r) {
  auto k = static_cast<size_t>(r.index);
  switch (r.kind) {
    case ResultKind::again:  // call() has it
    case ResultKind::none:
      return Py_NewRef(Py_None);
    case ResultKind::integer:
      return PyLong_FromLongLong(r.value.eval(symbols_));
    case ResultKind::argument:
      return Py_NewRef(arguments_[k]);
    case ResultKind::argument_view:
      return view_of(arguments_[k], r);
    case ResultKind::output:
    case ResultKind::output_view:
      break;
  }
  PyObject* made = object_of(plan().outputs[k].slot);
  if (r.kind == ResultKind::output) return Py_XNewRef(made);
  return made ? view_of(made, r) : nullptr;
}

}  // namespace hologram::python
