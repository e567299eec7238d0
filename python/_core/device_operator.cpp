// python/_core/device_operator.cpp: operators of the device as PyTorch calls them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "device_queue.h"
#include "torch_common.h"

namespace nb = nanobind;

namespace hologram::python {
namespace {

/// Room for the arguments of a call, whose memory serves later calls.
struct Lent {
  Lent() {
    if (spare().empty()) {
      given = std::make_unique<DeviceArguments>();
    } else {
      given = std::move(spare().back());
      spare().pop_back();
    }
  }
  ~Lent() {
    given->clear();
    spare().push_back(std::move(given));
  }
  static std::vector<std::unique_ptr<DeviceArguments>>& spare() {
    static auto& spare = *new std::vector<std::unique_ptr<DeviceArguments>>;  // under the GIL
    return spare;
  }

  std::unique_ptr<DeviceArguments> given;
};

/// One operator: finds what serves a call by its arguments; Python makes what is not there yet.
class DeviceOperator {
 public:
  /// slow: callable (args, kwargs) for arguments that nothing is known of; left: the same where the
  /// operator is PyTorch's; in_place: whether the first argument is written.
  DeviceOperator(nb::object slow, nb::object left, bool in_place, std::vector<bool> positions,
                 nb::object names)
      : slow_(std::move(slow)),
        left_(std::move(left)),
        names_(std::move(names)),
        in_place_(in_place),
        open_{std::move(positions), names_.ptr()} {}

  nb::object call(const nb::args& args, const nb::kwargs& kwargs) {
    Lent lent;
    DeviceArguments& given = *lent.given;
    PyObject* named = kwargs.size() ? kwargs.ptr() : nullptr;
    if (!given.read(args.ptr(), named, opens())) return left_(args, kwargs);
    auto found = served_.find(given.key);
    if (found == served_.end()) return first(given, args, kwargs);
    const std::shared_ptr<Served> served = found->second;
    if (served->call.is_none() || (in_place_ && !is_apart(given, 0))) return left_(args, kwargs);
    ++calls_;
    if (served->waits && served->known && given.alone && DeviceQueue::of_process().on())
      if (PyObject* out = DeviceQueue::of_process().add(served, given)) return nb::steal(out);
    nb::object out = at_once(*served, given, args, kwargs);
    if (served->waits && !served->known) learn(*served, out);
    return out;
  }

  nb::bytes key(const nb::tuple& args, const nb::dict& kwargs) const {
    DeviceArguments given;
    if (!given.read(args.ptr(), kwargs.ptr(), opens()))
      throw nb::type_error("an argument of a kind that no graph has");
    return nb::bytes(given.key.data(), given.key.size());
  }

  void put(const nb::bytes& key, nb::object call, nb::object direct, int gives, bool waits) {
    auto served = std::make_shared<Served>();
    served->call = std::move(call);
    if (!direct.is_none()) served->direct = std::move(direct);
    served->gives = static_cast<Served::Gives>(gives);
    served->waits = waits;
    served->known = served->gives == Served::Gives::first;
    served_[{key.c_str(), key.size()}] = std::move(served);
  }

  void clear(bool numeric) {
    served_.clear();
    numeric_ = numeric;
  }

  uint64_t calls() const { return calls_; }

 private:
  const OpenNumbers* opens() const { return numeric_ ? &open_ : nullptr; }

  nb::object first(const DeviceArguments& given, const nb::args& args, const nb::kwargs& kwargs) {
    nb::object out = slow_(args, kwargs);
    auto found = served_.find(given.key);
    if (found != served_.end() && found->second->waits && !found->second->known)
      learn(*found->second, out);
    return out;
  }

  static nb::object at_once(const Served& served, const DeviceArguments& given,
                            const nb::args& args, const nb::kwargs& kwargs) {
    if (!served.direct.is_valid()) {
      nb::object flat = args;
      if (kwargs.size()) flat = args + nb::tuple(kwargs.values());
      return served.call(flat);
    }
    nb::list tensors =
        nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(given.objects.size())));
    for (size_t i = 0; i < given.objects.size(); ++i)
      PyList_SetItem(tensors.ptr(), static_cast<Py_ssize_t>(i), Py_NewRef(given.objects[i]));
    nb::object out = served.direct(tensors);
    switch (served.gives) {
      case Served::Gives::first:
        return nb::borrow(given.objects[0]);
      case Served::Gives::one:
        return out[0];
      case Served::Gives::tuple:
        return nb::tuple(out);
      default:
        return out;
    }
  }

