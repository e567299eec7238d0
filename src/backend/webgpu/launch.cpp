// backend/webgpu/launch.cpp: steps of plans as dispatches: those between two calls to the host are
// one pass of one submission.
#include "backend/webgpu/launch.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "backend/on_host.h"
#include "backend/webgpu/kernel.h"
#include "base/error.h"

namespace hologram::webgpu {
namespace {

constexpr uint64_t alignment = 256;  // of bindings, which WebGPU allows everywhere
constexpr int64_t most = int64_t{1} << 30;

uint64_t round_up(uint64_t x, uint64_t to) { return (x + to - 1) / to * to; }

// What is known of a step from sizes alone.
struct StepSizes {
  std::vector<int64_t> units;     // by dispatch
  std::vector<uint64_t> bytes;    // by buffer
  std::vector<uint64_t> scratch;  // by buffer: place in the workspace
  int64_t host_total = 0, host_grain = 1;
};
struct Sizes final : Prepared {
  std::vector<StepSizes> steps;
  uint64_t workspace = 0;
};

class WebLauncher final : public Launcher {
 public:
  WebLauncher(std::span<const atlas::EntryStep> steps,
              std::span<const std::shared_ptr<const Kernel>> kernels, DeviceMemory& memory,
              Counts& counts)
      : steps_(steps.begin(), steps.end()),
        kernels_(kernels.begin(), kernels.end()),
        memory_(memory),
        counts_(counts) {
    for (const atlas::EntryStep& s : steps_)
      faults_ = faults_ || (s.kernel >= 0 && kernel_of(s).faults());
    fault_word_ = memory_.allocate(alignment, nullptr);
    const uint32_t none = 0;
    memory_.copy(fault_word_, &none, sizeof none, nullptr);
  }
  ~WebLauncher() override {
    memory_.deallocate(fault_word_, nullptr);
    if (words_) device().api.BufferRelease(words_);
  }
  WebLauncher(const WebLauncher&) = delete;
  WebLauncher& operator=(const WebLauncher&) = delete;

  std::unique_ptr<Prepared> prepare(const int64_t* arguments, int threads) const override {
    auto sizes = std::make_unique<Sizes>();
    for (const atlas::EntryStep& step : steps_)
      sizes->steps.push_back(step.kernel < 0 ? StepSizes{}
                                             : sizes_of(step, arguments, threads, *sizes));
    return sizes;
  }
  size_t workspace_bytes(const Prepared& prepared) const override {
    return static_cast<const Sizes&>(prepared).workspace;
  }

  int32_t run(CallFrame& frame, const Prepared& prepared) const override {
    std::vector<size_t> all(steps_.size());
    for (size_t s = 0; s < all.size(); ++s) all[s] = s;
    return run_steps(frame, static_cast<const Sizes&>(prepared), all, faults_);
  }
  int32_t run_step(CallFrame& frame, const Prepared& prepared, size_t step) const override {
    const int32_t status = run_steps(frame, static_cast<const Sizes&>(prepared), {step},
                                     steps_[step].kernel >= 0 && kernel_of(steps_[step]).faults());
    memory_.wait(frame.stream);
    return status;
  }

  int32_t late_faults() const override { return faults_ ? take_faults() : 0; }

 private:
  // One dispatch that waits for its submission.
  struct Waiting {
    const LoadedKernel* kernel;
    size_t dispatch;
    uint64_t words;  // place of its words, in bytes
    std::vector<BindGroupEntry> bindings;
    uint32_t x, y;
  };
  struct Batch {
    std::vector<int32_t> words;
    std::vector<Waiting> waiting;
  };

  const LoadedKernel& kernel_of(const atlas::EntryStep& step) const {
    return *static_cast<const LoadedKernel*>(kernels_[static_cast<size_t>(step.kernel)]->code);
  }
  const DeviceContext& device() const { return memory_.context(); }

