// runtime/operations.cpp: the operations on plain memory.
#include "runtime/operations.h"

#include <limits>

#include "host/context.h"

namespace hologram::runtime {
namespace {

/// Results into memory that the caller has given.
class Given : public Outputs {
 public:
  explicit Given(void* const* outputs) : outputs_(outputs) {}
  void* allocate(int index, size_t, Frame&) override { return outputs_[index]; }

 private:
  void* const* outputs_;
};

/// Keeps the first object stored; returns the one that stays.
const DirectKernel& publish(std::atomic<const DirectKernel*>& place,
                            std::unique_ptr<DirectKernel> fresh) {
  const DirectKernel* none = nullptr;
  if (place.compare_exchange_strong(none, fresh.get(), std::memory_order_acq_rel))
    return *fresh.release();
  return *none;
}

}  // namespace

Operations::~Operations() {
  for (auto& row : elementwise_)
    for (auto& k : row) delete k.load();
  for (auto& row : convert_)
    for (auto& k : row) delete k.load();
}

std::unique_ptr<DirectKernel> Operations::make_direct(const std::function<void(ir::Graph&)>& build,
                                                      int arguments) {
  ir::Graph graph;
  build(graph);
  auto direct = std::make_unique<DirectKernel>();
  direct->owner = Executable::compile(graph, {}, runtime_);
  const schedule::Plan& plan = direct->owner->plan();
  check(plan.steps.size() == 1 && plan.steps[0].kind == schedule::StepKind::kernel,
        "Operations: one kernel");
  const schedule::Step& step = plan.steps[0];
  const Kernel& kernel = *direct->owner->code()->kernels[static_cast<size_t>(step.program)];
  const Expr n = Expr::symbol(0);
  check(step.symbols.size() == 1 && step.symbols[0] == n && kernel.grain.is_const() &&
            kernel.unit_work.is_const() && step.buffers.size() <= DirectKernel::max_arguments,
        "Operations: a kernel over elements");
  direct->function = runtime_->backend().host_function(kernel);
  direct->arguments = arguments;
  direct->count = static_cast<int>(step.buffers.size());
  for (size_t i = 0; i < step.buffers.size(); ++i) {
    const schedule::Slot& slot = plan.slots[static_cast<size_t>(step.buffers[i])];
    const bool in = slot.kind == schedule::SlotKind::input;
    check(in || slot.kind == schedule::SlotKind::output, "Operations: operands and results");
    direct->sources[i] = static_cast<uint8_t>(in ? slot.index : arguments - 1);
  }
  direct->grain = kernel.grain.constant_value();
  direct->unit_work = std::max<int64_t>(1, kernel.unit_work.constant_value());
  direct->inline_limit = kernel.total == n ? host::split_work / direct->unit_work
                                           : std::numeric_limits<int64_t>::max();
  return direct;
}

const DirectKernel& Operations::make_elementwise(uint32_t id, DType dtype) {
  auto what = builtin::elementwise(id);
  require(what.has_value(), "there is no element-wise operation number {}", id);
  auto fresh = make_direct([&](ir::Graph& g) { builtin::build_elementwise(g, id, dtype); },
                           what->arity + what->scalars + 1);
  return publish(elementwise_[id][static_cast<size_t>(dtype)], std::move(fresh));
}

const DirectKernel& Operations::convert(DType from, DType to) {
  auto& place = convert_[static_cast<size_t>(from)][static_cast<size_t>(to)];
  if (const DirectKernel* k = place.load(std::memory_order_acquire)) return *k;
  return publish(place, make_direct([&](ir::Graph& g) { builtin::build_convert(g, from, to); }, 2));
}

int32_t Operations::launch(const DirectKernel& kernel, void* const* arguments, int64_t length,
                           Late late) {
  Given given(arguments + kernel.arguments - 1);
  auto frame = kernel.owner->lease();
  const Outcome outcome = kernel.owner->run(
      {arguments, &length, nullptr, nullptr, late.queue, late.faults}, given, nullptr, *frame);
  kernel.owner->give_back(std::move(frame));
  raise_status(outcome.status);
  return outcome.faults;
}

int32_t Operations::run_parallel(const DirectKernel& kernel, const atlas::Context& context,
                                 void* const* buffers, int64_t length) {
  host::ThreadPool& threads = runtime_->threads();
  const int64_t chunk =
      host::chunk_of(length, kernel.grain, kernel.unit_work, threads.num_threads());
  return context.parallel_for(&context, kernel.function, buffers, &length, length, chunk);
}

std::shared_ptr<Executable> Operations::executable(const std::string& key,
                                                   const std::function<void(ir::Graph&)>& build) {
  {
    std::lock_guard lock(mutex_);
    if (const auto* found = executables_.find(key)) return *found;
  }
  ir::Graph graph;
  build(graph);
  auto made = Executable::compile(graph, {}, runtime_);
  std::lock_guard lock(mutex_);
  return executables_.insert(key, std::move(made));
}

void Operations::run(Executable& executable, void* const* inputs, const int64_t* symbols,
                     void* const* outputs, Late late) {
  Given given(outputs);
  auto frame = executable.lease();
  const Outcome outcome = executable.run(
      {inputs, symbols, nullptr, nullptr, late.queue, late.faults}, given, nullptr, *frame);
  executable.give_back(std::move(frame));
  raise_status(outcome.status);
  raise_faults(outcome.faults);
}

}  // namespace hologram::runtime
