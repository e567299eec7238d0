// python/_core/step_loop.cpp: a compiled graph of one step run over all steps of a sequence.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <span>

#include "bindings.h"
#include "runtime/dlpack.h"
#include "runtime/executable.h"
#include "stamps.h"
#include "torch_common.h"

namespace nb = nanobind;

namespace hologram::python {
namespace {

using runtime::Executable;
using runtime::Frame;

/// How a parameter of the step is read: one place of a sequence per step, what the step before gave
/// as a result (the operand first), or the same every time.
enum class Role : uint8_t { each, carry, fixed };

struct Operand {
  Role role;
  int result;  // that a carry continues
};

/// Contiguous data and the distance between steps.
struct Sequence {
  char* data = nullptr;
  int64_t stride = 0;
};

class StepLoop {
 public:
  StepLoop(std::shared_ptr<Executable> executable, const dlpack::Exchange* exchange,
           std::vector<Operand> operands, nb::object threads)
      : executable_(std::move(executable)),
        exchange_(exchange),
        operands_(std::move(operands)),
        threads_(std::move(threads)),
        stamps_(executable_->plan()) {
    const auto& plan = executable_->plan();
    require(static_cast<size_t>(plan.num_parameters) == operands_.size(),
            "step_loop: {} operands for a graph of {} parameters", operands_.size(),
            plan.num_parameters);
    for (const Operand& o : operands_)
      require(o.role != Role::carry ||
                  (o.result >= 0 && static_cast<size_t>(o.result) < plan.outputs.size()),
              "step_loop: an operand continues result {}, which the graph lacks", o.result);
  }

  /// operands: contiguous tensors by parameter; → contiguous sequences by result, in memory of the
  /// runtime's pool.
  nb::list run(nb::list operands, int64_t steps, bool descending);

 private:
  class Target;

  Sequence read(PyObject* object, bool sequence, int64_t steps) const;
  nb::object make_result(const schedule::Slot& slot, std::span<const int64_t> symbols,
                         int64_t steps, Sequence& out) const;

  std::shared_ptr<Executable> executable_;
  const dlpack::Exchange* exchange_;
  std::vector<Operand> operands_;
  nb::object threads_;
  Stamps stamps_;
};

/// Lets every step write its results into their places.
class StepLoop::Target final : public runtime::Outputs, public runtime::Host {
 public:
  void* allocate(int index, size_t bytes, Frame&) override {
    const Sequence& s = results[static_cast<size_t>(index)];
    require(static_cast<int64_t>(bytes) <= s.stride, "step_loop: result {} has {} bytes, not {}",
            index, bytes, s.stride);
    return s.data + step * s.stride;
  }
  int32_t call(const schedule::Step&, Frame&) override { return 1; }

