// backend/cuda/launch.cpp: steps of plans as launches on a stream.
#include "backend/cuda/launch.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <vector>

#include "backend/cuda/faults.h"
#include "backend/cuda/graph.h"
#include "backend/cuda/grids.h"
#include "backend/cuda/launches.h"
#include "backend/steps.h"
#include "base/error.h"

namespace hologram::cuda {
namespace {

constexpr size_t least_in_graph = 8;       // launches, of which a graph is likely to be faster
constexpr int64_t calls_before_graph = 2;  // with the same sizes
constexpr size_t kept_sizes = 8;
constexpr int most_refusals = 3;  // of a graph; after each, 16 times as many calls go without it

// What calls with the same sizes share: kernels in a row, [first, last), which may become a graph.
struct Segment {
  size_t first = 0, last = 0, launches = 0;
  std::unique_ptr<LaunchGraph> graph;
  int refusals = 0;
  int64_t without = 0;  // so many calls do not try it
};
struct SizeRecord {
  std::vector<int64_t> key;
  std::vector<Grid> grids;       ///< by step
  size_t workspace = 0;          ///< of all steps together
  std::vector<Touches> touches;  ///< by step
  std::atomic<int64_t> calls{0};
  std::mutex mutex;  ///< of the graphs
  std::vector<Segment> segments;
};

struct Sizes final : Prepared {
  std::shared_ptr<SizeRecord> record;
};

class CudaLauncher final : public Launcher {
 public:
  CudaLauncher(std::span<const atlas::EntryStep> steps,
               std::span<const std::shared_ptr<const Kernel>> kernels, DeviceMemory& memory,
               Log& log, bool waits)
      : steps_(steps, kernels), memory_(memory), log_(log), waits_(waits) {
    for (const atlas::EntryStep& s : steps_) {
      flags_ = flags_ || (s.kernel >= 0 && flags(s));
      if (s.kernel >= 0)
        arguments_ = std::max(arguments_, static_cast<size_t>(s.first_argument + s.num_arguments));
    }
    if (flags_) Faults::stock(device());  // the first call may be captured
  }

  std::unique_ptr<Prepared> prepare(const int64_t* arguments, int threads) const override {
    auto sizes = std::make_unique<Sizes>();
    sizes->record = record_of(arguments, threads);
    return sizes;
  }

  size_t workspace_bytes(const Prepared& prepared) const override {
    return static_cast<const Sizes&>(prepared).record->workspace;
  }
  void set_graphs(std::optional<bool> wanted) override { graphs_ = wanted; }

  int32_t run(CallFrame& frame, const Prepared& prepared) const override {
    const Current here(device());
    SizeRecord& record = *static_cast<const Sizes&>(prepared).record;
    CallFaults faults(*this, frame, flags_);
    std::unique_lock<std::mutex> graphs = use_graphs(record, frame);
    auto segment = record.segments.begin();
    for (size_t s = 0; s < steps_.size(); ++s) {
      const atlas::EntryStep& step = steps_[s];
      if (graphs.owns_lock() && segment != record.segments.end() && segment->first == s) {
        Segment& run = *segment++;
        if (start_graph(run, frame, record, faults.address())) {
          s = run.last - 1;
          continue;
        }
      }
      if (step.cached >= 0 && !frame.stale[step.cached]) continue;
      const int32_t status = step.kernel < 0
                                 ? call_host(frame, s)
                                 : run_kernel(frame, step, record.grids[s], faults.address());
      if (status != 0) return status;
    }
    faults.collect();
    if (waits_ && !memory_.captured(frame.stream)) memory_.wait(frame.stream);
    return 0;
  }

  int32_t run_step(CallFrame& frame, const Prepared& prepared, size_t s) const override {
    const Current here(device());
    CallFaults faults(*this, frame, flags(steps_[s]));
    const int32_t status = run_kernel(
        frame, steps_[s], static_cast<const Sizes&>(prepared).record->grids[s], faults.address());
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
    CallFaults(const CudaLauncher& launcher, const CallFrame& frame, bool flags)
        : launcher_(launcher), frame_(frame) {
      if (!flags) return;
      if (frame.sticky)
        address_ = own_.emplace(launcher.device()).address();
      else
        address_ = launcher.late_words();
    }
    CuPointer address() const { return address_; }
    void collect() {
      if (own_)
        own_->collect(static_cast<CuStream>(frame_.stream), frame_.sticky,
                      launcher_.memory_.captured(frame_.stream));
    }

   private:
    const CudaLauncher& launcher_;
    const CallFrame& frame_;
    std::optional<Faults> own_;
    CuPointer address_ = 0;
  };

