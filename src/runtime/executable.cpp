// runtime/executable.cpp: running a compiled graph.
#include "runtime/executable.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "host/context.h"
#include "host/pages.h"
#include "runtime/places.h"
#include "runtime/planning.h"
#include "runtime/staging.h"
#include "schedule/footprint.h"

namespace hologram::runtime {
namespace {

using schedule::SlotKind;
using schedule::StepKind;
using Clock = std::chrono::steady_clock;

}  // namespace

// Memory of one call: the arena and the run of boundary classes.
class Executable::Lease {
 public:
  // On a device, `workspace_bytes` more.
  Lease(Runtime& runtime, int64_t arena_bytes, int64_t boundary_bytes, size_t workspace_bytes,
        Outputs& outputs, Frame& frame)
      : runtime_(runtime), stream_(frame.stream) {
    Memory* device = runtime.device();
    if (boundary_bytes > 0 && !device) {
      count_ = static_cast<int>(boundary_bytes / static_cast<int64_t>(host::boundary_class_bytes));
      if (auto c = runtime.boundary().allocate(count_)) {
        class_ = *c;
        boundary = runtime.boundary().data(class_);
      }
    }
    int64_t skip = boundary ? boundary_bytes : 0;
    if (arena_bytes > skip) {
      const size_t bytes = host::addressable(arena_bytes - skip);
      arena = (device ? on_device(*device, bytes + alignment + workspace_bytes, outputs, frame)
                      : block_ = static_cast<std::byte*>(runtime.memory().allocate(bytes))) -
              skip;
      workspace = arena + (arena_bytes + alignment - 1) / alignment * alignment;
    } else if (workspace_bytes > 0) {
      workspace = on_device(*device, workspace_bytes, outputs, frame);
    }
    if (!boundary) boundary = arena;
  }
  ~Lease() {
    if (class_ >= 0) runtime_.boundary().free(class_, count_);
    if (Memory* device = runtime_.device())
      device->deallocate(block_, stream_);
    else
      host::MemoryPool::deallocate(block_);
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  std::byte* arena = nullptr;     // offsets count from here
  std::byte* boundary = nullptr;  // those of boundary slots from here
  std::byte* workspace = nullptr;

 private:
  static constexpr int64_t alignment = 256;
  std::byte* on_device(Memory& device, size_t bytes, Outputs& outputs, Frame& frame) {
    given_ = outputs.device_memory(bytes, frame);
    if (given_) return static_cast<std::byte*>(given_.get());
    return block_ = static_cast<std::byte*>(device.allocate(bytes, stream_));
  }

  Runtime& runtime_;
  Stream stream_;
  std::byte* block_ = nullptr;
  std::shared_ptr<void> given_;
  int class_ = -1, count_ = 0;
};

// The context of one call. Exceptions stop here: generated code has no way to pass them on.
struct Executable::CallContext : atlas::Context {
  const Executable& executable;
  Frame& frame;
  Host* host;
  mutable std::exception_ptr error;
};

std::vector<atlas::EntryStep> entry_steps(const schedule::Plan& plan) {
  std::vector<atlas::EntryStep> out;
  int64_t buffers = 0, arguments = 0;
  for (const auto& step : plan.steps) {
    const auto own = static_cast<int64_t>(step.symbols.size());
    out.push_back({step.program, buffers, arguments, own, step.cached, step.group});
    buffers += static_cast<int64_t>(step.buffers.size());
    arguments += own;
  }
  return out;
}

// Lays out Frame::buffers and Frame::arguments.
void Executable::prepare() {
  for (const schedule::Slot& s : plan_.slots)
    bindings_.push_back({static_cast<int32_t>(s.index), s.kind, s.boundary});
  for (const auto& entry : plan_.cache)
    kept_slots_.push_back(
        bindings_[static_cast<size_t>(entry.slot)].kind == SlotKind::input ? -1 : entry.slot);
  uses_.resize(plan_.slots.size());
  entry_steps_ = entry_steps(plan_);
  for (const auto& step : plan_.steps) {
    for (size_t i = 0; i < step.buffers.size(); ++i)
      uses_[static_cast<size_t>(step.buffers[i])].push_back(num_buffers_ + i);
    num_buffers_ += step.buffers.size();
    num_arguments_ += step.symbols.size();
    for (const Expr& e : step.symbols) static_sizes_ &= e.is_const();
  }
  static_sizes_ &= plan_.num_symbols == 0;
  find_readers();
  kept_.resize(plan_.cache.size());
  plan_bytes_ = sizeof *this + schedule::footprint(plan_) +
                entry_steps_.capacity() * sizeof(atlas::EntryStep) + num_buffers_ * sizeof(size_t);
  runtime_->executables().plans += plan_bytes_;
}

// Those that steps read which run in every call.
void Executable::keep_on_device(const std::vector<bool>& fixed) {
  std::vector<bool> wanted(plan_.slots.size());
  for (const schedule::Step& step : plan_.steps)
    if (step.kind == StepKind::kernel && step.cached < 0)
      for (int slot : step.buffers) wanted[static_cast<size_t>(slot)] = true;
  for (const schedule::PlanOutput& o : plan_.outputs)
    if (o.mutation && o.slot >= 0) wanted[static_cast<size_t>(o.slot)] = false;
  for (size_t s = 0; s < wanted.size(); ++s) {
    const schedule::Slot& slot = plan_.slots[s];
    const auto p = static_cast<size_t>(slot.index);
    if (wanted[s] && slot.kind == SlotKind::input && p < fixed.size() && fixed[p] &&
        slot.bytes.is_const())
      plan_.cache.push_back({static_cast<int>(s), {slot.index}});
  }
}

void Executable::find_readers() {
  copy_of_.assign(static_cast<size_t>(plan_.num_parameters), -1);
  only_for_.resize(copy_of_.size());
  std::vector<bool> otherwise(copy_of_.size());
  const auto each_parameter = [&](const std::vector<int>& slots, const auto& found) {
    for (int number : slots)
      if (number >= 0)
        if (const schedule::Slot& s = plan_.slots[static_cast<size_t>(number)];
            s.kind == SlotKind::input)
          found(static_cast<size_t>(s.index));
  };
  for (const schedule::Step& step : plan_.steps)
    for (const auto* slots : {&step.buffers, &step.arguments})
      each_parameter(*slots, [&](size_t p) {
        if (step.cached < 0)
          otherwise[p] = true;
        else
          only_for_[p].push_back(static_cast<size_t>(step.cached));
      });
  for (const schedule::PlanOutput& o : plan_.outputs)
    each_parameter({o.slot}, [&](size_t p) { otherwise[p] = true; });
  for (size_t c = 0; c < plan_.cache.size(); ++c)
    each_parameter({plan_.cache[c].slot}, [&](size_t p) { copy_of_[p] = static_cast<int>(c); });
  for (size_t p = 0; p < otherwise.size(); ++p)
    if (otherwise[p]) only_for_[p].clear();
}

bool Executable::reads(size_t parameter, const Kept& kept) const {
  const std::vector<size_t>& entries = only_for_[parameter];
  return entries.empty() ||
         !std::ranges::all_of(entries, [&](size_t c) { return c < kept.size() && kept[c]; });
}

std::shared_ptr<void> Executable::keep_copy(const void* host, size_t bytes, Outputs& outputs,
                                            Frame& frame) const {
  std::shared_ptr<void> copy = allocate_kept(bytes, outputs, frame);
  runtime_->device()->copy(copy.get(), host, bytes, frame.stream);
  return copy;
}

void Executable::set_code(std::shared_ptr<const Code> code) {
  const size_t bytes = code->launcher->code_bytes();
  std::vector<std::unique_ptr<Frame>> frames;
  std::lock_guard lock(mutex_);
  runtime_->executables().code += bytes - std::exchange(code_bytes_, bytes);
  frames.swap(idle_);
  code_.swap(code);
}

std::shared_ptr<const Code> Executable::code() const {
  std::lock_guard lock(mutex_);
  return code_;
}

Executable::~Executable() {
  runtime_->executables().plans -= plan_bytes_;
  runtime_->executables().code -= code_bytes_;
}

std::shared_ptr<Executable> Executable::of_plan(schedule::Plan plan,
                                                std::vector<std::shared_ptr<const Kernel>> kernels,
                                                std::unique_ptr<Launcher> launcher,
                                                std::shared_ptr<Runtime> runtime) {
  std::shared_ptr<Executable> e(new Executable(std::move(runtime)));
  e->plan_ = std::move(plan);
  e->prepare();
  auto code = std::make_shared<Code>();
  code->kernels = std::move(kernels);
  code->launcher = std::move(launcher);
  e->set_code(std::move(code));
  return e;
}

std::unique_ptr<Frame> Executable::lease() {
  std::shared_ptr<const Code> code;
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto frame = std::move(idle_.back());
      idle_.pop_back();
      return frame;
    }
    code = code_;
  }
  auto frame = std::make_unique<Frame>();
  frame->slots.resize(plan_.slots.size());
  frame->symbols.resize(static_cast<size_t>(plan_.num_symbols), INT64_MIN);
  frame->buffers.resize(num_buffers_ + 1);
  frame->arguments.resize(num_arguments_ + 1);
  frame->offsets.resize(plan_.slots.size());
  frame->code = std::move(code);
  return frame;
}

