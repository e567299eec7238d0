// backend/cuda/launch.cpp: steps of plans as launches on a stream.
#include "backend/cuda/launch.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include "backend/cuda/faults.h"
#include "base/error.h"

namespace hologram::cuda {
namespace {

constexpr int64_t most_workspace = int64_t{64} << 20;  // of a launch, in bytes
constexpr int64_t most_ctas = (int64_t{1} << 31) - 1;

// A step's launch for some sizes.
struct Grid {
  int64_t total = 0, ctas = 0, teams = 0, team_bytes = 0;
};

struct Sizes final : Prepared {
  std::vector<Grid> grids;  ///< by step; of the host's kernels: total, and units per chunk as ctas
};

struct FreeBlock {
  void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
};
using Block = std::unique_ptr<std::byte, FreeBlock>;

int64_t ceil_to(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }

class CudaLauncher final : public Launcher {
 public:
  CudaLauncher(std::span<const atlas::EntryStep> steps,
               std::span<const std::shared_ptr<const Kernel>> kernels, DeviceMemory& memory,
               std::atomic<uint64_t>& host_runs)
      : steps_(steps.begin(), steps.end()),
        kernels_(kernels.begin(), kernels.end()),
        memory_(memory),
        host_runs_(host_runs) {
    for (const atlas::EntryStep& s : steps_) flags_ = flags_ || (s.kernel >= 0 && flags(s));
  }

  std::unique_ptr<Prepared> prepare(const int64_t* arguments, int threads) const override {
    auto sizes = std::make_unique<Sizes>();
    for (const atlas::EntryStep& step : steps_)
      sizes->grids.push_back(step.kernel < 0 ? Grid{} : grid_of(step, arguments, threads));
    return sizes;
  }

  int32_t run(atlas::EntryFrame& frame, const Prepared& prepared) const override {
    const Current here(device());
    const auto& grids = static_cast<const Sizes&>(prepared).grids;
    CallFaults faults(*this, frame, flags_);
    for (size_t s = 0; s < steps_.size(); ++s) {
      const atlas::EntryStep& step = steps_[s];
      if (step.cached >= 0 && !frame.stale[step.cached]) continue;
      const int32_t status = step.kernel < 0 ? call_host(frame, s)
                                             : run_kernel(frame, step, grids[s], faults.address());
      if (status != 0) return status;
    }
    faults.collect();
    return 0;
  }

  int32_t run_step(atlas::EntryFrame& frame, const Prepared& prepared, size_t s) const override {
    const Current here(device());
    CallFaults faults(*this, frame, flags(steps_[s]));
    const int32_t status = run_kernel(
        frame, steps_[s], static_cast<const Sizes&>(prepared).grids[s], faults.address());
    faults.collect();
    memory_.wait(frame.stream);
    return status;
  }

  int32_t late_faults() const override {
    std::lock_guard lock(mutex_);
    return late_ ? late_->take() : 0;
  }

 private:
  // Where the kernels of one call store faults: words of its own, which are read behind the last
  // one, or the launcher's, of calls that nobody waits for.
  class CallFaults {
   public:
    CallFaults(const CudaLauncher& launcher, const atlas::EntryFrame& frame, bool flags)
        : frame_(frame) {
      if (!flags) return;
      if (frame.sticky)
        address_ = own_.emplace(launcher.device()).address();
      else
        address_ = launcher.late_words();
    }
    CuPointer address() const { return address_; }
    void collect() {
      if (own_) own_->collect(static_cast<CuStream>(frame_.stream), frame_.sticky);
    }

   private:
    const atlas::EntryFrame& frame_;
    std::optional<Faults> own_;
    CuPointer address_ = 0;
  };

  CuPointer late_words() const {
    std::lock_guard lock(mutex_);
    if (!late_) late_ = std::make_unique<Faults>(device());
    return late_->address();
  }
  const LoadedKernel& kernel_of(const atlas::EntryStep& step) const {
    return *static_cast<const LoadedKernel*>(kernels_[static_cast<size_t>(step.kernel)]->code);
  }
  bool flags(const atlas::EntryStep& step) const { return kernel_of(step).facts.flags; }
  const DeviceContext& device() const { return memory_.context(); }

  Grid grid_of(const atlas::EntryStep& step, const int64_t* arguments, int threads) const {
    const LoadedKernel& k = kernel_of(step);
    const std::span symbols(arguments + step.first_argument,
                            static_cast<size_t>(step.num_arguments));
    Grid g;
    if (k.host_function) {
      g.total = k.host.total.eval(symbols);
      const int64_t grain = std::max<int64_t>(k.host.grain.eval(symbols), 1);
      g.ctas = std::max<int64_t>(ceil_to(ceil_to(g.total, 4 * threads), grain), 1) * grain;
      return g;
    }
    g.total = k.facts.total.eval(symbols);
    g.team_bytes = k.facts.team_bytes.eval(symbols);
    if (g.total <= 0) return g;
    g.ctas = ceil_to(g.total, k.facts.points);
    if (!k.facts.parts.is(0)) return cut(g, k.facts.parts.eval(symbols));
    if (g.team_bytes > 0) {
      const int64_t room = std::max<int64_t>(most_workspace / g.team_bytes / k.facts.points, 1);
      g.ctas = std::min({g.ctas, room, int64_t{16} * device().multiprocessors});
    }
    if (g.ctas > most_ctas) refuse_points(g.total);
    g.teams = g.ctas * k.facts.points;
    return g;
  }

  [[noreturn]] static void refuse_points(int64_t total) {
    fail(ErrorCode::invalid_argument, "cuda: a kernel of {} points, more than a launch has", total);
  }

