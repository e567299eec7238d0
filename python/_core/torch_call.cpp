// python/_core/torch_call.cpp: calls of compiled graphs: arguments, the run, what is kept.
#include "torch_call.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/settings.h"
#include "device_queue.h"
#include "tensor_words.h"
#include "torch_call_state.h"
#include "torch_common.h"

namespace nb = nanobind;

namespace hologram::python {

using runtime::Executable;
using runtime::Frame;
using schedule::SlotKind;

TorchCall::TorchCall(std::shared_ptr<Executable> executable, const dlpack::Exchange* exchange,
                     std::vector<Arg> args, std::vector<Result> results, PyObject* host,
                     nb::list constants, nb::object threads, Place place)
    : executable_(std::move(executable)),
      exchange_(exchange),
      args_(std::move(args)),
      results_(std::move(results)),
      host_(Py_NewRef(host)),
      constants_(std::move(constants)),
      threads_(std::move(threads)),
      place_(std::move(place)),
      stamps_(executable_->plan(), !place_.on_device()) {
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
  elements_.resize(static_cast<size_t>(plan.num_parameters));
  writes_.assign(static_cast<size_t>(plan.num_parameters), 0);
  for (const auto& o : plan.outputs)
    if (o.mutation) written_.push_back(o.slot);
  for (int slot : written_) {
    const schedule::Slot& s = plan.slots[static_cast<size_t>(slot)];
    if (s.kind == SlotKind::input) writes_.at(static_cast<size_t>(s.index)) = 1;
  }
}

void TorchCall::State::keep(PyObject* o, size_t parameter) {
  if (int slot = owner_.parameter_slot_[parameter]; slot >= 0)
    objects_[static_cast<size_t>(slot)] = Py_NewRef(o);
  if (owner_.returned_[parameter]) arguments_[parameter] = Py_NewRef(o);
}

// PyTorch's own word is asked where a tensor lies elsewhere than at the call before, and where the
// graph writes: memory may be copied then.
bool TorchCall::State::read_tensor(PyObject* o, size_t parameter) {
  const TensorWords& words = TensorWords::of_process();
  Elements& last = owner_.elements_[parameter];
  if (last.begin && words.place(o) == last.place) {
    parameters_[parameter] = last.begin;
    keep(o, parameter);
    return true;
  }
  dlpack::Tensor t;
  if (owner_.exchange_->view_of_object(o, &t) != 0) return false;
  const bool readable = dlpack::in_host_memory(t.device.type) && !owner_.place_.on_device();
  if (!readable && !is_there(t, "an argument")) return false;
  if (!t.data && std::none_of(t.shape, t.shape + t.ndim, [](int64_t n) { return n == 0; }))
      [[unlikely]] {
    PyErr_SetString(PyExc_RuntimeError,
                    "hologram: an argument has no memory: it is a FakeTensor, or its storage was "
                    "freed; torch.compiler.set_stance(\"force_eager\") runs what is not compiled");
    return false;
  }
  if (t.device.type == dlpack::external) DeviceQueue::of_process().settle(t);
  parameters_[parameter] = static_cast<char*>(t.data) + t.byte_offset;
  if (t.device.type == dlpack::cpu && readable && !owner_.writes_[parameter]) {
    last.place = words.place(o);
    last.begin = last.place.data ? parameters_[parameter] : nullptr;
  }
  keep(o, parameter);
  return true;
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
  return read_each([arguments](size_t i) { return arguments[i]; }, arguments);
}

bool TorchCall::State::move_versions(PyObject* const* arguments) {
  if (owner_.moved_.empty()) return true;
  const TensorWords& words = TensorWords::of_process();
  nb::list others;
  for (size_t i : owner_.moved_)
    if (!words.move_version(arguments[i])) others.append(nb::handle(arguments[i]));
  if (others.size() == 0) return true;
  return nb::steal(PyObject_CallFunctionObjArgs(owner_.move_.ptr(), others.ptr(), nullptr))
      .is_valid();
}

template <class Argument>
bool TorchCall::State::read_each(const Argument& argument, PyObject* const* moved) {
  const auto& args = owner_.args_;
  const TensorWords& words = TensorWords::of_process();
  uint64_t touched = 0;
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].kind == ArgKind::tensor) touched += words.touch(argument(i));
  touched += owner_.stamps_.touch();
  __asm__ volatile("" : : "r"(touched));
  if (moved && !move_versions(moved)) return false;
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

