// tests/codegen/winograd_runs.h: plans of 3 x 3 convolutions, and their compiled kernels run.
#pragma once

#include "codegen/run_kernel.h"
#include "codegen/winograds.h"
#include "support/machine.h"
#include "support/test.h"

namespace hologram::test::winograds {

inline schedule::Plan plan_for(const Graph& g, cpu::Isa isa, bool reproducible = false, bool keeps_weight = true) {
  schedule::Options options;
  options.reproducible = reproducible;
  options.is_static = [keeps_weight](int i) { return keeps_weight && i == 1; };
  const PanelMachine machine(cpu::panel_width(cpu::generic_target(isa), DType::f32));
  options.machine = &machine;
  return schedule::make_plan(g, options);
}

inline const atlas::Program* winograd_of(const schedule::Plan& plan) {
  for (const atlas::Program& p : plan.programs)
    if (p.kind() == atlas::BlockKind::product && p.product().winograd) return &p;
  return nullptr;
}

inline int weight_slot(const schedule::Plan& plan) {
  for (size_t i = 0; i < plan.slots.size(); ++i)
    if (plan.slots[i].kind == schedule::SlotKind::input && plan.slots[i].index == 1) return static_cast<int>(i);
  return -1;
}

/// Whether the product reads the weight itself beside its panels.
inline bool product_reads_weight(const schedule::Plan& plan) {
  return std::ranges::any_of(plan.steps, [&](const schedule::Step& s) {
    return &plan.programs[static_cast<size_t>(s.program)] == winograd_of(plan) && std::ranges::count(s.buffers, weight_slot(plan)) > 0;
  });
}

/// A convolution run whole: pixels, weights and results as [n, h, w, c] and [o, c, 3, 3]. The weight is lost once it is packed.
class Runner {
 public:
  explicit Runner(const Convolution& c, bool reproducible = false) : c_(c) {
    Graph g;
    Value y = convolve(g, c);
    g.outputs.push_back({y, {c.out_height() * c.out_width() * c.results, 1, c.out_width() * c.results, c.results}, -1});
    cpu::Isa isa = runnable_isas().back();
    plan_ = plan_for(g, isa, reproducible);
    EXPECT_EQ(winograd_of(plan_) != nullptr, !reproducible);
    EXPECT_FALSE(product_reads_weight(plan_));
    for (const atlas::Program& p : plan_.programs) kernels_.push_back(std::make_unique<Compiled>(p, cpu::generic_target(isa)));
  }

  std::vector<float> run(const std::vector<float>& image, const std::vector<float>& weight) {
    std::vector<std::unique_ptr<Memory>> memory;
    for (const schedule::Slot& s : plan_.slots) memory.push_back(std::make_unique<Memory>(static_cast<size_t>(s.bytes.constant_value())));
    for (size_t i = 0; i < plan_.slots.size(); ++i)
      if (plan_.slots[i].kind == schedule::SlotKind::input) {
        const auto& from = plan_.slots[i].index == 0 ? image : weight;
        EXPECT_EQ(memory[i]->size(), from.size() * 4);
        std::memcpy(memory[i]->data(), from.data(), from.size() * 4);
      }
    for (const schedule::Step& s : plan_.steps) {
      std::vector<void*> bufs;
      for (int b : s.buffers) bufs.push_back(memory[static_cast<size_t>(b)]->data());
      EXPECT_EQ(kernels_[static_cast<size_t>(s.program)]->run(bufs, {}), 0);
      if (s.cached >= 0) {
        Memory& lost = *memory[static_cast<size_t>(weight_slot(plan_))];
        std::fill_n(lost.data(), lost.size(), char{0x4b});
      }
    }
    Memory& out = *memory[static_cast<size_t>(plan_.outputs[0].slot)];
    return {out.as<float>(), out.as<float>() + out.size() / 4};
  }

 private:
  Convolution c_;
  schedule::Plan plan_;
  std::vector<std::unique_ptr<Compiled>> kernels_;
};

inline float normal(std::mt19937_64& r) { return std::normal_distribution<float>()(r); }

}  // namespace hologram::test::winograds
