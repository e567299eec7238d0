// runtime/executable.cpp: running a compiled graph.
#include "runtime/executable.h"

#include <algorithm>
#include <chrono>

#include "host/context.h"

namespace hologram::runtime {
namespace {

using schedule::SlotKind;
using schedule::StepKind;
using Clock = std::chrono::steady_clock;

// Memory of one call: the arena and the run of boundary classes.
class Lease {
 public:
  Lease(Runtime& runtime, int64_t arena_bytes, int64_t boundary_bytes) : runtime_(runtime) {
    if (boundary_bytes > 0) {
      count_ = static_cast<int>(boundary_bytes / static_cast<int64_t>(host::kBoundaryClassBytes));
      if (auto c = runtime.boundary().allocate(count_)) {
        class_ = *c;
        boundary = runtime.boundary().data(class_);
      }
    }
    int64_t skip = boundary ? boundary_bytes : 0;
    if (arena_bytes > skip) {
      block_ = static_cast<std::byte*>(
          runtime.memory().allocate(static_cast<size_t>(arena_bytes - skip)));
      arena = block_ - skip;
    }
    if (!boundary) boundary = arena;
  }
  ~Lease() {
    if (class_ >= 0) runtime_.boundary().free(class_, count_);
    host::MemoryPool::deallocate(block_);
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  std::byte* arena = nullptr;     // offsets count from here
  std::byte* boundary = nullptr;  // those of boundary slots from here

 private:
  Runtime& runtime_;
  std::byte* block_ = nullptr;
  int class_ = -1, count_ = 0;
};

}  // namespace

// The context of one call. Exceptions stop here: generated code has no way to pass them on.
struct Executable::CallContext : atlas::Context {
  const Executable& executable;
  Frame& frame;
  Host* host;
  mutable std::exception_ptr error;
};

// Lays out Frame::buffers and Frame::arguments and makes the entry function.
void Executable::prepare() {
  uses_.resize(plan_.slots.size());
  for (const auto& step : plan_.steps) {
    ++num_buffers_;  // one place before the first for the kernel's own pointer
    entry_steps_.push_back({step.program, static_cast<int64_t>(num_buffers_),
                            static_cast<int64_t>(num_arguments_), step.cached});
    for (size_t i = 0; i < step.buffers.size(); ++i)
      uses_[static_cast<size_t>(step.buffers[i])].push_back(num_buffers_ + i);
    num_buffers_ += step.buffers.size();
    num_arguments_ += step.symbols.size();
    for (const Expr& e : step.symbols) static_sizes_ &= e.is_const();
  }
  static_sizes_ &= plan_.num_symbols == 0;
  kept_.resize(plan_.cache.size());
  for (const auto& k : kernels_) functions_.push_back(k->function);
  entry_ = runtime_->kernels().get_entry(entry_steps_);
}

std::unique_ptr<Frame> Executable::lease() {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto frame = std::move(idle_.back());
      idle_.pop_back();
      return frame;
    }
  }
  auto frame = std::make_unique<Frame>();
  frame->slots.resize(plan_.slots.size());
  frame->symbols.resize(static_cast<size_t>(plan_.num_symbols), INT64_MIN);
  frame->buffers.resize(num_buffers_ + 1);
  frame->arguments.resize(num_arguments_ + 1);
  frame->totals.resize(plan_.steps.size());
  frame->grains.resize(plan_.steps.size());
  frame->offsets.resize(plan_.slots.size());
  for (size_t s = 0; s < plan_.steps.size(); ++s)
    if (plan_.steps[s].kind == StepKind::kernel)
      frame->buffers[static_cast<size_t>(entry_steps_[s].first_buffer) - 1] =
          const_cast<void*>(kernels_[static_cast<size_t>(plan_.steps[s].program)]->keep.get());
  return frame;
}

void Executable::give_back(std::unique_ptr<Frame> frame) {
  std::lock_guard lock(mutex_);
  if (idle_.size() < 64) idle_.push_back(std::move(frame));
}