void Executable::give_back(std::unique_ptr<Frame> frame) {
  std::lock_guard lock(mutex_);
  if (idle_.size() < 64 && frame->code == code_) idle_.push_back(std::move(frame));
}

void Executable::bind(Frame& frame, int slot, void* address) const {
  auto i = static_cast<size_t>(slot);
  if (frame.slots[i] == address) return;
  frame.slots[i] = address;
  for (size_t position : uses_[i]) frame.buffers[position] = address;
}

// Everything that follows from the symbols' values.
void Executable::size(Frame& frame) const {
  frame.threads = 0;  // until all is known: a call of the same sizes that fails here fails again
  double total = 0;   // expressions wrap around, so that a size of 2^62 would become 0 bytes
  for (const schedule::Slot& slot : plan_.slots) {
    if (slot.bytes.is_const() || slot.dtype == DType::host || slot.kind == SlotKind::input)
      continue;
    auto bytes = static_cast<double>(size_of(slot.dtype));
    for (const Expr& n : slot.shape) bytes *= static_cast<double>(n.eval(frame.symbols));
    total += bytes;
  }
  if (total >= 0x1p62)
    fail(ErrorCode::out_of_memory, "a call of these sizes takes {:g} bytes", total);
  frame.threads = runtime_->threads().num_threads();
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const schedule::Step& step = plan_.steps[s];
    if (step.kind != StepKind::kernel) continue;
    int64_t* arguments = frame.arguments.data() + entry_steps_[s].first_argument;
    for (size_t i = 0; i < step.symbols.size(); ++i)
      arguments[i] = step.symbols[i].eval(frame.symbols);
  }
  frame.prepared = frame.code->launcher->prepare(frame.arguments.data(), frame.threads);
  for (size_t i = 0; i < plan_.slots.size(); ++i)
    if (plan_.slots[i].kind == SlotKind::arena)
      frame.offsets[i] = plan_.slots[i].offset.eval(frame.symbols);
    else if (plan_.slots[i].kind == SlotKind::output)
      frame.offsets[i] = plan_.slots[i].bytes.eval(frame.symbols);
  frame.arena_bytes = plan_.arena_bytes.eval(frame.symbols);
}

