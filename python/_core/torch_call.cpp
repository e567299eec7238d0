// python/_core/torch_call.cpp: the callable that PyTorch runs: a list of tensors in, a list of
// tensors out.
//
// Tensors are read and made through the DLPack C exchange table of torch.Tensor, so that one binary
// serves all PyTorch versions that have it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <structmember.h>

#include <algorithm>
#include <utility>

#include "bindings.h"
#include "runtime/dlpack.h"
#include "runtime/executable.h"
#include "stamps.h"
#include "torch_common.h"

namespace nb = nanobind;

namespace hologram::python {
namespace {

using host::MemoryPool;
using runtime::Executable;
using runtime::Frame;
using schedule::SlotKind;

/// How one positional argument is used.
enum class ArgKind : uint8_t { tensor, symbol, negated, object, ignored };

struct Arg {
  ArgKind kind;
  int index;
};

/// What one result is.
enum class ResultKind : uint8_t { plan, argument, argument_view, result_view, none, integer };

struct Result {
  ResultKind kind;
  int index = -1;        // plan output; parameter of an argument that is returned itself or viewed;
                         // result that is viewed
  Expr value = Expr(0);  // integer, or how far behind its base a view begins
  Shape sizes = {}, strides = {};  // of a view
};

// The context manager that PyTorch's profiler takes around each step while it is on; null: it is
// off. Read and written with the interpreter's lock; never freed, since calls in progress read it.
PyObject* recorder = nullptr;

/// Where the tensors of a call are. On a device, work goes to the queue that the framework says it
/// uses now, and memory for results is the framework's.
struct Place {
  dlpack::Device device{dlpack::cpu, 0};
  nb::object empty;  // callable: (sizes, strides, dtype) -> tensor there
  bool on_device() const { return device.type != dlpack::cpu; }
};

/// A Python exception is set.
struct PythonError : std::exception {};

class TorchCall {
 public:
  TorchCall(std::shared_ptr<Executable> executable, const dlpack::Exchange* exchange,
            std::vector<Arg> args, std::vector<Result> results, PyObject* host, nb::list constants,
            nb::object threads, Place place)
      : executable_(std::move(executable)),
        exchange_(exchange),
        args_(std::move(args)),
        results_(std::move(results)),
        host_(Py_NewRef(host)),
        constants_(std::move(constants)),
        threads_(std::move(threads)),
        place_(std::move(place)),
        stamps_(executable_->plan()) {
    const auto& plan = executable_->plan();
    parameter_slot_.assign(static_cast<size_t>(plan.num_parameters), -1);
    output_slot_.assign(plan.outputs.size(), -1);
    for (size_t i = 0; i < plan.slots.size(); ++i) {
      const auto index = static_cast<size_t>(plan.slots[i].index);
      if (plan.slots[i].kind == SlotKind::input) parameter_slot_[index] = static_cast<int>(i);
      if (plan.slots[i].kind == SlotKind::output) output_slot_[index] = static_cast<int>(i);
    }
    returned_.assign(static_cast<size_t>(plan.num_parameters), 0);
    for (const Result& r : results_)
      if (r.kind == ResultKind::argument || r.kind == ResultKind::argument_view)
        returned_.at(static_cast<size_t>(r.index)) = 1;
    for (const auto& o : plan.outputs)
      if (o.mutation) written_.push_back(o.slot);
  }
  ~TorchCall() { Py_DECREF(host_); }
  TorchCall(const TorchCall&) = delete;
  TorchCall& operator=(const TorchCall&) = delete;

  /// Runs the graph on a list, which is cleared, or on `n` arguments that the caller keeps.
  PyObject* call(PyObject* list);
  PyObject* call(PyObject* const* arguments, size_t n);
  PyObject* host() const { return host_; }
  /// Raises what earlier calls on a device's queue have flagged since.
  bool raise_late() const;

  /// Lets calls go on with what is kept of the arguments at `positions`, and of those alone: see
  /// Executable::read_as_kept. Gives the positions that are no longer read.
  std::vector<size_t> release(const std::vector<size_t>& positions);

 private:
  class State;
  friend class State;

  template <class Read>
  PyObject* call_with(const Read& read);

