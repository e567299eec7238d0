// archive/loops.cpp: the loops of a method: host calls that need no host framework.
#include "archive/loops.h"

#include <algorithm>

#include "archive/method_graph.h"
#include "base/error.h"
#include "runtime/stored_plan.h"
#include "runtime/transpose.h"

namespace hologram::archive {
namespace {

using runtime::LoopOperand;
using Role = LoopOperand::Role;

constexpr __int128 most_bytes = __int128{1} << 52;

/// Whether what a call and the graph of its step say of each other is so.
class CallCheck {
 public:
  CallCheck(const Loop& loop, const ir::Graph& step) : loop_(loop), step_(step) {
    require(static_cast<size_t>(step.num_parameters) <= loop.operands.size() &&
                static_cast<size_t>(step.num_symbols) <= loop.sizes.size(),
            "the graph of a loop has {} parameters and {} sizes, the index names {} and {}",
            step.num_parameters, step.num_symbols, loop.operands.size(), loop.sizes.size());
    for (const ir::Output& o : step.outputs)
      require(o.parameter < 0 && row_major(o.strides, o.value->shape),
              "the graph of a loop writes elsewhere than into its results");
    for (const LoopOperand& o : loop.operands)
      require(o.role != Role::carry ||
                  (o.result >= 0 && static_cast<size_t>(o.result) < step.outputs.size()),
              "an operand of a loop continues result {}, which is not there", o.result);
    for (const int r : loop.results)
      require(r < static_cast<int>(step.outputs.size()),
              "a loop gives result {}, which is not there", r);
    for (ir::Value v : ir::live_nodes(step)) {
      const ir::OpKind kind = ir::info(v->op).kind;
      require(kind != ir::OpKind::external && kind != ir::OpKind::external_result &&
                  v->dtype != DType::host,
              "operation {} in a loop", ir::name_of(v->op));
      if (v->is(ir::Op::parameter)) parameter(v);
    }
  }

  void call(ir::Value call) const {
    require(call->inputs.size() == loop_.operands.size() && call->attrs.ints[1] == 0,
            "a loop has {} operands, its call {}", loop_.operands.size(), call->inputs.size());
    for (ir::Value v : call->inputs)
      require(v->dtype != DType::host, "an operand of a loop is no array");
    for (ir::Value v : ir::live_nodes(step_)) {
      if (!v->is(ir::Op::parameter)) continue;
      const auto p = static_cast<size_t>(v->attrs.ints[0]);
      const ir::Value given = call->inputs[p];
      require(given->dtype == v->dtype &&
                  given->shape == outer(v->shape, loop_.operands[p].role == Role::each),
              "operand {} of a loop is another array than its parameter", p);
    }
  }

  void result(ir::Value v) const {
    const auto number = static_cast<size_t>(v->attrs.ints[0]);
    require(number < loop_.results.size(), "a loop has no result {}", number);
    const int r = loop_.results[number];
    require(row_major(v->attrs.exprs, v->shape) && v->dtype != DType::host,
            "result {} of a loop is no array in row-major order", number);
    if (r < 0) {
      require(numel(v->shape).is(0), "result {} of a loop comes from nowhere", number);
      return;
    }
    const ir::Value made = step_.outputs[static_cast<size_t>(r)].value;
    require(v->dtype == made->dtype && v->shape == outer(made->shape, true),
            "result {} of a loop is another array than its step's", number);
  }

 private:
  // A shape of the step in the method's sizes.
  Shape outer(const Shape& dims, bool sequence) const {
    Shape out;
    if (sequence) out.push_back(loop_.steps);
    for (const Expr& e : dims)
      out.push_back(e.substitute([&](const Atom& a) -> std::optional<Expr> {
        if (a.kind != Atom::Kind::symbol) return std::nullopt;
        return loop_.sizes[static_cast<size_t>(a.id)];
      }));
    return out;
  }

