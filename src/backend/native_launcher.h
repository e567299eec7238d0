// backend/native_launcher.h: launching kernels that are functions of this process, by one more
// function that runs all steps.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "backend/steps.h"
#include "host/context.h"
#include "strips/routine.h"

namespace hologram {

class NativeLauncher final : public Launcher {
 public:
  /// `keep` owns the code of `run_all`, which takes `code_bytes`. Null: steps are walked here.
  NativeLauncher(std::span<const atlas::EntryStep> steps,
                 std::span<const std::shared_ptr<const Kernel>> kernels, atlas::EntryFn run_all,
                 std::shared_ptr<const void> keep, size_t code_bytes = 0)
      : steps_(steps, kernels), run_all_(run_all), keep_(std::move(keep)), code_bytes_(code_bytes) {
    for (const auto& k : kernels) codes_.push_back(k->code);
  }

  std::unique_ptr<Prepared> prepare(const int64_t* arguments, int threads) const override {
    auto sizes = std::make_unique<Sizes>();
    sizes->totals.resize(steps_.size());
    sizes->grains.resize(steps_.size());
    for (size_t s = 0; s < steps_.size(); ++s) {
      if (steps_[s].kernel < 0) continue;
      const Kernel& k = *steps_.kernel_of(steps_[s]);
      const auto own = steps_.symbols_of(steps_[s], arguments);
      sizes->totals[s] = k.total.eval(own);
      sizes->grains[s] =
          host::chunk_of(sizes->totals[s], k.grain.eval(own), k.unit_work.eval(own), threads);
    }
    find_groups(*sizes, arguments, threads);
    return sizes;
  }

  int32_t run(CallFrame& frame, const Prepared& prepared) const override {
    fill(frame, prepared);
    const auto& sizes = static_cast<const Sizes&>(prepared);
    return sizes.groups.empty() && run_all_ ? run_all_(&frame) : run_groups(frame, prepared);
  }

  int32_t run_step(CallFrame& frame, const Prepared& prepared, size_t s) const override {
    fill(frame, prepared);
    if (frame.totals[s] <= 0) return 0;
    const Callee callee = callee_of(frame, steps_[s]);
    const int64_t* arguments = frame.arguments + steps_[s].first_argument;
    if (frame.totals[s] <= frame.grains[s])
      return callee.function(frame.context, callee.takes(), arguments, 0, frame.totals[s]);
    return frame.context->parallel_for(frame.context, callee.function, callee.takes(), arguments,
                                       frame.totals[s], frame.grains[s]);
  }

  size_t code_bytes() const override { return code_bytes_; }

 private:
  // Neighbouring steps whose chunks the threads share out as one launch.
  struct Group {
    size_t first, end;
    std::vector<int64_t> chunks;  // of the steps before each of them, and of all
    int64_t grain;                // so many chunks at a time
  };
  struct Sizes : Prepared {
    std::vector<int64_t> totals, grains;  // by step
    std::vector<Group> groups;
  };
  // What a step calls: its kernel's code, or run_routine, which takes this for its buffers.
  struct Callee {
    atlas::KernelFn function;
    void* const* buffers;
    const strips::Routine* routine;
    void* const* takes() const { return routine ? reinterpret_cast<void* const*>(this) : buffers; }
  };
  struct GroupCall {
    const NativeLauncher* launcher;
    const CallFrame* frame;
    const Group* group;
  };