void Executable::bind(Frame& frame, int slot, void* address) const {
  auto i = static_cast<size_t>(slot);
  if (frame.slots[i] == address) return;
  frame.slots[i] = address;
  for (size_t position : uses_[i]) frame.buffers[position] = address;
}

// Everything that follows from the symbols' values.
void Executable::size(Frame& frame) const {
  int64_t threads = frame.threads = runtime_->threads().num_threads();
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const schedule::Step& step = plan_.steps[s];
    if (step.kind != StepKind::kernel) continue;
    int64_t* arguments = frame.arguments.data() + entry_steps_[s].first_argument;
    for (size_t i = 0; i < step.symbols.size(); ++i)
      arguments[i] = step.symbols[i].eval(frame.symbols);
    std::span<const int64_t> own(arguments, step.symbols.size());
    const CompiledKernel& k = *kernels_[static_cast<size_t>(step.program)];
    frame.totals[s] = k.total.eval(own);
    frame.grains[s] =
        host::chunk_of(frame.totals[s], k.grain.eval(own), k.unit_work.eval(own), threads);
  }
  for (size_t i = 0; i < plan_.slots.size(); ++i)
    if (plan_.slots[i].kind == SlotKind::arena)
      frame.offsets[i] = plan_.slots[i].offset.eval(frame.symbols);
    else if (plan_.slots[i].kind == SlotKind::output)
      frame.offsets[i] = plan_.slots[i].bytes.eval(frame.symbols);
  frame.arena_bytes = plan_.arena_bytes.eval(frame.symbols);
}

void raise_status(int32_t status) {
  if (status == 0) return;
  if (status == host::ThreadPool::kThrew) status = static_cast<int32_t>(ErrorCode::internal);
  fail(static_cast<ErrorCode>(status), "a kernel failed with status {}", status);
}

void raise_faults(int32_t faults) {
  if (faults & atlas::index_out_of_range)
    fail(ErrorCode::invalid_argument, "an index was out of range");
  if (faults & atlas::integer_division_by_zero)
    fail(ErrorCode::division_by_zero, "integer division by zero");
}

Outcome Executable::run(const Arguments& arguments, Outputs& outputs, Host* host, Frame& frame) {
  if (frame.threads != runtime_->threads().num_threads() ||
      (!static_sizes_ &&
       !std::equal(frame.symbols.begin(), frame.symbols.end(), arguments.symbols))) {
    std::copy_n(arguments.symbols, frame.symbols.size(), frame.symbols.begin());
    size(frame);
  }
  Lease lease(*runtime_, frame.arena_bytes, plan_.boundary_bytes);
  for (size_t i = 0; i < plan_.slots.size(); ++i) {
    const schedule::Slot& s = plan_.slots[i];
    auto slot = static_cast<int>(i);
    switch (s.kind) {
      case SlotKind::input:
        bind(frame, slot, arguments.parameters[s.index]);
        break;
      case SlotKind::output:
        bind(frame, slot, outputs.allocate(s.index, static_cast<size_t>(frame.offsets[i]), frame));
        break;
      case SlotKind::arena:
        bind(frame, slot, (s.boundary ? lease.boundary : lease.arena) + frame.offsets[i]);
        break;
      case SlotKind::host:
      case SlotKind::cached:
        break;
    }
  }
  Kept computed;
  Kept& kept = arguments.kept ? *arguments.kept : computed;
  kept.resize(plan_.cache.size());
  std::vector<uint8_t> stale(kept.size());
  for (size_t c = 0; c < kept.size(); ++c) {
    int slot = plan_.cache[c].slot;
    if (!kept[c]) {
      stale[c] = 1;
      auto bytes =
          static_cast<size_t>(plan_.slots[static_cast<size_t>(slot)].bytes.eval(frame.symbols));
      kept[c] =
          std::shared_ptr<void>(runtime_->memory().allocate(bytes), &host::MemoryPool::deallocate);
    }
    bind(frame, slot, kept[c].get());
  }
  std::atomic<int32_t> faults{0};
  CallContext context{
      host::make_context(runtime_->threads(), &faults, call_host), *this, frame, host, {}};
  atlas::EntryFrame entry{&context,
                          functions_.data(),
                          frame.buffers.data(),
                          frame.arguments.data(),
                          frame.totals.data(),
                          frame.grains.data(),
                          stale.data()};
  int32_t status = profiled_.load(std::memory_order_relaxed) ? run_profiled(entry)
                   : entry_.function                         ? entry_.function(&entry)
                                                             : run_steps(entry, {});
  if (context.error) std::rethrow_exception(context.error);
  return {status, faults.load(std::memory_order_relaxed)};
}

