// backend/cpu/launch.cpp: chunks by size, and one native function that runs all steps.
#include "backend/cpu/launch.h"

#include "backend/cpu/entry.h"
#include "host/context.h"

namespace hologram::cpu {
namespace {

struct Sizes : Prepared {
  std::vector<int64_t> totals, grains;  // by step
};

std::shared_ptr<LoadedKernel> load_or_compile(std::span<const atlas::EntryStep> steps,
                                              const Target& target, const Fingerprint& key,
                                              CodeStore& store) {
  if (auto code = store.get(key)) try {
      return cpu::load(*code);
    } catch (const Error&) {  // not code of ours: compile it anew
    }
  const std::string code = compile_entry(steps, target);
  auto loaded = cpu::load(code);
  store.put(key, code);
  return loaded;
}

Fingerprint key_of(std::span<const atlas::EntryStep> steps, std::string_view code_key) {
  std::string text = "entry";
  for (const atlas::EntryStep& s : steps)
    text += fmt::format(" {},{},{},{}", s.kernel, s.first_buffer, s.first_argument, s.cached);
  return fingerprint(fmt::format("{} {}", text, code_key));
}

class NativeLauncher final : public Launcher {
 public:
  NativeLauncher(std::span<const atlas::EntryStep> steps,
                 std::span<const std::shared_ptr<const Kernel>> kernels,
                 std::shared_ptr<LoadedKernel> entry)
      : steps_(steps.begin(), steps.end()),
        kernels_(kernels.begin(), kernels.end()),
        entry_(std::move(entry)),
        run_all_(reinterpret_cast<atlas::EntryFn>(reinterpret_cast<void*>(entry_->function))) {
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

  int32_t run(atlas::EntryFrame& frame, const Prepared& prepared) const override {
    fill(frame, prepared);
    return run_all_(&frame);
  }

  int32_t run_step(atlas::EntryFrame& frame, const Prepared& prepared, size_t s) const override {
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

 private:
  void fill(atlas::EntryFrame& frame, const Prepared& prepared) const {
    const auto& sizes = static_cast<const Sizes&>(prepared);
    frame.kernels = codes_.data();
    frame.totals = sizes.totals.data();
    frame.grains = sizes.grains.data();
  }

  std::vector<atlas::EntryStep> steps_;
  std::vector<std::shared_ptr<const Kernel>> kernels_;  // by program
  std::vector<const void*> codes_;                      // by program: their functions
  std::shared_ptr<LoadedKernel> entry_;
  atlas::EntryFn run_all_;
};

}  // namespace

std::unique_ptr<Launcher> make_launcher(std::span<const atlas::EntryStep> steps,
                                        std::span<const std::shared_ptr<const Kernel>> kernels,
                                        const Target& target, std::string_view code_key,
                                        CodeStore& store, EntriesInProgress& in_progress) {
  const Fingerprint key = key_of(steps, code_key);
  auto entry = in_progress.call(key, [&] { return load_or_compile(steps, target, key, store); });
  return std::make_unique<NativeLauncher>(steps, kernels, std::move(entry));
}

}  // namespace hologram::cpu