  StepSizes sizes_of(const atlas::EntryStep& step, const int64_t* arguments, int threads,
                     Sizes& all) const {
    const LoadedKernel& k = kernel_of(step);
    const std::span symbols(arguments + step.first_argument,
                            static_cast<size_t>(step.num_arguments));
    StepSizes out;
    if (k.host_function) {
      out.host_total = std::max<int64_t>(k.host.total.eval(symbols), 0);
      const int64_t grain = std::max<int64_t>(k.host.grain.eval(symbols), 1);
      const int64_t each = (out.host_total + threads - 1) / std::max(threads, 1);
      out.host_grain = std::max<int64_t>((each + grain - 1) / grain * grain, grain);
    }
    for (const wgsl::Dispatch& d : k.module.dispatches) {
      out.units.push_back(d.units.eval(symbols));
      require_small(out.units.back(), "points of a kernel");
      if (const int64_t rounds = d.rounds.eval(symbols); rounds > device().most_rounds)
        fail(ErrorCode::unsupported,
             "webgpu: a kernel of {} rounds of loops; {} ends them all after {}", rounds,
             device().name, device().most_rounds);
    }
    const bool runs = std::ranges::any_of(out.units, [](int64_t u) { return u > 0; });
    for (size_t b = 0; b < k.buffers.size(); ++b) {
      const bool scratch = k.buffers[b].access == atlas::Access::scratch;
      const Expr& extent = scratch && !k.host_function ? k.module.scratch[b] : k.buffers[b].extent;
      const int64_t elements = std::max<int64_t>(extent.eval(symbols), 0);
      if (!k.host_function && (runs || scratch)) require_small(elements, "elements of a buffer");
      out.bytes.push_back(static_cast<uint64_t>(elements) *
                          static_cast<uint64_t>(size_of(k.buffers[b].dtype)));
      out.scratch.push_back(all.workspace);
      if (scratch && !k.host_function) all.workspace += round_up(out.bytes[b], alignment);
    }
    return out;
  }

  static void require_small(int64_t count, std::string_view what) {
    if (count > most)
      fail(ErrorCode::unsupported, "webgpu: {} {}; expected at most {}", count, what, most);
  }

  int32_t run_steps(CallFrame& frame, const Sizes& sizes, const std::vector<size_t>& which,
                    bool faults) const {
    std::lock_guard lock(mutex_);  // of the words
    device().tell_faults();
    if (faults && frame.sticky) take_faults();
    Batch batch;
    for (size_t s : which) {
      const atlas::EntryStep& step = steps_[s];
      if (step.cached >= 0 && !frame.stale[step.cached]) continue;
      int32_t status = 0;
      if (step.kernel < 0) {
        submit(batch);
        memory_.wait(frame.stream);
        status = frame.context->call_host(frame.context, static_cast<int64_t>(s));
      } else if (kernel_of(step).host_function) {
        submit(batch);
        status = run_on_host(frame, step, sizes.steps[s]);
      } else {
        add(batch, frame, step, sizes.steps[s]);
      }
      if (status != 0) return status;
    }
    submit(batch);
    if (faults && frame.sticky)
      if (const int32_t bits = take_faults()) frame.sticky->fetch_or(bits);
    return 0;
  }

  void add(Batch& batch, const CallFrame& frame, const atlas::EntryStep& step,
           const StepSizes& sizes) const {
    const LoadedKernel& k = kernel_of(step);
    batch.words.resize(round_up(batch.words.size(), alignment / 4));
    const uint64_t words = batch.words.size() * 4;
    for (int64_t a = 0; a < step.num_arguments; ++a)
      batch.words.push_back(static_cast<int32_t>(frame.arguments[step.first_argument + a]));
    std::vector<BindGroupEntry> bindings;
    int64_t given = 0;
    for (size_t b = 0; b < k.buffers.size(); ++b) {
      const bool scratch = k.buffers[b].access == atlas::Access::scratch;
      const void* address = scratch ? static_cast<std::byte*>(frame.workspace) + sizes.scratch[b]
                                    : frame.buffers[step.first_buffer + given++];
      bindings.push_back(bind(b, address, sizes.bytes[b]));
      const uint64_t offset = bindings.back().offset;
      bindings.back().offset = offset / alignment * alignment;
      bindings.back().bytes = binding_bytes(offset, sizes.bytes[b]);
      batch.words.push_back(static_cast<int32_t>(
          (offset - bindings.back().offset) / static_cast<uint64_t>(size_of(k.buffers[b].dtype))));
    }
    for (int64_t units : sizes.units) batch.words.push_back(static_cast<int32_t>(units));
    batch.words.resize(round_up(batch.words.size(), 4));
    for (size_t d = 0; d < k.module.dispatches.size(); ++d)
      if (sizes.units[d] > 0) add_dispatch(batch, k, d, words, bindings, sizes.units[d]);
  }

  // Of no elements, any memory will do.
  BindGroupEntry bind(size_t buffer, const void* address, uint64_t bytes) const {
    const Place place = memory_.place_of(bytes == 0 ? fault_word_ : address);
    BindGroupEntry entry;
    entry.binding = static_cast<uint32_t>(1 + buffer);
    entry.buffer = place.buffer;
    entry.offset = place.offset;
    return entry;
  }
  uint64_t binding_bytes(uint64_t offset, uint64_t bytes) const {
    const uint64_t whole = round_up(std::max<uint64_t>(offset % alignment + bytes, 16), 4);
    const uint64_t limit = device().limits.storage_binding;
    if (whole > limit)
      fail(ErrorCode::unsupported,
           "webgpu: a buffer of {} bytes; {} lets kernels see {} (maxStorageBufferBindingSize)",
           bytes, device().name, limit);
    return whole;
  }