// What an entry function does, for backends that make none and for profiles.
int32_t Executable::run_steps(const atlas::EntryFrame& e, std::span<int64_t> nanoseconds) const {
  for (size_t s = 0; s < entry_steps_.size(); ++s) {
    const atlas::EntryStep& step = entry_steps_[s];
    if (step.cached >= 0 && !e.stale[step.cached]) continue;
    auto start = nanoseconds.empty() ? Clock::time_point() : Clock::now();
    int32_t status = 0;
    if (step.kernel < 0) {
      status = e.context->call_host(e.context, static_cast<int64_t>(s));
    } else if (e.totals[s] > 0) {
      atlas::KernelFn function = e.kernels[step.kernel];
      void* const* buffers = e.buffers + step.first_buffer;
      const int64_t* symbols = e.arguments + step.first_argument;
      status = e.totals[s] <= e.grains[s]
                   ? function(e.context, buffers, symbols, 0, e.totals[s])
                   : e.context->parallel_for(e.context, function, buffers, symbols, e.totals[s],
                                             e.grains[s]);
    }
    if (status != 0) return status;
    if (!nanoseconds.empty())
      nanoseconds[s] = std::chrono::nanoseconds(Clock::now() - start).count();
  }
  return 0;
}

int32_t Executable::run_profiled(const atlas::EntryFrame& entry) {
  std::vector<int64_t> took(entry_steps_.size(), -1);
  if (int32_t status = run_steps(entry, took); status != 0) return status;
  std::lock_guard lock(mutex_);
  for (size_t s = 0; s < took.size() && s < times_.size(); ++s) {
    if (took[s] < 0) continue;
    StepTime& t = times_[s];
    t.least = t.calls ? std::min(t.least, took[s]) : took[s];
    t.total += took[s];
    ++t.calls;
  }
  return 0;
}

void Executable::set_profile(bool on) {
  std::lock_guard lock(mutex_);
  if (on) times_.assign(entry_steps_.size(), {});
  profiled_ = on;
}

std::vector<Executable::StepTime> Executable::step_times() const {
  std::lock_guard lock(mutex_);
  return times_;
}

int32_t Executable::call_host(const atlas::Context* context, int64_t step_number) {
  const auto& call = *static_cast<const CallContext*>(context);
  const schedule::Step& step = call.executable.plan_.steps[static_cast<size_t>(step_number)];
  try {
    if (!call.host)
      fail(ErrorCode::unsupported, "Executable: operation {} needs a host framework", step.name);
    int32_t status = call.host->call(step, call.frame);
    for (int slot : step.results)
      if (slot >= 0)
        for (size_t position : call.executable.uses_[static_cast<size_t>(slot)])
          call.frame.buffers[position] = call.frame.slots[static_cast<size_t>(slot)];
    return status;
  } catch (...) {
    call.error = std::current_exception();
    return static_cast<int32_t>(ErrorCode::internal);
  }
}

Kept Executable::kept() const {
  std::lock_guard lock(mutex_);
  return kept_;
}

void Executable::keep(Kept kept) {
  std::lock_guard lock(mutex_);
  kept_ = std::move(kept);
}

size_t Executable::cached_bytes() const {
  std::lock_guard lock(mutex_);
  size_t n = 0;
  for (const auto& p : kept_)
    if (p) n += host::MemoryPool::capacity(p.get());
  return n;
}

}  // namespace hologram::runtime