  CuPointer late_words() const {
    std::lock_guard lock(mutex_);
    if (!late_) late_ = std::make_unique<Faults>(device());
    return late_->address();
  }

  // The record of these sizes, of the last few; a new one if need be.
  std::shared_ptr<SizeRecord> record_of(const int64_t* arguments, int threads) const {
    std::vector<int64_t> key(arguments, arguments + arguments_);
    key.push_back(threads);
    std::lock_guard lock(mutex_);
    const auto known = std::ranges::find_if(recent_, [&](auto& r) { return r->key == key; });
    if (known != recent_.end()) {
      std::rotate(recent_.begin(), known, known + 1);
      return recent_.front();
    }
    auto record = std::make_shared<SizeRecord>();
    record->key = std::move(key);
    for (const atlas::EntryStep& step : steps_)
      record->grids.push_back(step.kernel < 0 ? Grid{} : grid_of(step, arguments, threads));
    std::vector<gpu::Workspace*> workspaces;
    for (Grid& g : record->grids) workspaces.push_back(&g.workspace);
    record->workspace = gpu::place_workspaces(workspaces);
    for (size_t s = 0; s < steps_.size(); ++s)
      record->touches.push_back(touches_of(steps_[s], arguments, record->grids[s]));
    find_segments(*record);
    recent_.insert(recent_.begin(), record);
    if (recent_.size() > kept_sizes) recent_.pop_back();
    return record;
  }

  void find_segments(SizeRecord& record) const {
    Segment open;
    auto close = [&](size_t s) {
      open.last = s;
      if (open.launches > 1) record.segments.push_back(std::move(open));
      open = {};
    };
    for (size_t s = 0; s < steps_.size(); ++s) {
      const atlas::EntryStep& step = steps_[s];
      if (step.cached >= 0) continue;
      if (step.kernel < 0 || kernel_of(step).host) {
        close(s);
        continue;
      }
      if (open.launches == 0) open.first = s;
      open.launches += record.grids[s].launches();
    }
    close(steps_.size());
  }

  // Whether this call may use graphs: then it has the record's for itself.
  std::unique_lock<std::mutex> use_graphs(SizeRecord& record, const CallFrame& frame) const {
    const int64_t before = record.calls.fetch_add(1, std::memory_order_relaxed);
    if (waits_ || graphs_ == false || record.segments.empty()) return {};
    if (!graphs_ && before < calls_before_graph) return {};
    if (memory_.captured(frame.stream)) return {};
    return std::unique_lock(record.mutex, std::try_to_lock);
  }

  // What it can not start is launched as ever; so is a run in which something kept is stale.
  bool start_graph(Segment& segment, const CallFrame& frame, const SizeRecord& record,
                   CuPointer faults) const {
    if (segment.refusals >= most_refusals || (!graphs_ && segment.launches < least_in_graph))
      return false;
    const std::span steps(steps_.data() + segment.first, segment.last - segment.first);
    if (std::ranges::any_of(steps, [&](const atlas::EntryStep& step) {
          return step.cached >= 0 && frame.stale[step.cached];
        }))
      return false;
    if (segment.without > 0) return --segment.without, false;
    std::vector<Launch> launches;
    for (size_t s = segment.first; s < segment.last; ++s) {
      if (steps_[s].cached >= 0) continue;
      const size_t before = launches.size();
      add_launches(launches, frame, steps_[s], record.grids[s], faults);
      for (size_t l = before; l < launches.size(); ++l) launches[l].touches = &record.touches[s];
    }
    if (!segment.graph) segment.graph = std::make_unique<LaunchGraph>(device());
    const CuResult started = segment.graph->start(launches, static_cast<CuStream>(frame.stream));
    if (started != cu_success) {
      log_.note(
          fmt::format("cuda: a graph of {} launches is refused, which are made one by one: {}",
                      launches.size(), device().driver.words_of(started)));
      segment.graph = nullptr;
      segment.without = int64_t{1} << (4 * ++segment.refusals);
      return false;
    }
    log_.graph_launches.fetch_add(1, std::memory_order_relaxed);
    for (const Launch& l : launches) count(l);
    return true;
  }

