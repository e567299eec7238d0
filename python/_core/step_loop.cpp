// python/_core/step_loop.cpp: a compiled graph of one step run over all steps of a sequence.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <span>

#include "bindings.h"
#include "loop_operands.h"
#include "runtime/dlpack.h"
#include "runtime/loop.h"
#include "stamps.h"
#include "torch_common.h"

namespace nb = nanobind;

namespace hologram::python {
namespace {

using runtime::Executable;
using runtime::LoopOperand;

class StepLoop {
 public:
  StepLoop(std::shared_ptr<Executable> executable, const dlpack::Exchange* exchange,
           std::vector<LoopOperand> operands, nb::object threads)
      : executable_(executable),
        exchange_(exchange),
        loop_(std::move(executable), std::move(operands)),
        threads_(std::move(threads)),
        stamps_(executable_->plan(), true) {}

  /// operands: contiguous tensors by parameter; → contiguous sequences by result, in memory of the
  /// runtime's pool.
  nb::list run(nb::list operands, int64_t steps, bool descending);

 private:
  void* read(PyObject* object, bool sequence, int64_t steps) const;
  nb::object make_result(const schedule::Slot& slot, std::span<const int64_t> symbols,
                         int64_t steps, dlpack::Device device, std::vector<void*>& places) const;

  std::shared_ptr<Executable> executable_;
  const dlpack::Exchange* exchange_;
  runtime::Loop loop_;
  nb::object threads_;
  Stamps stamps_;
};

void* StepLoop::read(PyObject* object, bool sequence, int64_t steps) const {
  dlpack::Tensor t;
  if (exchange_->view_of_object(object, &t) != 0) nb::raise_python_error();
  require(!sequence || (t.ndim > 0 && t.shape[0] == steps),
          "step_loop: a sequence of {} steps was expected", steps);
  return static_cast<char*>(t.data) + t.byte_offset;
}

// A tensor [steps, …] whose places have the slot's sizes, on a device of the host's memory.
nb::object StepLoop::make_result(const schedule::Slot& slot, std::span<const int64_t> symbols,
                                 int64_t steps, dlpack::Device device,
                                 std::vector<void*>& places) const {
  size_t rank = slot.shape.size() + 1;
  int64_t stride = 1, size = 1;
  std::vector<int64_t> sizes{steps};
  for (const Expr& e : slot.shape) sizes.push_back(e.eval(symbols));
  for (size_t i = 1; i < rank; ++i) stride *= sizes[i];
  void* block = executable_->runtime().memory().allocate(
      static_cast<size_t>(std::max<int64_t>(1, stride * size_of(slot.dtype) * steps)));
  places.push_back(block);
  Exported* e = new_exported(rank, block);
  if (!e) nb::raise_python_error();
  for (size_t i = rank; i-- > 0;) {
    e->shape_and_strides[i] = sizes[i];
    e->shape_and_strides[rank + i] = size;
    size *= std::max<int64_t>(1, sizes[i]);
  }
  PyObject* tensor = export_tensor(*exchange_, e, slot.dtype, rank, block, device);
  if (!tensor) nb::raise_python_error();
  return nb::steal(tensor);
}

nb::list StepLoop::run(nb::list operands, int64_t steps, bool descending) {
  const auto& plan = executable_->plan();
  require(operands.size() == loop_.operands().size(), "step_loop: {} operands were given for {}",
          operands.size(), loop_.operands().size());
  if (!follow_threads(threads_, *executable_)) nb::raise_python_error();
  std::vector<void*> parameters, results;
  std::vector<int64_t> symbols(static_cast<size_t>(plan.num_symbols), 0);
  for (size_t i = 0; i < operands.size(); ++i)
    parameters.push_back(
        read(operands[i].ptr(), loop_.operands()[i].role == LoopOperand::Role::each, steps));
  dlpack::Tensor first;
  if (exchange_->view_of_object(operands[0].ptr(), &first) != 0) nb::raise_python_error();
  if (!symbols.empty()) symbols[0] = first.shape[1];  // the batch is the only size not known
  nb::list outputs;
  for (const auto& o : plan.outputs)
    outputs.append(make_result(plan.slots[static_cast<size_t>(o.slot)], symbols, steps,
                               first.device, results));
  Stamps::Checked checked;
  auto object = [&](int p) { return nb::handle(operands[static_cast<size_t>(p)]).ptr(); };
  if (!stamps_.check(*executable_, object, parameters.data(), checked)) nb::raise_python_error();

  runtime::Outcome outcome;
  {
    nb::gil_scoped_release release;
    outcome = loop_.run({parameters, results, steps, descending, symbols.data(), &checked.kept});
  }
  if (!succeeded(outcome)) nb::raise_python_error();
  stamps_.commit(*executable_, std::move(checked));
  return outputs;
}

}  // namespace

void bind_step_loop(nb::module_& m) {
  nb::class_<StepLoop>(m, "StepLoop", "A compiled graph of one step, run over a sequence.")
      .def("run", &StepLoop::run, nb::arg("operands"), nb::arg("steps"), nb::arg("descending"),
           "Runs all steps, the last one first if `descending`. operands: contiguous tensors by "
           "parameter; returns contiguous tensors [steps, ...] by result.");
  m.def(
      "step_loop",
      [](std::shared_ptr<Executable> executable, nb::handle capsule, const nb::list& roles,
         nb::object threads) {
        return std::make_shared<StepLoop>(std::move(executable), exchange_of(capsule),
                                          loop_operands(roles), std::move(threads));
      },
      nb::arg("executable"), nb::arg("exchange"), nb::arg("roles"), nb::arg("threads") = nb::none(),
      "A run of `executable` over the steps of a sequence. roles, by parameter: ('each', -1) one "
      "place of a sequence per step, ('carry', result) what the step before gave, ('fixed', -1) "
      "the same every time. Operand 0 is a sequence; a symbol of the graph is its second "
      "dimension.");
}

}  // namespace hologram::python
