// backend/native_launcher.h: launching kernels that are functions of this process, by one more
// function that runs all steps.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/launcher.h"
#include "host/context.h"

namespace hologram {

class NativeLauncher final : public Launcher {
 public:
  /// `keep` owns the code of `run_all`, which takes `code_bytes`.
  NativeLauncher(std::span<const atlas::EntryStep> steps,
                 std::span<const std::shared_ptr<const Kernel>> kernels, atlas::EntryFn run_all,
                 std::shared_ptr<const void> keep, size_t code_bytes = 0)
      : steps_(steps.begin(), steps.end()),
        kernels_(kernels.begin(), kernels.end()),
        run_all_(run_all),
        keep_(std::move(keep)),
        code_bytes_(code_bytes) {
    for (const auto& k : kernels_) codes_.push_back(k->code);
  }

  std::unique_ptr<Prepared> prepare(const int64_t* arguments, int threads) const override {
    auto sizes = std::make_unique<Sizes>();
    sizes->totals.resize(steps_.size());
    sizes->grains.resize(steps_.size());
    for (size_t s = 0; s < steps_.size(); ++s) {
      if (steps_[s].kernel < 0) continue;
      const Kernel& k = *kernels_[static_cast<size_t>(steps_[s].kernel)];
      const std::span<const int64_t> own(arguments + steps_[s].first_argument,
                                         static_cast<size_t>(steps_[s].num_arguments));
      sizes->totals[s] = k.total.eval(own);
      sizes->grains[s] =
          host::chunk_of(sizes->totals[s], k.grain.eval(own), k.unit_work.eval(own), threads);
    }
    return sizes;
  }

  int32_t run(CallFrame& frame, const Prepared& prepared) const override {
    fill(frame, prepared);
    return run_all_(&frame);
  }

  int32_t run_step(CallFrame& frame, const Prepared& prepared, size_t s) const override {
    fill(frame, prepared);
    if (frame.totals[s] <= 0) return 0;
    const atlas::EntryStep& step = steps_[s];
    auto function = reinterpret_cast<atlas::KernelFn>(
        const_cast<void*>(codes_[static_cast<size_t>(step.kernel)]));
    void* const* buffers = frame.buffers + step.first_buffer;
    const int64_t* arguments = frame.arguments + step.first_argument;
    if (frame.totals[s] <= frame.grains[s])
      return function(frame.context, buffers, arguments, 0, frame.totals[s]);
    return frame.context->parallel_for(frame.context, function, buffers, arguments, frame.totals[s],
                                       frame.grains[s]);
  }

  size_t code_bytes() const override { return code_bytes_; }

 private:
  struct Sizes : Prepared {
    std::vector<int64_t> totals, grains;  // by step
  };

  void fill(atlas::EntryFrame& frame, const Prepared& prepared) const {
    const auto& sizes = static_cast<const Sizes&>(prepared);
    frame.kernels = codes_.data();
    frame.totals = sizes.totals.data();
    frame.grains = sizes.grains.data();
  }

  std::vector<atlas::EntryStep> steps_;
  std::vector<std::shared_ptr<const Kernel>> kernels_;  // by program
  std::vector<const void*> codes_;                      // by program: their functions
  atlas::EntryFn run_all_;
  std::shared_ptr<const void> keep_;
  size_t code_bytes_;
};

}  // namespace hologram