  void count(const Launch& l) const {
    if (l.symbol == wide_symbol) log_.wide_launches.fetch_add(1, std::memory_order_relaxed);
  }

  const LoadedKernel& kernel_of(const atlas::EntryStep& step) const {
    return *steps_.code_of(step);
  }
  bool flags(const atlas::EntryStep& step) const { return kernel_of(step).facts.flags; }
  const DeviceContext& device() const { return memory_.context(); }

  Grid grid_of(const atlas::EntryStep& step, const int64_t* arguments, int threads) const {
    return make_grid(kernel_of(step), steps_.symbols_of(step, arguments), threads,
                     device().multiprocessors);
  }

  // The words of a launch begin with its buffers' addresses.
  Touches touches_of(const atlas::EntryStep& step, const int64_t* arguments,
                     const Grid& grid) const {
    Touches out{{}, grid.workspace.at, grid.workspace.bytes};
    if (step.kernel < 0) return out;
    const auto symbols = steps_.symbols_of(step, arguments);
    const LoadedKernel& k = kernel_of(step);
    for (size_t b = 0; b < k.buffers.size(); ++b)
      out.memory.push_back({.word = b,
                            .bytes = bytes_of(k.buffers[b], k.buffers[b].extent, symbols),
                            .writes = k.buffers[b].access != atlas::Access::read});
    return out;
  }

  // The host reads what kernels wrote, unless it puts its own work on the stream.
  int32_t call_host(CallFrame& frame, size_t s) const {
    if (frame.sticky) memory_.wait(frame.stream);
    return frame.context->call_host(frame.context, static_cast<int64_t>(s));
  }

  int32_t run_kernel(CallFrame& frame, const atlas::EntryStep& step, const Grid& grid,
                     CuPointer faults) const {
    const LoadedKernel& k = kernel_of(step);
    if (grid.host) {
      log_.host_runs.fetch_add(grid.host->total > 0, std::memory_order_relaxed);
      return run_on_copies(memory_, frame, step, k.host, *grid.host);
    }
    if (grid.total <= 0) return 0;
    std::vector<Launch> launches;
    add_launches(launches, frame, step, grid, faults);
    const Driver& driver = device().driver;
    const auto stream = static_cast<CuStream>(frame.stream);
    auto require = [&](CuResult result, const char* what, const Launch& l) {
      if (result != cu_success)
        driver.require(result, fmt::format("{} kernel {}, {}", what, k.name, l.str()).c_str());
    };
    for (Launch& l : launches) {
      require(l.start(driver, stream), "launching", l);
      count(l);
      if (waits_ && !memory_.captured(frame.stream))
        require(driver.synchronize(stream), "running", l);
    }
    return 0;
  }

  void add_launches(std::vector<Launch>& launches, const CallFrame& frame,
                    const atlas::EntryStep& step, const Grid& grid, CuPointer faults) const {
    const LoadedKernel& k = kernel_of(step);
    if (grid.total <= 0) return;
    std::vector<uint64_t> words;
    for (size_t b = 0; b < k.buffers.size(); ++b)
      words.push_back(
          reinterpret_cast<uint64_t>(frame.buffers[step.first_buffer + static_cast<int64_t>(b)]));
    for (int64_t a = 0; a < step.num_arguments; ++a)
      words.push_back(static_cast<uint64_t>(frame.arguments[step.first_argument + a]));
    const uint64_t workspace = grid.workspace.bytes > 0
                                   ? reinterpret_cast<uint64_t>(frame.workspace) + grid.workspace.at
                                   : 0;
    cuda::add_launches(launches, k, grid, std::move(words), workspace, faults, log_);
  }

  const Steps<LoadedKernel> steps_;
  DeviceMemory& memory_;
  Log& log_;
  const bool waits_;
  bool flags_ = false;
  std::optional<bool> graphs_;
  size_t arguments_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<SizeRecord>> recent_;
  mutable std::unique_ptr<Faults> late_;  // of calls without `sticky`
};

}  // namespace

std::unique_ptr<Launcher> make_launcher(std::span<const atlas::EntryStep> steps,
                                        std::span<const std::shared_ptr<const Kernel>> kernels,
                                        DeviceMemory& memory, Log& log, bool waits) {
  return std::make_unique<CudaLauncher>(steps, kernels, memory, log, waits);
}

}  // namespace hologram::cuda
