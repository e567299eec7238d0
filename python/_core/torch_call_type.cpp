// python/_core/torch_call_type.cpp: Python's name for callables over PyTorch's tensors.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <structmember.h>

#include "bindings.h"
#include "torch_call.h"
#include "torch_common.h"

namespace nb = nanobind;

namespace hologram::python {
namespace {

using runtime::Executable;

// A plain C type: its instances carry `_boxed_call`, and calls reach C without
// an intermediary.

struct TorchCallObject {
  PyObject_HEAD TorchCall* call;
  PyObject* dict;
  PyObject* weak;
};

// What `run` returns; its C++ exceptions become Python's.
template <class Run>
PyObject* guarded(const Run& run) {
  try {
    return run();
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const Error& e) {
    PyErr_SetString(e.code() == ErrorCode::out_of_memory ? PyExc_MemoryError : PyExc_RuntimeError,
                    e.what());
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
  return nullptr;
}

PyObject* torch_call_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (PyTuple_Size(args) != 1 || (kwargs && PyDict_Size(kwargs) != 0)) {
    PyErr_SetString(PyExc_TypeError, "hologram: a compiled graph takes one list of arguments");
    return nullptr;
  }
  return guarded([&] {
    return reinterpret_cast<TorchCallObject*>(self)->call->call(PyTuple_GetItem(args, 0));
  });
}

PyObject* torch_call_direct(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    return reinterpret_cast<TorchCallObject*>(self)->call->call(args, static_cast<size_t>(n));
  });
}

PyObject* torch_call_check(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    return reinterpret_cast<TorchCallObject*>(self)->call->raise_late() ? Py_NewRef(Py_None)
                                                                        : nullptr;
  });
}

PyObject* torch_call_release(PyObject* self, PyObject* positions) {
  return guarded([&]() -> PyObject* {
    auto wanted = nb::cast<std::vector<size_t>>(nb::handle(positions));
    auto released = reinterpret_cast<TorchCallObject*>(self)->call->release(wanted);
    return nb::cast(released).release().ptr();
  });
}

PyObject* torch_call_hold(PyObject* self, PyObject*) {
  reinterpret_cast<TorchCallObject*>(self)->call->hold();
  return Py_NewRef(Py_None);
}

PyObject* torch_call_move_versions(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    require(n == 2, "TorchCall.move_versions: takes positions and a function");
    reinterpret_cast<TorchCallObject*>(self)->call->move_versions(
        nb::cast<std::vector<size_t>>(nb::handle(args[0])), nb::borrow(args[1]));
    return Py_NewRef(Py_None);
  });
}

PyObject* torch_call_before_second(PyObject* self, PyObject* ready) {
  reinterpret_cast<TorchCallObject*>(self)->call->before_second(nb::borrow(ready));
  return Py_NewRef(Py_None);
}

int torch_call_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* o = reinterpret_cast<TorchCallObject*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(o->dict);
  if (o->call) Py_VISIT(o->call->host());
  return 0;
}

int torch_call_clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<TorchCallObject*>(self)->dict);
  return 0;
}

void torch_call_dealloc(PyObject* self) {
  auto* o = reinterpret_cast<TorchCallObject*>(self);
  PyObject_GC_UnTrack(self);
  if (o->weak) PyObject_ClearWeakRefs(self);
  Py_CLEAR(o->dict);
  delete o->call;
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

PyMemberDef torch_call_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(TorchCallObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TorchCallObject, weak), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef torch_call_attributes[] = {  // functools.wraps copies it
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef torch_call_methods[] = {
    {"direct", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(torch_call_direct)),
     METH_FASTCALL, "The same with the arguments one by one."},
    {"check", torch_call_check, METH_NOARGS,
     "Raises what kernels of earlier calls on a device have flagged by now."},
    {"release", torch_call_release, METH_O,
     "Of the arguments at these positions, gives the positions of those of which calls read only "
     "what is kept; they are not read from now on: None does. A call must have ended well."},
    {"hold", torch_call_hold, METH_NOARGS,
     "Keeps what is computed of weights however long no call comes: for release()."},
    {"move_versions",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(torch_call_move_versions)),
     METH_FASTCALL,
     "direct() moves the versions of the arguments at these positions; move(tensors) does it where "
     "their place is not known."},
    {"before_second", torch_call_before_second, METH_O,
     "The function is called once, before the second call."},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot torch_call_slots[] = {
    {Py_tp_call, reinterpret_cast<void*>(torch_call_call)},
    {Py_tp_traverse, reinterpret_cast<void*>(torch_call_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(torch_call_clear)},
    {Py_tp_dealloc, reinterpret_cast<void*>(torch_call_dealloc)},
    {Py_tp_members, torch_call_members},
    {Py_tp_methods, torch_call_methods},
    {Py_tp_getset, torch_call_attributes},
    {Py_tp_doc, const_cast<char*>("A compiled graph: call it with one list of arguments, which it "
                                  "clears; it returns a list.")},
    {0, nullptr}};

PyType_Spec torch_call_spec = {"hologram._core.TorchCall", sizeof(TorchCallObject), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, torch_call_slots};

std::vector<TorchCall::Arg> parse_args(const nb::list& args) {
  std::vector<TorchCall::Arg> out;
  for (nb::handle h : args) {
    auto kind = nb::cast<std::string>(h[0]);
    const auto k = kind == "tensor"    ? TorchCall::ArgKind::tensor
                   : kind == "symbol"  ? TorchCall::ArgKind::symbol
                   : kind == "negated" ? TorchCall::ArgKind::negated
                   : kind == "object"  ? TorchCall::ArgKind::object
                                       : TorchCall::ArgKind::ignored;
    out.push_back({k, nb::cast<int>(h[1])});
  }
  return out;
}

std::optional<TorchCall::Allocator> parse_allocator(const nb::object& addresses) {
  if (addresses.is_none()) return std::nullopt;
  TorchCall::Allocator out{};
  auto set = [&](auto& function, int i) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        nb::cast<uintptr_t>(addresses[i]));
  };
  set(out.set_device, 0);
  set(out.reset_device, 1);
  set(out.allocate, 2);
  set(out.free, 3);
  return out;
}