  std::shared_ptr<Executable> executable_;
  const dlpack::Exchange* exchange_;
  std::vector<Arg> args_;
  std::vector<Result> results_;
  PyObject* host_;      // callable (callee, operands, sizes, wanted) -> list of tensors
  nb::list constants_;  // (parameter, tensor): operands that belong to the graph
  nb::object threads_;  // callable: the thread count that the caller wants now; None: as it is
  Place place_;
  Stamps stamps_;
  std::vector<int> parameter_slot_, output_slot_;
  std::vector<char> returned_;  // by parameter: whether a result is the argument itself
  std::vector<int> written_;    // slots of parameters that the graph writes
};

/// One call in progress.
class TorchCall::State final : public runtime::Outputs,
                               public runtime::Host,
                               public runtime::Observer {
 public:
  State(TorchCall& owner, Frame& frame) : owner_(owner), frame_(frame) {
    const auto& plan = owner.executable_->plan();
    parameters_.resize(static_cast<size_t>(plan.num_parameters));
    objects_.resize(plan.slots.size());
    blocks_.resize(plan.outputs.size());
    symbols_.resize(static_cast<size_t>(plan.num_symbols));
    arguments_.resize(static_cast<size_t>(plan.num_parameters));
  }
  ~State() override {
    for (PyObject* o : objects_) Py_XDECREF(o);
    for (PyObject* o : arguments_) Py_XDECREF(o);
    for (void* b : blocks_) MemoryPool::deallocate(b);
    Py_XDECREF(record_);
  }

  bool read(PyObject* list);
  bool read(PyObject* const* arguments, size_t count);
  PyObject* run();

  void* allocate(int index, size_t bytes, Frame&) override {
    if (owner_.place_.on_device()) return allocate_there(index);
    return blocks_[static_cast<size_t>(index)] =
               owner_.executable_->runtime().memory().allocate(bytes);
  }
  int32_t call(const schedule::Step& step, Frame& frame) override;
  void begin(const schedule::Step& step) override;
  void end() override;

 private:
  const schedule::Plan& plan() const { return owner_.executable_->plan(); }
  /// Takes the arguments that `argument(i)` gives, borrowed.
  template <class Argument>
  bool read_each(const Argument& argument);
  bool read_tensor(PyObject* o, size_t parameter);
  bool is_there(const dlpack::Tensor& t, const char* what);
  void* allocate_there(int index);
  PyObject* empty(int slot);
  void keep(PyObject* o, size_t parameter);
  bool check_stamps();
  PyObject* object_of(int slot);
  PyObject* result_of(const Result& r, PyObject* results);
  PyObject* view_of(PyObject* base, const Result& r);
  PyObject* make_tensor(const schedule::Slot& slot, void* data, void* block);
  bool adopt(int slot, PyObject* object);
  int32_t call_with_lock(const schedule::Step& step);

  TorchCall& owner_;
  Frame& frame_;
  std::vector<void*> parameters_;
  std::vector<int64_t> symbols_;
  std::vector<PyObject*> objects_;    // by slot, owned
  std::vector<PyObject*> arguments_;  // by parameter: those that are returned, owned
  std::vector<void*> blocks_;         // by output
  Stamps::Checked checked_;
  PyThreadState* saved_ = nullptr;
  PyObject* record_ = nullptr;  // of the step that runs, while the profiler is on
};

void TorchCall::State::keep(PyObject* o, size_t parameter) {
  if (int slot = owner_.parameter_slot_[parameter]; slot >= 0)
    objects_[static_cast<size_t>(slot)] = Py_NewRef(o);
  if (owner_.returned_[parameter]) arguments_[parameter] = Py_NewRef(o);
}

bool TorchCall::State::read_tensor(PyObject* o, size_t parameter) {
  dlpack::Tensor t;
  if (owner_.exchange_->view_of_object(o, &t) != 0 || !is_there(t, "an argument")) return false;
  parameters_[parameter] = static_cast<char*>(t.data) + t.byte_offset;
  keep(o, parameter);
  return true;
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
  PyObject*& made = objects_[static_cast<size_t>(slot)];
  made = empty(slot);
  dlpack::Tensor t{};
  const bool good =
      made && owner_.exchange_->view_of_object(made, &t) == 0 && is_there(t, "memory for a result");
  saved_ = PyEval_SaveThread();
  if (!good) throw PythonError();
  return static_cast<char*>(t.data) + t.byte_offset;
}

bool TorchCall::State::read(PyObject* list) {
  if (!PyList_Check(list) || static_cast<size_t>(PyList_Size(list)) != owner_.args_.size()) {
    PyErr_Format(PyExc_TypeError, "hologram: expected a list of %zu arguments",
                 owner_.args_.size());
    return false;
  }
  return read_each([list](size_t i) { return PyList_GetItem(list, static_cast<Py_ssize_t>(i)); }) &&
         PyList_SetSlice(list, 0, PyList_Size(list), nullptr) == 0;
}

bool TorchCall::State::read(PyObject* const* arguments, size_t count) {
  const size_t wanted = owner_.args_.size();
  if (count != wanted) {
    PyErr_Format(PyExc_TypeError, "hologram: expected %zu arguments, got %zu", wanted, count);
    return false;
  }
  return read_each([arguments](size_t i) { return arguments[i]; });
}

template <class Argument>
bool TorchCall::State::read_each(const Argument& argument) {
  const auto& args = owner_.args_;
  for (size_t i = 0; i < args.size(); ++i) {
    PyObject* o = argument(i);
    auto k = static_cast<size_t>(args[i].index);
    switch (args[i].kind) {
      case ArgKind::tensor:
        if (!read_tensor(o, k)) return false;
        break;
      case ArgKind::object:
        keep(o, k);
        break;
      case ArgKind::symbol:
      case ArgKind::negated: {
        int64_t n = PyLong_AsLongLong(o);
        if (n == -1 && PyErr_Occurred()) return false;
        symbols_[k] = args[i].kind == ArgKind::negated ? -n : n;
        break;
      }
      case ArgKind::ignored:
        break;
    }
  }
  for (nb::handle constant : owner_.constants_) {
    auto k = static_cast<size_t>(nb::cast<int>(constant[0]));
    nb::object tensor = constant[1];
    bool host = owner_.parameter_slot_[k] >= 0 &&
                plan().slots[static_cast<size_t>(owner_.parameter_slot_[k])].dtype == DType::host;
    if (host)
      keep(tensor.ptr(), k);
    else if (!read_tensor(tensor.ptr(), k))
      return false;
  }
  return check_stamps();
}

// Finds the cache entries whose parameters are not the tensors, at the versions, that they were
// computed from.
bool TorchCall::State::check_stamps() {
  auto object = [&](int p) {
    return objects_[static_cast<size_t>(owner_.parameter_slot_[static_cast<size_t>(p)])];
  };
  return owner_.stamps_.check(*owner_.executable_, object, parameters_.data(), checked_);
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

// The tensor of a slot, made on first use; borrowed from this state.
PyObject* TorchCall::State::object_of(int slot) {
  auto i = static_cast<size_t>(slot);
  if (!objects_[i]) objects_[i] = make_tensor(plan().slots[i], frame_.slots[i], nullptr);
  return objects_[i];
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

// base.as_strided(sizes, strides, base.storage_offset() + value)
PyObject* TorchCall::State::view_of(PyObject* base, const Result& r) {
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
  return PyObject_CallMethod(base, "as_strided", "OOL", tuple(r.sizes).ptr(),
                             tuple(r.strides).ptr(), static_cast<long long>(start));
}

// A new reference, or null with an exception. `results` holds those before it.
PyObject* TorchCall::State::result_of(const Result& r, PyObject* results) {
  auto k = static_cast<size_t>(r.index);
  switch (r.kind) {
    case ResultKind::none:
      return Py_NewRef(Py_None);
    case ResultKind::integer:
      return PyLong_FromLongLong(r.value.eval(symbols_));
    case ResultKind::argument:
      return Py_NewRef(arguments_[k]);
    case ResultKind::argument_view:
      return view_of(arguments_[k], r);
    case ResultKind::result_view:
      return view_of(PyList_GetItem(results, r.index), r);
    case ResultKind::plan:
      break;
  }
  const auto& output = plan().outputs[k];
  const auto& slot = plan().slots[static_cast<size_t>(output.slot)];
  if (slot.kind != SlotKind::output || owner_.place_.on_device())
    return Py_XNewRef(object_of(output.slot));
  void* block = std::exchange(blocks_[static_cast<size_t>(slot.index)], nullptr);
  return make_tensor(slot, block, block);
}

PyObject* TorchCall::State::run() {
  Executable& e = *owner_.executable_;
  Executable::Arguments arguments{parameters_.data(), symbols_.data(), &checked_.kept,
                                  recorder ? this : nullptr};
  runtime::Outcome outcome;
  void* queue = nullptr;
  if (const Place& place = owner_.place_; place.on_device()) {
    if (!owner_.raise_late()) return nullptr;
    if (owner_.exchange_->current_stream(place.device.type, place.device.id, &queue) != 0)
      return nullptr;
    arguments.queue = &queue;
  }
  saved_ = PyEval_SaveThread();
  try {
    outcome = e.run(arguments, *this, this, frame_);
  } catch (...) {
    PyEval_RestoreThread(saved_);
    throw;
  }
  PyEval_RestoreThread(saved_);
  for (int slot : owner_.written_) {  // AOTAutograd leaves the versions of some as they are
    const auto i = static_cast<size_t>(slot);
    const int64_t bytes = plan().slots[i].bytes.eval(frame_.symbols);
    Writes::of_process().written(frame_.slots[i], static_cast<size_t>(std::max<int64_t>(bytes, 1)));
  }
  if (!succeeded(outcome)) return nullptr;
  owner_.stamps_.commit(e, std::move(checked_));
  nb::object out = nb::steal(PyList_New(static_cast<Py_ssize_t>(owner_.results_.size())));
  for (size_t i = 0; i < owner_.results_.size(); ++i) {
    PyObject* o = result_of(owner_.results_[i], out.ptr());
    if (!o) return nullptr;
    PyList_SetItem(out.ptr(), static_cast<Py_ssize_t>(i), o);
  }
  return out.release().ptr();
}

bool TorchCall::raise_late() const {
  const int32_t faults = executable_->late_faults();
  if (faults == 0) return true;
  succeeded({0, faults});
  return false;
}

std::vector<size_t> TorchCall::release(const std::vector<size_t>& positions) {
  std::vector<bool> needed(returned_.size(), true);
  for (size_t i : positions)
    if (args_.at(i).kind == ArgKind::tensor) {
      const auto k = static_cast<size_t>(args_[i].index);
      needed[k] = returned_[k] != 0;
    }
  const std::vector<int> parameters = executable_->read_as_kept(std::move(needed));
  const runtime::Kept kept = executable_->kept();
  for (size_t c = 0; c < kept.size(); ++c)
    for (int p : executable_->plan().cache[c].parameters)
      require(kept[c] || std::ranges::count(parameters, p) == 0,
              "TorchCall.release: no call has computed what is kept of parameter {}", p);
  stamps_.pin(parameters);
  std::vector<size_t> out;
  for (size_t i : positions)
    if (args_[i].kind == ArgKind::tensor && std::ranges::count(parameters, args_[i].index) > 0) {
      args_[i].kind = ArgKind::ignored;
      out.push_back(i);
    }
  return out;
}

template <class Read>
PyObject* TorchCall::call_with(const Read& read) {
  if (!follow_threads(threads_, *executable_)) return nullptr;
  std::unique_ptr<Frame> frame = executable_->lease();
  PyObject* out = nullptr;
  {
    State state(*this, *frame);
    if (read(state)) out = state.run();
  }
  executable_->give_back(std::move(frame));
  return out;
}

PyObject* TorchCall::call(PyObject* list) {
  return call_with([&](State& state) { return state.read(list); });
}

PyObject* TorchCall::call(PyObject* const* arguments, size_t n) {
  return call_with([&](State& state) { return state.read(arguments, n); });
}

// --- the Python type. A plain C type: its instances carry `_boxed_call`, and calls reach C without
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
  } catch (const PythonError&) {
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

std::vector<Arg> parse_args(const nb::list& args) {
  std::vector<Arg> out;
  for (nb::handle h : args) {
    auto kind = nb::cast<std::string>(h[0]);
    ArgKind k = kind == "tensor"    ? ArgKind::tensor
                : kind == "symbol"  ? ArgKind::symbol
                : kind == "negated" ? ArgKind::negated
                : kind == "object"  ? ArgKind::object
                                    : ArgKind::ignored;
    out.push_back({k, nb::cast<int>(h[1])});
  }
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

std::vector<Result> parse_results(const nb::list& results) {
  std::vector<Result> out;
  for (nb::handle h : results) {
    auto kind = nb::cast<std::string>(h[0]);
    if (kind == "output") {
      out.push_back({ResultKind::plan, nb::cast<int>(h[1])});
    } else if (kind == "argument") {
      out.push_back({ResultKind::argument, nb::cast<int>(h[1])});
    } else if (kind == "argument_view" || kind == "result_view") {
      ResultKind k = kind == "argument_view" ? ResultKind::argument_view : ResultKind::result_view;
      out.push_back(
          {k, nb::cast<int>(h[1]), expression(h[4]), expressions(h[2]), expressions(h[3])});
    } else if (kind == "integer") {
      out.push_back({ResultKind::integer, -1, expression(h[1])});
    } else {
      out.push_back({ResultKind::none});
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
      "set_recorder",
      [](nb::object made) { recorder = made.is_none() ? nullptr : made.release().ptr(); },
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
        Place place;
        if (!device.is_none())
          place = {{nb::cast<int32_t>(device[0]), nb::cast<int32_t>(device[1])}, device[2]};
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
      "parameter, sizes, strides, distance), ('result_view', earlier result, sizes, strides, "
      "distance), ('integer', expression) or ('none', 0); constants: (parameter, "
      "tensor) for parameters that no argument gives; threads(): the thread count to use, asked at "
      "each call; exchange: torch.Tensor.__dlpack_c_exchange_api__; "
      "host(callee, operands, sizes, strides) runs host operations; device: None for the host, "
      "else "
      "(DLPack's type, id, empty): calls then leave their work on the queue that exchange says is "
      "current, and results are empty(sizes, strides, dtype). What kernels flag is raised by the "
      "next call, or by check().");
}

}  // namespace hologram::python