// HOLOGRAM_CUDA_SYNC=1: calls end with their work, so that each tells of its own faults.
bool ends_with_its_work() { return settings::is_on("HOLOGRAM_CUDA_SYNC"); }

// AOTAutograd leaves the versions of some as they are. What nobody watched at the last call is
// asked about again where it lies elsewhere, or others are watched.
void TorchCall::State::tell_of_writes() {
  Writes& writes = Writes::of_process();
  const std::vector<int>& slots = owner_.written_;
  std::vector<const void*>& known = owner_.unwatched_;
  if (owner_.unwatched_since_ != writes.changes()) known.assign(slots.size(), nullptr);
  owner_.unwatched_since_ = writes.changes();
  for (size_t n = 0; n < slots.size(); ++n) {
    const auto i = static_cast<size_t>(slots[n]);
    const void* data = frame_.slots[i];
    if (data && known[n] == data) continue;
    const int64_t bytes = plan().slots[i].bytes.eval(frame_.symbols);
    const bool watched = writes.written(data, static_cast<size_t>(std::max<int64_t>(bytes, 1)));
    known[n] = watched || !plan().slots[i].bytes.is_const() ? nullptr : data;
  }
}

PyObject* TorchCall::State::run() {
  Executable& e = *owner_.executable_;
  Executable::Arguments arguments{parameters_.data(), symbols_.data(), &checked_.kept, observer()};
  if (!checked_.passing.empty()) arguments.passing = &checked_.passing;
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
  tell_of_writes();
  if (!succeeded(outcome)) {
    if (outcome.faults != 0) describe(outcome.faults);
    return nullptr;
  }
  if (owner_.place_.on_device() && ends_with_its_work() && !owner_.raise_late()) return nullptr;
  owner_.stamps_.commit(e, std::move(checked_));
  nb::object out = nb::steal(PyList_New(static_cast<Py_ssize_t>(owner_.results_.size())));
  for (size_t i = 0; i < owner_.results_.size(); ++i) {
    const Result& r = owner_.results_[i];
    PyObject* o =
        r.kind == ResultKind::again ? Py_NewRef(PyList_GetItem(out.ptr(), r.index)) : result_of(r);
    if (!o) return nullptr;
    PyList_SetItem(out.ptr(), static_cast<Py_ssize_t>(i), o);
  }
  return out.release().ptr();
}

void TorchCall::State::describe(int32_t faults) {
  nb::python_error raised;  // takes the exception over
  try {
    nb::object fault = nb::getattr(nb::handle(owner_.host_), "fault", nb::none());
    if (fault.is_none()) return raised.restore();
    nb::dict tensors;
    nb::list symbols;
    for (int64_t n : symbols_) symbols.append(n);
    for (size_t p = 0; p < owner_.parameter_slot_.size(); ++p)
      if (int slot = owner_.parameter_slot_[p]; slot >= 0 && objects_[static_cast<size_t>(slot)])
        tensors[nb::int_(p)] = nb::borrow(objects_[static_cast<size_t>(slot)]);
    const bool divides = !(faults & atlas::index_out_of_range);
    nb::object said = fault(divides, tensors, symbols);
    if (nb::isinstance<nb::str>(said)) {
      PyErr_SetObject(raised.type().ptr(), said.ptr());
      return;
    }
  } catch (nb::python_error&) {  // what is known already will do
  }
  raised.restore();
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
  stamps_.hold();
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
  if (std::exchange(called_, true) && before_second_) std::exchange(before_second_, nb::object())();
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

}  // namespace hologram::python
