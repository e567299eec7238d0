// runtime/executable.cpp: running a compiled graph.
#include "runtime/executable.h"

#include <algorithm>
#include <cstdlib>

namespace hologram::runtime {
namespace {

using schedule::SlotKind;
using schedule::StepKind;

// Work below this runs on the calling thread; chunks aim at it too. In picoseconds.
constexpr int64_t chunk_work = 15'000'000;

struct ScratchMemory {
  void* data = nullptr;
  int64_t size = 0;
  ~ScratchMemory() { std::free(data); }
};

void* thread_scratch(const atlas::Context*, int64_t bytes) {
  thread_local ScratchMemory memory;
  if (bytes <= memory.size) return memory.data;
  std::free(memory.data);
  memory.size = (bytes + 4095) / 4096 * 4096;
  memory.data = std::aligned_alloc(64, static_cast<size_t>(memory.size));
  if (!memory.data) memory.size = 0;
  return memory.data;
}

int32_t run_parallel(const atlas::Context* context, atlas::KernelFn kernel, void* const* bufs, const int64_t* syms,
                     int64_t total, int64_t grain) {
  auto* runtime = static_cast<Runtime*>(context->runtime);
  return runtime->threads().parallel_for(reinterpret_cast<RangeFn>(kernel), context, bufs, syms, total, grain);
}

int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

// Memory of one call: the arena and the run of boundary classes.
class Lease {
 public:
  Lease(Runtime& runtime, int64_t arena_bytes, int64_t boundary_bytes) : runtime_(runtime) {
    if (boundary_bytes > 0) {
      count_ = static_cast<int>(boundary_bytes / static_cast<int64_t>(kBoundaryClassBytes));
      if (auto c = runtime.boundary().allocate(count_)) {
        class_ = *c;
        boundary = runtime.boundary().data(class_);
      }
    }
    int64_t skip = boundary ? boundary_bytes : 0;
    if (arena_bytes > skip) {
      block_ = static_cast<std::byte*>(runtime.memory().allocate(static_cast<size_t>(arena_bytes - skip)));
      arena = block_ - skip;
    }
    if (!boundary) boundary = arena;
  }
  ~Lease() {
    if (class_ >= 0) runtime_.boundary().free(class_, count_);
    MemoryPool::deallocate(block_);
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

// Lays out Frame::buffers and Frame::arguments.
void Executable::prepare() {
  uses_.resize(plan_.slots.size());
  size_t buffers = 0, arguments = 0;
  for (const auto& step : plan_.steps) {
    first_buffer_.push_back(++buffers);  // one place before the first for the kernel's own pointer
    first_argument_.push_back(arguments);
    for (size_t i = 0; i < step.buffers.size(); ++i)
      uses_[static_cast<size_t>(step.buffers[i])].push_back(buffers + i);
    buffers += step.buffers.size();
    arguments += step.symbols.size();
    for (const Expr& e : step.symbols) static_sizes_ &= e.is_const();
  }
  first_buffer_.push_back(buffers);
  first_argument_.push_back(arguments);
  static_sizes_ &= plan_.num_symbols == 0;
  cached_.resize(plan_.cache.size());
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
  frame->buffers.resize(first_buffer_.back() + 1);
  frame->arguments.resize(first_argument_.back() + 1);
  frame->totals.resize(plan_.steps.size());
  frame->grains.resize(plan_.steps.size());
  frame->offsets.resize(plan_.slots.size());
  for (size_t s = 0; s < plan_.steps.size(); ++s)
    if (plan_.steps[s].kind == StepKind::kernel)
      frame->buffers[first_buffer_[s] - 1] =
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
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const schedule::Step& step = plan_.steps[s];
    if (step.kind != StepKind::kernel) continue;
    int64_t* arguments = frame.arguments.data() + first_argument_[s];
    for (size_t i = 0; i < step.symbols.size(); ++i) arguments[i] = step.symbols[i].eval(frame.symbols);
    std::span<const int64_t> own(arguments, step.symbols.size());
    const CompiledKernel& k = *kernels_[static_cast<size_t>(step.program)];
    int64_t total = k.total.eval(own), grain = std::max<int64_t>(1, k.grain.eval(own));
    int64_t work = std::max<int64_t>(1, k.unit_work.eval(own));
    int64_t threads = runtime_->threads().num_threads();
    frame.totals[s] = total;
    if (saturating_mul(total, work) <= chunk_work || threads == 1) {
      frame.grains[s] = std::max<int64_t>(total, 1);
      continue;
    }
    int64_t share = (total + threads - 1) / threads;
    int64_t chunk = std::clamp<int64_t>(chunk_work / work, 1, share);
    frame.grains[s] = (chunk + grain - 1) / grain * grain;
  }
  for (size_t i = 0; i < plan_.slots.size(); ++i)
    if (plan_.slots[i].kind == SlotKind::arena) frame.offsets[i] = plan_.slots[i].offset.eval(frame.symbols);
  frame.arena_bytes = plan_.arena_bytes.eval(frame.symbols);
  frame.sized = true;
}

int32_t Executable::run(const Arguments& arguments, Outputs& outputs, Host* host, Frame& frame) {
  if (!frame.sized || (!static_sizes_ &&
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
        bind(frame, slot, outputs.allocate(s.index, static_cast<size_t>(s.bytes.eval(frame.symbols)), frame));
        break;
      case SlotKind::arena:
        bind(frame, slot, (s.boundary ? lease.boundary : lease.arena) + frame.offsets[i]);
        break;
      case SlotKind::host:
      case SlotKind::cached:
        break;
    }
  }
  std::vector<std::shared_ptr<void>> fresh(plan_.cache.size());
  std::vector<std::shared_ptr<void>> held;
  if (!plan_.cache.empty()) {
    std::lock_guard lock(mutex_);
    held = cached_;
  }
  for (size_t c = 0; c < plan_.cache.size(); ++c) {
    int slot = plan_.cache[c].slot;
    if (!held[c] || !arguments.stale || arguments.stale[c]) {
      auto bytes = static_cast<size_t>(plan_.slots[static_cast<size_t>(slot)].bytes.eval(frame.symbols));
      fresh[c] = std::shared_ptr<void>(runtime_->memory().allocate(bytes), &MemoryPool::deallocate);
      held[c] = fresh[c];
    }
    bind(frame, slot, held[c].get());
  }
  atlas::Context context{run_parallel, thread_scratch, nullptr, &sticky_, runtime_.get()};
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const schedule::Step& step = plan_.steps[s];
    int32_t status = 0;
    if (step.kind == StepKind::host_call) {
      if (!host) fail(ErrorCode::unsupported, "Executable: operation {} needs a host framework", step.name);
      status = host->call(step, frame);
      for (int slot : step.results)
        if (slot >= 0)
          for (size_t position : uses_[static_cast<size_t>(slot)])
            frame.buffers[position] = frame.slots[static_cast<size_t>(slot)];
    } else if (step.cached < 0 || fresh[static_cast<size_t>(step.cached)]) {
      atlas::KernelFn f = kernels_[static_cast<size_t>(step.program)]->function;
      void* const* bufs = frame.buffers.data() + first_buffer_[s];
      const int64_t* syms = frame.arguments.data() + first_argument_[s];
      int64_t total = frame.totals[s], grain = frame.grains[s];
      if (total <= grain)
        status = total > 0 ? f(&context, bufs, syms, 0, total) : 0;
      else
        status = run_parallel(&context, f, bufs, syms, total, grain);
    }
    if (status != 0) return status;
  }
  if (std::any_of(fresh.begin(), fresh.end(), [](const auto& p) { return p != nullptr; })) {
    std::lock_guard lock(mutex_);
    for (size_t c = 0; c < fresh.size(); ++c)
      if (fresh[c]) cached_[c] = fresh[c];
  }
  return 0;
}

size_t Executable::cached_bytes() const {
  std::lock_guard lock(mutex_);
  size_t n = 0;
  for (const auto& p : cached_)
    if (p) n += MemoryPool::capacity(p.get());
  return n;
}

}  // namespace hologram::runtime