  std::vector<Sequence> results;
  int64_t step = 0;
};

Sequence StepLoop::read(PyObject* object, bool sequence, int64_t steps) const {
  dlpack::Tensor t;
  if (exchange_->view_of_object(object, &t) != 0) nb::raise_python_error();
  Sequence out{static_cast<char*>(t.data) + t.byte_offset, 0};
  if (!sequence) return out;
  require(t.ndim > 0 && t.shape[0] == steps, "step_loop: a sequence of {} steps was expected",
          steps);
  out.stride = t.dtype.bits / 8;
  for (int32_t i = 1; i < t.ndim; ++i) out.stride *= t.shape[i];
  return out;
}

// A tensor [steps, …] whose places have the slot's sizes.
nb::object StepLoop::make_result(const schedule::Slot& slot, std::span<const int64_t> symbols,
                                 int64_t steps, Sequence& out) const {
  size_t rank = slot.shape.size() + 1;
  int64_t stride = 1, size = 1;
  std::vector<int64_t> sizes{steps};
  for (const Expr& e : slot.shape) sizes.push_back(e.eval(symbols));
  for (size_t i = 1; i < rank; ++i) stride *= sizes[i];
  out.stride = stride * size_of(slot.dtype);
  void* block = executable_->runtime().memory().allocate(
      static_cast<size_t>(std::max<int64_t>(1, out.stride * steps)));
  out.data = static_cast<char*>(block);
  Exported* e = new_exported(rank, block);
  if (!e) nb::raise_python_error();
  for (size_t i = rank; i-- > 0;) {
    e->shape_and_strides[i] = sizes[i];
    e->shape_and_strides[rank + i] = size;
    size *= std::max<int64_t>(1, sizes[i]);
  }
  PyObject* tensor = export_tensor(*exchange_, e, slot.dtype, rank, block);
  if (!tensor) nb::raise_python_error();
  return nb::steal(tensor);
}

nb::list StepLoop::run(nb::list operands, int64_t steps, bool descending) {
  const auto& plan = executable_->plan();
  require(operands.size() == operands_.size(), "step_loop: {} operands were given for {}",
          operands.size(), operands_.size());
  if (!follow_threads(threads_, *executable_)) nb::raise_python_error();
  std::vector<Sequence> sources;
  std::vector<void*> parameters;
  std::vector<int64_t> symbols(static_cast<size_t>(plan.num_symbols), 0);
  for (size_t i = 0; i < operands_.size(); ++i) {
    sources.push_back(read(operands[i].ptr(), operands_[i].role == Role::each, steps));
    parameters.push_back(sources.back().data);
  }
  dlpack::Tensor first;
  if (exchange_->view_of_object(operands[0].ptr(), &first) != 0) nb::raise_python_error();
  if (!symbols.empty()) symbols[0] = first.shape[1];  // the batch is the only size not known
  Target target;
  nb::list outputs;
  for (const auto& o : plan.outputs) {
    const schedule::Slot& slot = plan.slots[static_cast<size_t>(o.slot)];
    outputs.append(make_result(slot, symbols, steps, target.results.emplace_back()));
  }
  Stamps::Checked checked;
  auto object = [&](int p) { return nb::handle(operands[static_cast<size_t>(p)]).ptr(); };
  if (!stamps_.check(*executable_, object, parameters.data(), checked)) nb::raise_python_error();

  runtime::Outcome outcome;
  {
    nb::gil_scoped_release release;
    std::unique_ptr<Frame> frame = executable_->lease();
    for (int64_t n = 0; n < steps; ++n) {
      target.step = descending ? steps - 1 - n : n;
      int64_t before = descending ? target.step + 1 : target.step - 1;
      for (size_t i = 0; i < operands_.size(); ++i) {
        if (operands_[i].role == Role::each)
          parameters[i] = sources[i].data + target.step * sources[i].stride;
        if (operands_[i].role == Role::carry && n > 0) {
          const Sequence& s = target.results[static_cast<size_t>(operands_[i].result)];
          parameters[i] = s.data + before * s.stride;
        }
      }
      outcome = executable_->run({parameters.data(), symbols.data(), &checked.kept}, target, nullptr,
                                 *frame);
      if (outcome.status != 0 || outcome.faults != 0) break;
    }
    executable_->give_back(std::move(frame));
  }
  if (!succeeded(outcome)) nb::raise_python_error();
  stamps_.commit(*executable_, std::move(checked));
  return outputs;
}

std::vector<Operand> parse(const nb::list& roles) {
  std::vector<Operand> out;
  for (nb::handle h : roles) {
    auto name = nb::cast<std::string>(h[0]);
    Role role = name == "each" ? Role::each : name == "carry" ? Role::carry : Role::fixed;
    out.push_back({role, nb::cast<int>(h[1])});
  }
  return out;
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
        return std::make_shared<StepLoop>(std::move(executable), exchange_of(capsule), parse(roles),
                                          std::move(threads));
      },
      nb::arg("executable"), nb::arg("exchange"), nb::arg("roles"), nb::arg("threads") = nb::none(),
      "A run of `executable` over the steps of a sequence. roles, by parameter: ('each', -1) one "
      "place of a sequence per step, ('carry', result) what the step before gave, ('fixed', -1) "
      "the same every time. Operand 0 is a sequence; a symbol of the graph is its second "
      "dimension.");
}

}  // namespace hologram::python