  void find_groups(Sizes& sizes, const int64_t* arguments, int threads) const {
    if (threads < 2) return;
    for (size_t s = 0; s < steps_.size();) {
      Group group{s, s + 1, {0}, 1};
      while (group.end < steps_.size() && steps_[s].group >= 0 &&
             steps_[group.end].group == steps_[s].group)
        ++group.end;
      s = group.end;
      if (group.end - group.first < 2) continue;
      double work = 0;
      for (size_t i = group.first; i < group.end; ++i) {
        const int64_t total = std::max<int64_t>(sizes.totals[i], 0), grain = sizes.grains[i];
        const Kernel& k = *steps_.kernel_of(steps_[i]);
        const auto own = steps_.symbols_of(steps_[i], arguments);
        work += static_cast<double>(total) * static_cast<double>(k.unit_work.eval(own));
        group.chunks.push_back(group.chunks.back() + (total + grain - 1) / grain);
      }
      if (work <= host::split_work) continue;
      const auto all = static_cast<double>(group.chunks.back());
      group.grain = std::max<int64_t>(1, static_cast<int64_t>(all * host::chunk_work / work));
      sizes.groups.push_back(std::move(group));
    }
  }

  int32_t run_groups(CallFrame& frame, const Prepared& prepared) const {
    auto group = static_cast<const Sizes&>(prepared).groups.begin();
    const auto last = static_cast<const Sizes&>(prepared).groups.end();
    return walk(frame, steps_, [&](size_t s) {
      while (group != last && group->end <= s) ++group;
      if (group == last || s < group->first) return run_step(frame, prepared, s);
      if (s > group->first) return 0;
      const GroupCall call{this, &frame, &*group};
      return frame.context->parallel_for(frame.context, run_chunks,
                                         reinterpret_cast<void* const*>(&call), nullptr,
                                         group->chunks.back(), group->grain);
    });
  }

  // Chunks of a group. Each step has a launch number of its own, so that no kernel takes another
  // one's scratch memory for its own.
  static int32_t run_chunks(const atlas::Context* context, void* const* call_, const int64_t*,
                            int64_t begin, int64_t end) {
    const auto& call = *reinterpret_cast<const GroupCall*>(call_);
    const std::vector<int64_t>& chunks = call.group->chunks;
    atlas::Context own = *context;
    auto k = static_cast<size_t>(std::upper_bound(chunks.begin(), chunks.end(), begin) -
                                 chunks.begin() - 1);
    for (; begin < end; ++k) {
      const int64_t until = std::min(end, chunks[k + 1]);
      if (until <= begin) continue;
      const size_t s = call.group->first + k;
      const atlas::EntryStep& step = call.launcher->steps_[s];
      own.launch = context->launch == 0 ? 0 : -(context->launch * 4096 + static_cast<int64_t>(k));
      const int64_t grain = call.frame->grains[s];
      const Callee callee = call.launcher->callee_of(*call.frame, step);
      const int32_t status =
          callee.function(&own, callee.takes(), call.frame->arguments + step.first_argument,
                          (begin - chunks[k]) * grain,
                          std::min(call.frame->totals[s], (until - chunks[k]) * grain));
      if (status != 0) return status;
      begin = until;
    }
    return 0;
  }

  static int32_t run_routine(const atlas::Context* context, void* const* callee_,
                             const int64_t* symbols, int64_t begin, int64_t end) {
    const auto& callee = *reinterpret_cast<const Callee*>(callee_);
    return callee.routine->run(*context, callee.buffers, symbols, begin, end);
  }

  Callee callee_of(const CallFrame& frame, const atlas::EntryStep& step) const {
    void* const* buffers = frame.buffers + step.first_buffer;
    if (const strips::Routine* routine = steps_.kernel_of(step)->routine)
      return {run_routine, buffers, routine};
    const void* code = codes_[static_cast<size_t>(step.kernel)];
    return {reinterpret_cast<atlas::KernelFn>(const_cast<void*>(code)), buffers, nullptr};
  }

  void fill(atlas::EntryFrame& frame, const Prepared& prepared) const {
    const auto& sizes = static_cast<const Sizes&>(prepared);
    frame.kernels = codes_.data();
    frame.totals = sizes.totals.data();
    frame.grains = sizes.grains.data();
  }

  const Steps<void> steps_;
  std::vector<const void*> codes_;  // by program: their functions
  atlas::EntryFn run_all_;
  std::shared_ptr<const void> keep_;
  size_t code_bytes_;
};

}  // namespace hologram
