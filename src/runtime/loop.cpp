// runtime/loop.cpp: a compiled graph of one step, run over all steps of a sequence.
#include "runtime/loop.h"

namespace hologram::runtime {
namespace {

/// Contiguous data and the distance between steps.
struct Sequence {
  char* data = nullptr;
  int64_t stride = 0;

  void* at(int64_t step) const { return data + step * stride; }
};

/// Lets every step write its results into their places.
class Places final : public Outputs {
 public:
  void* allocate(int index, size_t bytes, Frame&) override {
    const Sequence& s = results[static_cast<size_t>(index)];
    require(static_cast<int64_t>(bytes) <= s.stride, "loop: result {} has {} bytes, not {}", index,
            bytes, s.stride);
    return s.at(step);
  }

  std::vector<Sequence> results;
  int64_t step = 0;
};

}  // namespace

Loop::Loop(std::shared_ptr<Executable> step, std::vector<LoopOperand> operands)
    : step_(std::move(step)), operands_(std::move(operands)) {
  const schedule::Plan& plan = step_->plan();
  require(static_cast<size_t>(plan.num_parameters) <= operands_.size(),
          "loop: {} operands for a graph of {} parameters", operands_.size(), plan.num_parameters);
  for (const LoopOperand& o : operands_)
    require(o.role != LoopOperand::Role::carry ||
                (o.result >= 0 && static_cast<size_t>(o.result) < plan.outputs.size()),
            "loop: an operand continues result {}, which the graph lacks", o.result);
  for (const schedule::PlanOutput& o : plan.outputs)
    require(!o.mutation && o.slot >= 0, "loop: its graph writes into a parameter");
  for (const schedule::Step& s : plan.steps)
    require(s.kind == schedule::StepKind::kernel, "loop: operation {} needs a host framework",
            s.name);
  slot_of_parameter_.resize(operands_.size(), -1);
  for (size_t i = 0; i < plan.slots.size(); ++i)
    if (plan.slots[i].kind == schedule::SlotKind::input)
      slot_of_parameter_[static_cast<size_t>(plan.slots[i].index)] = static_cast<int>(i);
}

int64_t Loop::operand_bytes(size_t number, std::span<const int64_t> symbols) const {
  const int slot = slot_of_parameter_[number];
  return slot < 0 ? 0 : step_->plan().slots[static_cast<size_t>(slot)].bytes.eval(symbols);
}

int64_t Loop::result_bytes(size_t number, std::span<const int64_t> symbols) const {
  const schedule::Plan& plan = step_->plan();
  return plan.slots[static_cast<size_t>(plan.outputs[number].slot)].bytes.eval(symbols);
}

Outcome Loop::run(const Arguments& arguments) {
  const schedule::Plan& plan = step_->plan();
  require(arguments.operands.size() == operands_.size() &&
              arguments.results.size() == plan.outputs.size(),
          "loop: numbers of operands and results");
  const std::span<const int64_t> symbols(arguments.symbols, static_cast<size_t>(plan.num_symbols));
  std::vector<Sequence> sources;
  std::vector<void*> parameters(arguments.operands.begin(), arguments.operands.end());
  for (size_t i = 0; i < parameters.size(); ++i)
    sources.push_back(
        {static_cast<char*>(parameters[i]),
         operands_[i].role == LoopOperand::Role::each ? operand_bytes(i, symbols) : 0});
  Places places;
  for (size_t i = 0; i < arguments.results.size(); ++i)
    places.results.push_back({static_cast<char*>(arguments.results[i]), result_bytes(i, symbols)});
  Kept computed;
  Kept& kept = arguments.kept ? *arguments.kept : computed;
  Outcome outcome;
  std::unique_ptr<Frame> frame = step_->lease();
  for (int64_t n = 0; n < arguments.steps; ++n) {
    places.step = arguments.descending ? arguments.steps - 1 - n : n;
    const int64_t before = arguments.descending ? places.step + 1 : places.step - 1;
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (operands_[i].role == LoopOperand::Role::each) parameters[i] = sources[i].at(places.step);
      if (operands_[i].role == LoopOperand::Role::carry && n > 0)
        parameters[i] = places.results[static_cast<size_t>(operands_[i].result)].at(before);
    }
    outcome = step_->run({parameters.data(), arguments.symbols, &kept}, places, nullptr, *frame);
    if (outcome.status != 0 || outcome.faults != 0) break;
  }
  step_->give_back(std::move(frame));
  return outcome;
}

}  // namespace hologram::runtime
