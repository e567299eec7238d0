// backend/webgpu/launch.cpp: steps of plans as dispatches: those between two calls to the host are
// one pass of one submission.
#include "backend/webgpu/launch.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "backend/steps.h"
#include "backend/webgpu/kernel.h"
#include "base/error.h"

namespace hologram::webgpu {
namespace {

// What is known of all steps from sizes alone.
struct Sizes final : Prepared {
  std::vector<StepSizes> steps;
  struct OnHost {
    const HostKernel* kernel;
    HostLaunch launch;
  };
  std::map<size_t, OnHost> on_host;  // by step
  uint64_t workspace = 0;
};

class WebLauncher final : public Launcher {
 public:
  WebLauncher(std::span<const atlas::EntryStep> steps,
              std::span<const std::shared_ptr<const Kernel>> kernels, DeviceMemory& memory,
              Counts& counts, Notes& notes)
      : steps_(steps, kernels), memory_(memory), counts_(counts), notes_(notes) {
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
      const auto symbols = steps_.symbols_of(step, arguments);
      if (const HostKernel* host = host_of(kernel_of(step), symbols, own))
        sizes->on_host[s] = {host, host_launch(*host, symbols, threads)};
    }
    sizes->workspace = place_workspaces(sizes->steps);
    return sizes;
  }
  size_t workspace_bytes(const Prepared& prepared) const override {
    return static_cast<const Sizes&>(prepared).workspace;
  }

  int32_t run(CallFrame& frame, const Prepared& prepared) const override {
    const auto& sizes = static_cast<const Sizes&>(prepared);
    return recorded(frame, faults_, [&](Batch& batch) {
      return walk(
          frame, steps_, [&](size_t s) { return add(batch, frame, sizes, s); },
          [&](size_t) {
            submit(batch);
            memory_.wait(frame.stream);
          });
    });
  }
  int32_t run_step(CallFrame& frame, const Prepared& prepared, size_t s) const override {
    const int32_t status = recorded(frame, kernel_of(steps_[s]).faults(), [&](Batch& batch) {
      return add(batch, frame, static_cast<const Sizes&>(prepared), s);
    });
    memory_.wait(frame.stream);
    return status;
  }

  int32_t late_faults() const override { return faults_ ? take_faults() : 0; }

 private:
  const LoadedKernel& kernel_of(const atlas::EntryStep& step) const {
    return *steps_.code_of(step);
  }
  const DeviceContext& device() const { return memory_.context(); }

  // The host's kernel, where that is to run; otherwise null, and the sizes of the device's.
  const HostKernel* host_of(const LoadedKernel& k, std::span<const int64_t> symbols,
                            StepSizes& sizes) const {
    if (k.host) return &k.host;
    try {
      sizes = sizes_of(k, symbols, device());
      return nullptr;
    } catch (const Error& error) {
      const HostKernel* const host = k.substitute.get();
      if (error.code() != ErrorCode::unsupported || !host) throw;
      notes_.note(fmt::format("{}: it runs on the host", error.what()));
      return host;
    }
  }

  // Submits what `steps` puts into a batch, and tells the call of its faults.
  template <class F>
  int32_t recorded(CallFrame& frame, bool faults, F&& steps) const {
    std::lock_guard lock(mutex_);  // of the words
    device().tell_faults();
    if (faults && frame.sticky) take_faults();
    Batch batch(spare_, device());
    if (const int32_t status = steps(batch)) return status;
    submit(batch);
    if (faults && frame.sticky)
      if (const int32_t bits = take_faults()) frame.sticky->fetch_or(bits);
    return 0;
  }

  int32_t add(Batch& batch, const CallFrame& frame, const Sizes& sizes, size_t s) const {
    const auto host = sizes.on_host.find(s);
    if (host == sizes.on_host.end()) {
      batch.add(kernel_of(steps_[s]), frame, steps_[s], sizes.steps[s]);
      return 0;
    }
    submit(batch);
    const auto& [kernel, launch] = host->second;
    counts_.host_runs.fetch_add(launch.total > 0, std::memory_order_relaxed);
    return run_on_copies(memory_, frame, steps_[s], *kernel, launch);
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

  const Steps<LoadedKernel> steps_;
  DeviceMemory& memory_;
  Counts& counts_;
  Notes& notes_;
  bool faults_ = false;
  std::byte* spare_ = nullptr;  // the word of faults, and what Batch needs
  mutable std::mutex mutex_;
  mutable Buffer words_ = nullptr;
  mutable uint64_t words_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Launcher> make_launcher(std::span<const atlas::EntryStep> steps,
                                        std::span<const std::shared_ptr<const Kernel>> kernels,
                                        DeviceMemory& memory, Counts& counts, Notes& notes) {
  return std::make_unique<WebLauncher>(steps, kernels, memory, counts, notes);
}

}  // namespace hologram::webgpu