Expr expression(const nb::object& h) {
  return PyLong_Check(h.ptr()) ? Expr(nb::cast<int64_t>(h)) : nb::cast<Expr>(h);
}

Shape expressions(const nb::object& list) {
  Shape out;
  for (nb::handle h : list) out.push_back(expression(nb::borrow(h)));
  return out;
}

std::vector<TorchCall::Result> parse_results(const nb::list& results) {
  std::vector<TorchCall::Result> out;
  for (nb::handle h : results) {
    auto kind = nb::cast<std::string>(h[0]);
    if (kind == "output") {
      out.push_back({TorchCall::ResultKind::output, nb::cast<int>(h[1])});
    } else if (kind == "argument") {
      out.push_back({TorchCall::ResultKind::argument, nb::cast<int>(h[1])});
    } else if (kind == "argument_view" || kind == "output_view") {
      const auto k = kind == "argument_view" ? TorchCall::ResultKind::argument_view
                                             : TorchCall::ResultKind::output_view;
      out.push_back(
          {k, nb::cast<int>(h[1]), expression(h[4]), expressions(h[2]), expressions(h[3])});
      if (!h[5].is_none()) out.back().dtype = h[5];
      out.back().bond = static_cast<TorchCall::Bond>(nb::cast<int>(h[6]));
    } else if (kind == "again") {
      out.push_back({TorchCall::ResultKind::again, nb::cast<int>(h[1])});
    } else if (kind == "integer") {
      out.push_back({TorchCall::ResultKind::integer, -1, expression(h[1])});
    } else {
      out.push_back({TorchCall::ResultKind::none});
    }
  }
  return out;
}

}  // namespace