  // The layouts of results, which those of the arguments determine.
  static void learn(Served& served, nb::handle out) {
    std::vector<Layout> results;
    auto add = [&](nb::handle tensor) {
      dlpack::Tensor t;
      if (DeviceTypes::of_process().exchange->view_of_object(tensor.ptr(), &t) != 0) {
        PyErr_Clear();
        return false;
      }
      results.push_back(Layout::of(t));
      return t.device.type == dlpack::external && results.back().bytes() > 0;
    };
    bool all = true;
    if (served.gives == Served::Gives::one)
      all = add(out);
    else
      for (nb::handle tensor : out) all = all && add(tensor);
    served.results = std::move(results);
    served.known = served.waits = all;
  }

  nb::object slow_, left_, names_;
  bool in_place_;
  bool numeric_ = false;
  OpenNumbers open_;
  std::unordered_map<std::string, std::shared_ptr<Served>> served_;
  uint64_t calls_ = 0;
};

void tell_types(nb::handle capsule, const nb::list& tensors, const nb::list& constants,
                const nb::list& named) {
  DeviceTypes& types = DeviceTypes::of_process();
  types = {};
  types.exchange = exchange_of(capsule);
  for (nb::handle type : tensors) types.tensors.push_back(Py_NewRef(type.ptr()));
  for (nb::handle type : constants) types.constants.push_back(Py_NewRef(type.ptr()));
  for (nb::handle type : named) types.named.push_back(Py_NewRef(type.ptr()));
}

}  // namespace

void bind_device_operators(nb::module_& m) {
  m.def("tell_device_types", &tell_types, nb::arg("exchange"), nb::arg("tensors"),
        nb::arg("constants"), nb::arg("named"),
        "How arguments of DeviceOperators are read: the types of plain tensors, types with one "
        "instance a value, types that their text tells all of.");
  nb::class_<DeviceOperator>(m, "DeviceOperator",
                             "An operator of PyTorch's device for extensions, as its dispatcher "
                             "calls it.")
      .def(nb::init<nb::object, nb::object, bool, std::vector<bool>, nb::object>(), nb::arg("slow"),
           nb::arg("left"), nb::arg("in_place"), nb::arg("positions"), nb::arg("names"))
      .def("__call__", &DeviceOperator::call, nb::arg("args"), nb::arg("kwargs"))
      .def("key", &DeviceOperator::key, nb::arg("args"), nb::arg("kwargs"),
           "What calls with such arguments are known by. TypeError for what no graph has.")
      .def("put", &DeviceOperator::put, nb::arg("key"), nb::arg("call").none(),
           nb::arg("direct").none(), nb::arg("gives"), nb::arg("waits"),
           "What serves such calls; call None: PyTorch; gives: 0 the first argument, 1 a tensor, 2 "
           "a tuple, 3 a list; waits: whether calls may be queued.")
      .def("clear", &DeviceOperator::clear, nb::arg("numeric"),
           "Forgets what serves calls; numeric: numbers that are operands are no part of keys now.")
      .def_prop_ro("calls", &DeviceOperator::calls);
  nb::class_<Batch>(m, "DeviceBatch", "Calls of operators that are to run.")
      .def_prop_ro("must_run", &Batch::must_run, "Whether anyone holds what it writes.")
      .def_prop_ro("call", &Batch::call, "What runs it on a list of its arguments, or None.")
      .def("keep", &Batch::keep, nb::arg("call"))
      .def("met", &Batch::met, "How often this sequence of calls has been met, this one counted.")
      .def("arguments", &Batch::arguments,
           "Tensors and numbers as tensors that are given, then memory for results that are held.")
      .def("steps", &Batch::steps,
           "(call, values of its tensors) or, for a view, (None, [value], sizes, strides, offset).")
      .def("values", &Batch::values,
           "By value: (given, number, made or view; whether it is written).");
  m.def(
      "open_device_queue",
      [](std::shared_ptr<runtime::Runtime> runtime, nb::object flush) {
        DeviceQueue::of_process().open(std::move(runtime), std::move(flush));
      },
      nb::arg("runtime"), nb::arg("flush"), "flush: runs what is queued.");
  m.def(
      "set_device_queue", [](bool on) { DeviceQueue::of_process().set_on(on); }, nb::arg("on"),
      "Whether calls of operators may wait.");
  m.def(
      "take_device_queue", [] { return DeviceQueue::of_process().take(); },
      "A DeviceBatch or None; either way device_queue_done() has to follow.");
  m.def("device_queue_done", [] { DeviceQueue::of_process().done(); });
  m.def(
      "set_device_queue_helper",
      [](unsigned long thread) { DeviceQueue::of_process().set_helper(thread); }, nb::arg("thread"),
      "The thread that works for the one that runs the queue; 0: none.");
}

}  // namespace hologram::python