void raise_status(int32_t status) {
  if (status == 0) return;
  if (status == host::ThreadPool::threw) status = static_cast<int32_t>(ErrorCode::internal);
  fail(static_cast<ErrorCode>(status), "a kernel failed with status {}", status);
}

void raise_faults(int32_t faults) {
  if (faults & atlas::index_out_of_range)
    fail(ErrorCode::invalid_argument, "an index was out of range");
  if (faults & atlas::integer_division_by_zero)
    fail(ErrorCode::division_by_zero, "integer division by zero");
}

Stream Executable::stream_for(const Arguments& arguments, Memory& device, Frame& frame) const {
  if (arguments.queue) return *arguments.queue;
  if (!frame.own_stream)
    frame.own_stream = {device.make_stream(), [&device](Stream s) { device.free_stream(s); }};
  return frame.own_stream.get();
}

Outcome Executable::run(const Arguments& arguments, Outputs& outputs, Host* host, Frame& frame) {
  struct Running {
    std::atomic<int>& calls;
    explicit Running(std::atomic<int>& of) : calls(of) { calls.fetch_add(1); }
    ~Running() { calls.fetch_sub(1); }
  } running(running_);
  Memory* device = runtime_->device();
  if (device) frame.stream = stream_for(arguments, *device, frame);
  if (!device || arguments.queue) return run_where_it_is(arguments, outputs, host, frame);
  Staging staging(*this, *device, arguments, outputs, host, frame);
  Outcome outcome = run_where_it_is(staging.arguments(), staging, host ? &staging : nullptr, frame);
  if (outcome.status == 0) staging.copy_back();
  return outcome;
}

