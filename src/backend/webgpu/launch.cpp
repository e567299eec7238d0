// backend/webgpu/launch.cpp: steps of plans as dispatches: those between two calls to the host are
// one pass of one submission.
#include "backend/webgpu/launch.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "backend/on_host.h"
#include "backend/webgpu/kernel.h"
#include "base/error.h"

namespace hologram::webgpu {
namespace {

// What is known of all steps from sizes alone.
struct Sizes final : Prepared {
  // Of one that the host runs.
  struct HostStep {
    int64_t total = 0, grain = 1;
    std::vector<uint64_t> bytes;  // by buffer
  };
  std::vector<StepSizes> steps;
  std::map<size_t, HostStep> on_host;  // by step
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
    size_t buffers = 0;
    for (const atlas::EntryStep& s : steps_) {
      if (s.kernel < 0) continue;
      faults_ = faults_ || kernel_of(s).faults();
      buffers = std::max(buffers, kernel_of(s).buffers.size());
    }
    spare_ = static_cast<std::byte*>(memory_.allocate(spare_bytes(buffers), nullptr));
    const uint32_t none = 0;
    memory_.copy(spare_, &none, sizeof none, nullptr);
  }
  ~WebLauncher() override {
    memory_.deallocate(spare_, nullptr);
    if (words_) device().api.BufferRelease(words_);
  }
  WebLauncher(const WebLauncher&) = delete;
  WebLauncher& operator=(const WebLauncher&) = delete;

  std::unique_ptr<Prepared> prepare(const int64_t* arguments, int threads) const override {
    auto sizes = std::make_unique<Sizes>();
    for (size_t s = 0; s < steps_.size(); ++s) {
      const atlas::EntryStep& step = steps_[s];
      StepSizes& own = sizes->steps.emplace_back();
      if (step.kernel < 0) continue;
      const std::span symbols(arguments + step.first_argument,
                              static_cast<size_t>(step.num_arguments));
      if (kernel_of(step).host_function)
        sizes->on_host[s] = host_step(kernel_of(step), symbols, threads);
      else
        own = sizes_of(kernel_of(step), symbols, device(), sizes->workspace);
    }
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
  const LoadedKernel& kernel_of(const atlas::EntryStep& step) const {
    return *static_cast<const LoadedKernel*>(kernels_[static_cast<size_t>(step.kernel)]->code);
  }
  const DeviceContext& device() const { return memory_.context(); }

  static Sizes::HostStep host_step(const LoadedKernel& k, std::span<const int64_t> symbols,
                                   int threads) {
    Sizes::HostStep out;
    out.total = std::max<int64_t>(k.host.total.eval(symbols), 0);
    const int64_t grain = std::max<int64_t>(k.host.grain.eval(symbols), 1);
    const int64_t each = (out.total + threads - 1) / std::max(threads, 1);
    out.grain = std::max<int64_t>((each + grain - 1) / grain * grain, grain);
    for (const atlas::Buffer& b : k.buffers) out.bytes.push_back(bytes_of(b, b.extent, symbols));
    return out;
  }

  int32_t run_steps(CallFrame& frame, const Sizes& sizes, const std::vector<size_t>& which,
                    bool faults) const {
    std::lock_guard lock(mutex_);  // of the words
    device().tell_faults();
    if (faults && frame.sticky) take_faults();
    Batch batch(spare_, device());
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
        status = run_on_host(frame, step, sizes.on_host.at(s));
      } else {
        batch.add(kernel_of(step), frame, step, sizes.steps[s]);
      }
      if (status != 0) return status;
    }
    submit(batch);
    if (faults && frame.sticky)
      if (const int32_t bits = take_faults()) frame.sticky->fetch_or(bits);
    return 0;
  }

  void submit(Batch& batch) const {
    if (batch.empty()) return;
    const Api& api = device().api;
    const Buffer words = write_words(batch.words());
    std::vector<BindGroup> groups;
    device().submit([&](Encoder encoder) {
      const Pass pass = api.CommandEncoderBeginComputePass(encoder, nullptr);
      for (const Dispatched& d : batch.dispatches()) {
        const Pipelines::Each& each =
            static_cast<const LoadedKernel*>(d.kernel)->pipelines->each[d.dispatch];
        groups.push_back(group_of(d, each, words));
        api.ComputePassEncoderSetPipeline(pass, each.pipeline);
        api.ComputePassEncoderSetBindGroup(pass, 0, groups.back(), 0, nullptr);
        api.ComputePassEncoderDispatchWorkgroups(pass, d.x, d.y, 1);
      }
      api.ComputePassEncoderEnd(pass);
      api.ComputePassEncoderRelease(pass);
    });
    for (BindGroup g : groups) api.BindGroupRelease(g);
    counts_.dispatches.fetch_add(batch.dispatches().size(), std::memory_order_relaxed);
    counts_.submissions.fetch_add(1, std::memory_order_relaxed);
    batch.clear();
  }

  BindGroup group_of(const Dispatched& d, const Pipelines::Each& each, Buffer words) const {
    std::vector<BindGroupEntry> entries(d.bindings.size() + 1);
    entries[0].binding = 0;
    entries[0].buffer = words;
    entries[0].offset = d.words;
    entries[0].bytes = word_bytes(*d.kernel);
    for (size_t b = 0; b < d.bindings.size(); ++b) {
      const Place place = memory_.place_of(d.bindings[b].address);
      entries[b + 1].binding = static_cast<uint32_t>(1 + d.bindings[b].buffer);
      entries[b + 1].buffer = place.buffer;
      entries[b + 1].offset = place.offset;
      entries[b + 1].bytes = d.bindings[b].bytes;
    }
    BindGroupDescriptor wanted;
    wanted.layout = each.layout;
    wanted.num_entries = entries.size();
    wanted.entries = entries.data();
    return device().api.DeviceCreateBindGroup(device().gpu, &wanted);
  }

  // Behind what is submitted before and in front of what comes now: one buffer serves all calls.
  Buffer write_words(const std::vector<int32_t>& words) const {
    const uint64_t bytes = words.size() * 4;
    if (bytes > words_bytes_) {
      if (words_) device().api.BufferRelease(words_);
      words_bytes_ = (bytes + 4095) / 4096 * 4096;
      words_ = device().make_buffer(words_bytes_, uniform_use | copy_target);
    }
    device().api.QueueWriteBuffer(device().queue, words_, 0, words.data(), bytes);
    return words_;
  }

  int32_t take_faults() const {
    uint32_t bits = 0;
    const uint32_t none = 0;
    memory_.copy(&bits, spare_, sizeof bits, nullptr);
    if (bits != 0) memory_.copy(spare_, &none, sizeof none, nullptr);
    return static_cast<int32_t>(bits);
  }

  // A program that is not rendered, on copies of its buffers.
  int32_t run_on_host(const CallFrame& frame, const atlas::EntryStep& step,
                      const Sizes::HostStep& sizes) const {
    const LoadedKernel& k = kernel_of(step);
    if (sizes.total <= 0) return 0;
    counts_.host_runs.fetch_add(1, std::memory_order_relaxed);
    return run_on_copies(memory_, frame, step, k.buffers, sizes.bytes, k.host_function, sizes.total,
                         sizes.grain);
  }

  std::vector<atlas::EntryStep> steps_;
  std::vector<std::shared_ptr<const Kernel>> kernels_;
  DeviceMemory& memory_;
  Counts& counts_;
  bool faults_ = false;
  std::byte* spare_ = nullptr;  // the word of faults, and what Batch needs
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