  void add_dispatch(Batch& batch, const LoadedKernel& k, size_t d, uint64_t words,
                    const std::vector<BindGroupEntry>& buffers, int64_t units) const {
    const wgsl::Dispatch& dispatch = k.module.dispatches[d];
    Waiting w{&k, d, words, {}, 0, 0};
    for (int b : dispatch.buffers) w.bindings.push_back(buffers[static_cast<size_t>(b)]);
    if (dispatch.faults) {
      BindGroupEntry entry = bind(k.buffers.size(), fault_word_, 4);
      entry.bytes = 4;
      w.bindings.push_back(entry);
    }
    const int64_t groups =
        dispatch.teams ? units : (units + dispatch.threads - 1) / dispatch.threads;
    const int64_t x = std::min(groups, wgsl::grid_row);
    w.x = static_cast<uint32_t>(x);
    w.y = static_cast<uint32_t>((groups + x - 1) / x);
    batch.waiting.push_back(std::move(w));
  }

  void submit(Batch& batch) const {
    if (batch.waiting.empty()) return;
    const Api& api = device().api;
    const Buffer words = write_words(batch.words);
    std::vector<BindGroup> groups;
    device().submit([&](Encoder encoder) {
      const Pass pass = api.CommandEncoderBeginComputePass(encoder, nullptr);
      for (Waiting& w : batch.waiting) {
        const Pipelines::Each& each = w.kernel->pipelines->each[w.dispatch];
        w.bindings.push_back({.next = nullptr,
                              .binding = 0,
                              .buffer = words,
                              .offset = w.words,
                              .bytes = word_bytes(*w.kernel)});
        BindGroupDescriptor wanted;
        wanted.layout = each.layout;
        wanted.num_entries = w.bindings.size();
        wanted.entries = w.bindings.data();
        groups.push_back(api.DeviceCreateBindGroup(device().gpu, &wanted));
        api.ComputePassEncoderSetPipeline(pass, each.pipeline);
        api.ComputePassEncoderSetBindGroup(pass, 0, groups.back(), 0, nullptr);
        api.ComputePassEncoderDispatchWorkgroups(pass, w.x, w.y, 1);
      }
      api.ComputePassEncoderEnd(pass);
      api.ComputePassEncoderRelease(pass);
    });
    for (BindGroup g : groups) api.BindGroupRelease(g);
    counts_.dispatches.fetch_add(batch.waiting.size(), std::memory_order_relaxed);
    counts_.submissions.fetch_add(1, std::memory_order_relaxed);
    batch = {};
  }

  static uint64_t word_bytes(const LoadedKernel& k) {
    return round_up(4 * (k.num_symbols + k.buffers.size() + k.module.dispatches.size()), 16);
  }

  // Behind what is submitted before and in front of what comes now: one buffer serves all calls.
  Buffer write_words(const std::vector<int32_t>& words) const {
    const uint64_t bytes = words.size() * 4;
    if (bytes > words_bytes_) {
      if (words_) device().api.BufferRelease(words_);
      words_bytes_ = round_up(bytes, 4096);
      words_ = device().make_buffer(words_bytes_, uniform_use | copy_target);
    }
    device().api.QueueWriteBuffer(device().queue, words_, 0, words.data(), bytes);
    return words_;
  }

  int32_t take_faults() const {
    uint32_t bits = 0;
    const uint32_t none = 0;
    memory_.copy(&bits, fault_word_, sizeof bits, nullptr);
    if (bits != 0) memory_.copy(fault_word_, &none, sizeof none, nullptr);
    return static_cast<int32_t>(bits);
  }

  // A program that is not rendered, on copies of its buffers.
  int32_t run_on_host(const CallFrame& frame, const atlas::EntryStep& step,
                      const StepSizes& sizes) const {
    const LoadedKernel& k = kernel_of(step);
    if (sizes.host_total <= 0) return 0;
    counts_.host_runs.fetch_add(1, std::memory_order_relaxed);
    return run_on_copies(memory_, frame, step, k.buffers, sizes.bytes, k.host_function,
                         sizes.host_total, sizes.host_grain);
  }

  std::vector<atlas::EntryStep> steps_;
  std::vector<std::shared_ptr<const Kernel>> kernels_;
  DeviceMemory& memory_;
  Counts& counts_;
  bool faults_ = false;
  void* fault_word_ = nullptr;
  mutable std::mutex mutex_;
  mutable Buffer words_ = nullptr;
  mutable uint64_t words_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Launcher> make_launcher(std::span<const atlas::EntryStep> steps,
                                        std::span<const std::shared_ptr<const Kernel>> kernels,
                                        DeviceMemory& memory, Counts& counts) {
  return std::make_unique<WebLauncher>(steps, kernels, memory, counts);
}

}  // namespace hologram::webgpu