// Gives every slot but the cached ones its address.
void Executable::bind_all(const Arguments& arguments, Outputs& outputs, const Lease& lease,
                          const Lent* lent, Frame& frame) {
  for (size_t i = 0; i < bindings_.size(); ++i) {
    const Binding& s = bindings_[i];
    auto slot = static_cast<int>(i);
    switch (s.kind) {
      case SlotKind::input:
        bind(frame, slot, arguments.parameters[s.index]);
        break;
      case SlotKind::output:
        bind(frame, slot, outputs.allocate(s.index, static_cast<size_t>(frame.offsets[i]), frame));
        break;
      case SlotKind::arena:
        if (lent && lent->where.places[i].first >= 0) {
          const auto [region, offset] = lent->where.places[i];
          const bool in_arena = static_cast<size_t>(region) == lent->begins.size();
          bind(frame, slot,
               (in_arena ? lease.arena : lent->begins[static_cast<size_t>(region)]) + offset);
          break;
        }
        bind(frame, slot, (s.boundary ? lease.boundary : lease.arena) + frame.offsets[i]);
        break;
      case SlotKind::host:
      case SlotKind::cached:
        break;
    }
  }
}

std::shared_ptr<void> Executable::allocate_kept(size_t bytes, Outputs& outputs,
                                                Frame& frame) const {
  Memory* device = runtime_->device();
  if (!device) return {runtime_->memory().allocate(bytes), &host::MemoryPool::deallocate};
  std::shared_ptr<void> given = outputs.device_memory(bytes, frame);
  void* block = given ? given.get() : device->allocate(bytes, frame.stream);
  return {block, [owner = runtime_, given = std::move(given)](void* p) mutable {
            try {  // calls on callers' queues may still read it
              owner->device()->wait_for_all();
            } catch (const Error&) {  // told where that work is waited for
            }
            given ? given.reset() : owner->device()->deallocate(p, nullptr);
          }};
}

// Gives the cached slots their addresses, and those that are stale memory.
void Executable::bind_kept(Kept& kept, std::vector<uint8_t> missing, const Passing* passing,
                           const Lease& lease, Outputs& outputs, Frame& frame) {
  for (size_t i = 0; passing && i < passing->entries.size(); ++i) {
    const size_t c = passing->entries[i];
    bind(frame, plan_.cache[c].slot, lease.arena + passing->places.offsets[i]);
    missing[c] = 0;
  }
  if (!runtime_->device()) allocate_together(kept, missing);
  for (size_t c = 0; c < kept.size(); ++c) {
    const int slot = kept_slots_[c];
    if (slot < 0 || (!kept[c] && !missing[c])) continue;  // bound already
    if (!kept[c]) {
      const size_t bytes =
          host::addressable(plan_.slots[static_cast<size_t>(slot)].bytes.eval(frame.symbols));
      if (Memory* device = runtime_->device(); device && device->captured(frame.stream))
        fail(ErrorCode::unsupported,
             "what is kept of parameters cannot be computed while the stream is captured: call the "
             "graph once before");
      kept.set(c, allocate_kept(bytes, outputs, frame));
    }
    bind(frame, slot, kept[c].get());
  }
}