void bind_torch_call(nb::module_& m) {
  PyObject* type = PyType_FromSpec(&torch_call_spec);
  if (!type) nb::raise_python_error();
  m.attr("TorchCall") = nb::steal(type);
  m.attr("IndexOutOfRange") = nb::borrow(index_error());
  m.def(
      "memory_written",
      [](uintptr_t address, size_t bytes) {
        Writes::of_process().written(reinterpret_cast<const void*>(address), bytes);
      },
      nb::arg("address"), nb::arg("bytes"),
      "Tells of a write that no version counter shows: what compiled graphs keep of tensors that "
      "begin in these bytes is computed anew.");
  m.def(
      "learn_tensor_words",
      [](const nb::list& samples, nb::handle type, nb::object ask) {
        return TensorWords::of_process().learn(samples, type, std::move(ask));
      },
      nb::arg("samples"), nb::arg("type"), nb::arg("ask"),
      "Learns where tensors keep what each call reads: samples are (tensor, address of its "
      "implementation, of its storage, version or -1, number of its version counter, tensors that "
      "hold the storage, address of the storage's memory, offset); ask(tensor) gives the tensors "
      "that hold its storage where that fails. "
      "Whether it has been learned.");
  m.def(
      "learn_resizable",
      [](nb::handle tensor, nb::handle change) {
        return TensorWords::of_process().learn_resizable(tensor, change);
      },
      nb::arg("tensor"), nb::arg("change"),
      "Learns where a storage keeps whether it can be resized, which change() ends for tensor's.");
  m.def(
      "learn_allocator",
      [](const nb::list& own, nb::handle foreign) {
        return TensorWords::of_process().learn_allocator(own, foreign);
      },
      nb::arg("own"), nb::arg("foreign"),
      "Learns what gives PyTorch's tensors memory when they grow, from some of its own and one of "
      "foreign memory: results of compiled graphs grow likewise. Whether it has been learned.");
  m.def(
      "forget_tensor_words", [] { TensorWords::of_process().forget(); },
      "What was learned is no longer used.");
  m.def(
      "tensor_state",
      [](nb::handle tensor) {
        const TensorState state = TensorWords::of_process().look_at_any(tensor.ptr());
        return nb::make_tuple(state.version, state.holders);
      },
      nb::arg("tensor"),
      "(version or -1, how many tensors hold the storage) as calls of compiled graphs see them.");
  m.def(
      "tensor_place",
      [](nb::handle tensor) {
        const TensorPlace place = TensorWords::of_process().place(tensor.ptr());
        return nb::make_tuple(reinterpret_cast<uintptr_t>(place.data), place.offset);
      },
      nb::arg("tensor"),
      "(address of the storage's memory, or 0 where it is not known; offset) likewise.");
  m.def(
      "shared_weights", [](const Executable& e) { return Stamps::shared(e.plan()); },
      nb::arg("executable"),
      "How many of the weights that a graph keeps values of share their memory with other tensors, "
      "as its last call saw it, and their bytes.");
  m.def(
      "compared_weights", [] { return Sharers::of_process().comparisons(); },
      "How many contents of weights calls have compared, as others than known tensors hold them.");
  m.def(
      "set_sharing_teller",
      [](nb::object tell) { Sharers::of_process().set_teller(std::move(tell)); }, nb::arg("tell"),
      "tell(weights, bytes) is called once, when weights are compared at each call.");
  m.def(
      "drop_references", [](nb::handle tensor) { Stamps::drop(tensor.ptr()); }, nb::arg("tensor"),
      "Drops the weak references that compiled graphs hold to a tensor, whose memory they take for "
      "written.");
  m.def(
      "set_recorder", [](nb::object made) { set_recorder(std::move(made)); },
      nb::arg("recorder").none(),
      "recorder(name) → a context manager that compiled graphs enter around each step, or None.");
  m.def(
      "forget_kept", [] { Writes::of_process().next_epoch(); },
      "What compiled graphs keep of their parameters is computed anew at their next call.");
  m.def(
      "torch_call",
      [type](std::shared_ptr<Executable> executable, nb::handle capsule, const nb::list& args,
             const nb::list& results, nb::handle host, nb::list constants, nb::object threads,
             nb::object device) {
        TorchCall::Place place;
        if (!device.is_none())
          place = {{nb::cast<int32_t>(device[0]), nb::cast<int32_t>(device[1])},
                   device[2],
                   parse_allocator(device[3])};
        auto call = std::make_unique<TorchCall>(
            std::move(executable), exchange_of(capsule), parse_args(args), parse_results(results),
            host.ptr(), std::move(constants), std::move(threads), std::move(place));
        auto* self = reinterpret_cast<TorchCallObject*>(
            PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(type), 0));
        if (!self) nb::raise_python_error();
        self->call = call.release();
        self->dict = PyDict_New();
        PyDict_SetItemString(self->dict, "_boxed_call", Py_True);
        return nb::steal(reinterpret_cast<PyObject*>(self));
      },
      nb::arg("executable"), nb::arg("exchange"), nb::arg("args"), nb::arg("results"),
      nb::arg("host"), nb::arg("constants") = nb::list(), nb::arg("threads") = nb::none(),
      nb::arg("device") = nb::none(),
      "A callable over a list of tensors and integers. args: "
      "('tensor'|'symbol'|'negated'|'object'|'ignored', index) per position; "
      "results: ('output', index), ('argument', parameter), ('argument_view', "
      "parameter, sizes, strides, distance, dtype or None, bond as in sharing.py), "
      "('output_view', index, as before), ('again', earlier result), ('integer', expression) or "
      "('none', 0); constants: (parameter, "
      "tensor) for parameters that no argument gives; threads(): the thread count to use, asked at "
      "each call; exchange: torch.Tensor.__dlpack_c_exchange_api__; "
      "host(callee, operands, sizes, strides) runs host operations; device: None for the host, "
      "else "
      "(DLPack's type, id, empty, allocator): calls then leave their work on the queue that the "
      "exchange says is current, and results are empty(sizes, strides, dtype); allocator: None, or "
      "the addresses of C functions that set and reset the current device, allocate and free. What "
      "kernels flag is raised by the next call, or by check().");
}

}  // namespace hologram::python