  // As many parts as give each multiprocessor two CTAs.
  Grid cut(Grid g, int64_t parts) const {
    const int64_t wanted = ceil_to(int64_t{2} * device().multiprocessors, g.total);
    g.teams = std::clamp<int64_t>(std::min(parts, wanted), 1, most_parts);
    g.ctas = g.total * g.teams;
    if (g.ctas > most_ctas) refuse_points(g.total);
    return g;
  }

  // The host reads what kernels wrote, unless it puts its own work on the stream.
  int32_t call_host(atlas::EntryFrame& frame, size_t s) const {
    if (frame.sticky) memory_.wait(frame.stream);
    return frame.context->call_host(frame.context, static_cast<int64_t>(s));
  }

  int32_t run_kernel(atlas::EntryFrame& frame, const atlas::EntryStep& step, const Grid& grid,
                     CuPointer faults) const {
    const LoadedKernel& k = kernel_of(step);
    if (grid.total <= 0) return 0;
    if (k.host_function) return run_on_host(frame, step, grid);
    launch(frame, step, k, grid, faults);
    return 0;
  }

  void launch(const atlas::EntryFrame& frame, const atlas::EntryStep& step, const LoadedKernel& k,
              const Grid& grid, CuPointer faults) const {
    const bool parted = k.merge && grid.teams > 1;
    const int64_t pieces = k.merge ? (parted ? grid.ctas : 0) : grid.teams;
    const auto bytes = static_cast<size_t>(pieces * grid.team_bytes);
    void* workspace = bytes > 0 ? memory_.allocate(bytes, frame.stream) : nullptr;
    std::vector<uint64_t> words;
    for (size_t b = 0; b < k.buffers.size(); ++b)
      words.push_back(
          reinterpret_cast<uint64_t>(frame.buffers[step.first_buffer + static_cast<int64_t>(b)]));
    for (int64_t a = 0; a < step.num_arguments; ++a)
      words.push_back(static_cast<uint64_t>(frame.arguments[step.first_argument + a]));
    for (int64_t n : {grid.total, grid.teams, grid.team_bytes})
      words.push_back(static_cast<uint64_t>(n));
    words.push_back(reinterpret_cast<uint64_t>(workspace));
    words.push_back(faults);
    std::vector<void*> parameters;
    for (uint64_t& w : words) parameters.push_back(&w);
    auto start = [&](CuFunction function, int64_t ctas, int threads) {
      return device().driver.launch(
          function, static_cast<unsigned>(ctas), 1, 1, static_cast<unsigned>(threads), 1, 1, 0,
          static_cast<CuStream>(frame.stream), parameters.data(), nullptr);
    };
    CuResult result = start(k.function, grid.ctas, k.facts.threads);
    if (parted && result == cu_success)
      result = start(k.merge, grid.total * k.facts.merges, merge_threads);
    memory_.deallocate(workspace, frame.stream);
    if (result != cu_success) refuse(k, grid, result);
  }

  [[noreturn]] void refuse(const LoadedKernel& k, const Grid& grid, CuResult result) const {
    device().driver.require(result, fmt::format("launching kernel {} ({} CTAs of {} threads)",
                                                k.name, grid.ctas, k.facts.threads)
                                        .c_str());
    fail(ErrorCode::internal, "cuda: a launch that did not fail");
  }

  // A program that is not rendered for the GPU, on copies of its buffers.
  int32_t run_on_host(const atlas::EntryFrame& frame, const atlas::EntryStep& step,
                      const Grid& grid) const {
    const LoadedKernel& k = kernel_of(step);
    const int64_t* arguments = frame.arguments + step.first_argument;
    const std::span symbols(arguments, static_cast<size_t>(step.num_arguments));
    std::vector<Block> blocks;
    std::vector<void*> addresses;
    std::vector<size_t> sizes;
    for (size_t b = 0; b < k.buffers.size(); ++b) {
      sizes.push_back(
          static_cast<size_t>(k.buffers[b].extent.eval(symbols) * size_of(k.buffers[b].dtype)));
      blocks.emplace_back(static_cast<std::byte*>(
          ::operator new (std::max<size_t>(sizes[b], 1), std::align_val_t{64})));
      addresses.push_back(blocks[b].get());
      memory_.copy(addresses[b], buffer(frame, step, b), sizes[b], frame.stream);
    }
    host_runs_.fetch_add(1, std::memory_order_relaxed);
    const int32_t status = frame.context->parallel_for(
        frame.context, k.host_function, addresses.data(), arguments, grid.total, grid.ctas);
    if (status != 0) return status;
    for (size_t b = 0; b < k.buffers.size(); ++b)
      if (k.buffers[b].access != atlas::Access::read)
        memory_.copy(buffer(frame, step, b), addresses[b], sizes[b], frame.stream);
    return 0;
  }

  static void* buffer(const atlas::EntryFrame& frame, const atlas::EntryStep& step, size_t b) {
    return frame.buffers[step.first_buffer + static_cast<int64_t>(b)];
  }

  std::vector<atlas::EntryStep> steps_;
  std::vector<std::shared_ptr<const Kernel>> kernels_;
  DeviceMemory& memory_;
  std::atomic<uint64_t>& host_runs_;
  bool flags_ = false;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Faults> late_;  // of calls without `sticky`
};

}  // namespace

std::unique_ptr<Launcher> make_launcher(std::span<const atlas::EntryStep> steps,
                                        std::span<const std::shared_ptr<const Kernel>> kernels,
                                        DeviceMemory& memory, std::atomic<uint64_t>& host_runs) {
  return std::make_unique<CudaLauncher>(steps, kernels, memory, host_runs);
}

}  // namespace hologram::cuda