Outcome Executable::run_where_it_is(const Arguments& arguments, Outputs& outputs, Host* host,
                                    Frame& frame) {
  if (frame.threads != runtime_->threads().num_threads() ||
      (!static_sizes_ &&
       !std::equal(frame.symbols.begin(), frame.symbols.end(), arguments.symbols))) {
    std::copy_n(arguments.symbols, frame.symbols.size(), frame.symbols.begin());
    size(frame);
  }
  Kept computed;
  Kept& kept = arguments.kept ? *arguments.kept : computed;
  kept.resize(plan_.cache.size());
  std::vector<uint8_t> stale(kept.size());
  for (size_t c = 0; c < kept.size(); ++c) stale[c] = !kept[c] && kept_slots_[c] >= 0;
  const std::shared_ptr<const Passing> passing = passing_of(arguments, stale);
  const std::shared_ptr<const Lent> lent = lent_for(arguments);
  Lease lease(*runtime_,
              lent      ? lent->where.arena_bytes
              : passing ? passing->places.arena_bytes
                        : frame.arena_bytes,
              plan_.boundary_bytes, frame.code->launcher->workspace_bytes(*frame.prepared), outputs,
              frame);
  bind_all(arguments, outputs, lease, lent.get(), frame);
  bind_kept(kept, stale, passing.get(), lease, outputs, frame);
  std::atomic<int32_t> faults{0};
  CallContext context{
      host::make_context(runtime_->threads(), &faults, call_host), *this, frame, host, {}};
  CallFrame entry{};
  entry.workspace = lease.workspace;
  entry.context = &context;
  entry.buffers = frame.buffers.data();
  entry.arguments = frame.arguments.data();
  entry.stale = stale.data();
  entry.stream = frame.stream;
  entry.sticky = arguments.queue ? arguments.faults : &faults;
  const std::shared_ptr<Tracer> tracer = runtime_->tracer();
  int32_t status = arguments.observer || tracer || arguments.only_kept
                       ? run_steps(entry, *frame.prepared, frame, arguments, tracer.get())
                       : frame.code->launcher->run(entry, *frame.prepared);
  // What is kept from now on is read by calls on other queues.
  const bool waits = !arguments.queue || std::ranges::find(stale, 1) != stale.end();
  if (Memory* device = runtime_->device(); device && waits) device->wait(frame.stream);
  if (context.error) std::rethrow_exception(context.error);
  return {status, faults.load(std::memory_order_relaxed)};
}

int32_t Executable::run_steps(CallFrame& entry, const Prepared& prepared, Frame& frame,
                              const Arguments& arguments, Tracer* tracer) {
  Observer* const observer = arguments.observer;
  std::vector<Tracer::Span> spans;
  for (size_t s = 0; s < entry_steps_.size(); ++s) {
    const atlas::EntryStep& step = entry_steps_[s];
    if (step.cached >= 0 ? !entry.stale[step.cached] : arguments.only_kept) continue;
    if (observer) observer->begin(plan_.steps[s]);
    const auto start = Clock::now();
    const int32_t status = step.kernel < 0
                               ? entry.context->call_host(entry.context, static_cast<int64_t>(s))
                               : frame.code->launcher->run_step(entry, prepared, s);
    if (tracer) {
      const auto nanoseconds = [](auto t) { return std::chrono::nanoseconds(t).count(); };
      spans.push_back({static_cast<int>(s), nanoseconds(start.time_since_epoch()),
                       nanoseconds(Clock::now() - start)});
    }
    if (observer) observer->end();
    if (status != 0) return status;
  }
  if (tracer) tracer->called(*this, frame, std::move(spans));
  return 0;
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

}  // namespace hologram::runtime