  void parameter(ir::Value v) const {
    const auto p = static_cast<size_t>(v->attrs.ints[0]);
    require(row_major(v->attrs.exprs, v->shape), "parameter {} of a loop is not in row-major order",
            p);
    if (loop_.operands[p].role != Role::carry) return;
    const ir::Value before = step_.outputs[static_cast<size_t>(loop_.operands[p].result)].value;
    require(before->dtype == v->dtype && before->shape == v->shape,
            "parameter {} of a loop is another array than the result that it continues", p);
  }

  const Loop& loop_;
  const ir::Graph& step_;
};

}  // namespace

Loops::Loops(const Archive& archive, const Method& method) : archive_(archive) {
  const Index& index = archive.index();
  numbers_ = loops_of(index, static_cast<uint32_t>(&method - index.methods.data()));
  for (const uint32_t n : numbers_) made_.push_back({&index.loops[n]});
}

int Loops::number_of(int64_t callee) const {
  for (size_t i = 0; i < made_.size(); ++i)
    if (made_[i].described->callee == callee) return static_cast<int>(i);
  return -1;
}

void Loops::compile(const ir::Graph& graph, const std::shared_ptr<runtime::Runtime>& runtime) {
  for (Made& m : made_) {
    const auto step = parsed(archive_.checked_section(m.described->graph));
    const CallCheck check(*m.described, *step);
    int calls = 0;
    for (ir::Value v : ir::live_nodes(graph)) {
      const bool result = v->is(ir::Op::host_result);
      const ir::Value call = result ? v->input() : v;
      if (!call->is(ir::Op::host_call) || call->attrs.ints[0] != m.described->callee) continue;
      if (result)
        check.result(v);
      else
        check.call(v), ++calls;
    }
    require(calls <= 1, "{} calls of one loop", calls);
    m.sizes = std::make_unique<const ir::SizeCheck>(*step, "a loop");
    auto made =
        runtime::Executable::compile(*step, options_of(archive_.index(), *m.described), runtime);
    m.loop = std::make_unique<runtime::Loop>(std::move(made), m.described->operands);
  }
}

void Loops::load(const Codes& codes, const std::shared_ptr<runtime::Runtime>& runtime) {
  for (size_t i = 0; i < made_.size(); ++i) {
    Made& m = made_[i];
    auto step = runtime::load_stored(
        {archive_.checked_section(codes[i]->plan), archive_.checked_section(codes[i]->code)},
        runtime);
    const auto outputs = static_cast<int>(step->plan().outputs.size());
    if (static_cast<size_t>(step->plan().num_symbols) > m.described->sizes.size() ||
        std::ranges::any_of(m.described->results, [&](int r) { return r >= outputs; }))
      fail(ErrorCode::corrupt, "its code is another loop's");
    m.loop = std::make_unique<runtime::Loop>(std::move(step), m.described->operands);
    if (!m.described->sizes.empty())
      m.sizes = std::make_unique<const ir::SizeCheck>(
          *parsed(archive_.checked_section(m.described->graph)), "a loop");
  }
}

void Loops::follow(const schedule::Plan& plan, const std::function<bool(int)>& keeps) {
  for (const schedule::Step& step : plan.steps) {
    const int number = step.kind == schedule::StepKind::host_call ? number_of(step.callee) : -1;
    if (number < 0) continue;
    Made& m = made_[static_cast<size_t>(number)];
    if (step.arguments.size() != m.described->operands.size())
      fail(ErrorCode::corrupt, "its plan calls a loop with {} operands, not {}",
           step.arguments.size(), m.described->operands.size());
    m.keeps = true;
    m.parameters.assign(step.arguments.size(), -1);
    m.sources.clear();
    for (size_t i = 0; i < step.arguments.size(); ++i) {
      if (m.described->operands[i].role != Role::fixed) continue;
      const schedule::Slot& slot = plan.slots[static_cast<size_t>(step.arguments[i])];
      if (slot.kind == schedule::SlotKind::input && keeps(slot.index)) {
        if (row_major(slot.strides, slot.shape)) m.parameters[i] = slot.index;
        m.sources.push_back(slot.index);
      } else if (slot.kind == schedule::SlotKind::cached) {
        const auto& entry = plan.cache[static_cast<size_t>(slot.index)];
        m.sources.insert(m.sources.end(), entry.parameters.begin(), entry.parameters.end());
      } else {
        m.keeps = false;
      }
    }
  }
}

std::vector<int64_t> Loops::sizes_of(const Loop& loop, std::span<const int64_t> symbols) const {
  std::vector<int64_t> out;
  for (const Expr& e : loop.sizes) out.push_back(e.eval(symbols));
  return out;
}

void Loops::check_sizes(std::span<const int64_t> symbols) const {
  for (const Made& m : made_)
    if (m.sizes) m.sizes->check(sizes_of(*m.described, symbols));
}

void* Loops::Calls::memory(__int128 bytes) {
  if (bytes > most_bytes)
    fail(ErrorCode::out_of_memory, "a loop's result would have more than 2^52 bytes");
  const size_t n = host::addressable(std::max<__int128>(bytes, 1));
  blocks_.push_back({method_.runtime().memory().allocate(n), &host::MemoryPool::deallocate});
  return blocks_.back().get();
}

// The array in row-major order.
void* Loops::Calls::operand(int number, const runtime::Frame& frame) {
  const schedule::Slot& slot = method_.plan().slots[static_cast<size_t>(number)];
  void* address = frame.slots[static_cast<size_t>(number)];
  std::vector<int64_t> shape{1}, strides{0};
  __int128 next = 1, bytes = size_of(slot.dtype);
  bool plain = true;
  for (size_t d = slot.shape.size(); d-- > 0;) {
    shape.insert(shape.begin() + 1, slot.shape[d].eval(symbols_));
    strides.insert(strides.begin() + 1, slot.strides[d].eval(symbols_));
    plain &= shape[1] == 1 || strides[1] == next;
    next *= shape[1];
  }
  if (plain || next == 0) return address;
  void* copy = memory(next * bytes);
  runtime::copy_strided(shape, strides, size_of(slot.dtype), address, copy);
  return copy;
}

int32_t Loops::Calls::call(const schedule::Step& step, runtime::Frame& frame) {
  const int number = loops_.number_of(step.callee);
  if (number < 0) {
    if (!other_) fail(ErrorCode::unsupported, "operation {} needs PyTorch", step.name);
    return other_->call(step, frame);
  }
  const Made& m = loops_.made_[static_cast<size_t>(number)];
  const std::vector<int64_t> sizes = loops_.sizes_of(*m.described, symbols_);
  int64_t steps = m.described->steps.eval(symbols_);
  std::vector<void*> operands, results;
  for (const int slot : step.arguments) operands.push_back(operand(slot, frame));
  bool any = false;
  for (size_t r = 0; r < m.loop->step().plan().outputs.size(); ++r) {
    const int64_t bytes = m.loop->result_bytes(r, sizes);
    any |= bytes > 0;
    results.push_back(memory(__int128{steps} * bytes));
  }
  runtime::Kept own;
  const runtime::Outcome outcome = m.loop->run({
      .operands = operands,
      .results = results,
      .steps = any ? steps : 0,
      .descending = m.described->descending,
      .symbols = sizes.data(),
      .kept = m.keeps ? &kept_[static_cast<size_t>(number)] : &own,
  });
  faults_ |= outcome.faults;
  for (size_t r = 0; r < step.results.size(); ++r) {
    if (step.results[r] < 0) continue;
    if (r >= m.described->results.size()) fail(ErrorCode::corrupt, "a loop has no result {}", r);
    const int from = m.described->results[r];
    void* made = from < 0 ? memory(1) : results[static_cast<size_t>(from)];
    frame.slots[static_cast<size_t>(step.results[r])] = made_[step.results[r]] = made;
  }
  return outcome.status;
}

const void* Loops::Calls::made(int slot) const {
  const auto found = made_.find(slot);
  return found == made_.end() ? nullptr : found->second;
}

}  // namespace hologram::archive
