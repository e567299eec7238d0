// tests/codegen/differential.h: runs a program on the interpreter and on instruction sets and compares all bytes.
#pragma once

#include "backend/cpu/loops/half_vectors.h"
#include "codegen/run_kernel.h"
#include "support/differential.h"

namespace hologram::test {

struct IsaInputs : Inputs {
  std::vector<cpu::Isa> isas = runnable_isas();
};

/// Targets of these, and for programs that use halves of registers where that is faster, one where it is.
inline std::vector<cpu::Target> targets_for(const atlas::Program& p, const std::vector<cpu::Isa>& isas) {
  std::vector<cpu::Target> targets;
  for (cpu::Isa isa : isas) targets.push_back(cpu::generic_target(isa));
  cpu::Target halves = cpu::generic_target(cpu::Isa::avx512);
  halves.processor = cpu::find_processor("zen4");
  if (std::ranges::count(isas, halves.isa) && cpu::target_for(p, halves).vector_bytes == 32) targets.push_back(halves);
  return targets;
}

/// expect_same() on these instruction sets.
inline void expect_same_on(const atlas::Program& p, const IsaInputs& inputs) {
  atlas::verify(p);
  atlas::Program expanded = p;
  atlas::expand_math(expanded);
  std::mt19937_64 random(inputs.seed);
  std::vector<std::unique_ptr<Memory>> fresh, wanted;
  std::vector<size_t> numbers;
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    const atlas::Buffer& b = p.buffers[k];
    if (b.access == Access::scratch) continue;
    int64_t count = b.extent.eval(inputs.symbols);
    auto bytes = static_cast<size_t>(count * size_of(b.dtype));
    fresh.push_back(std::make_unique<Memory>(bytes));
    fill(fresh.back()->data(), b.dtype, count, random, inputs.specials);
    if (inputs.prepare) inputs.prepare(static_cast<int>(k), fresh.back()->data(), count);
    wanted.push_back(std::make_unique<Memory>(bytes));
    std::memcpy(wanted.back()->data(), fresh.back()->data(), bytes);
    numbers.push_back(k);
  }
  std::vector<void*> bufs;
  for (auto& m : wanted) bufs.push_back(m->data());
  std::atomic<int32_t> sticky{0};
  interp::run(expanded, bufs.data(), inputs.symbols.data(), &sticky);

  for (const cpu::Target& target : targets_for(p, inputs.isas)) {
    SCOPED_TRACE(fmt::format("{}, {}", name_of(target.isa), target.processor->name));
    const Compiled kernel(p, target);
    for (int64_t chunk : inputs.chunks) {
      SCOPED_TRACE(chunk);
      std::vector<std::unique_ptr<Memory>> got;
      bufs.clear();
      for (auto& m : fresh) {
        got.push_back(std::make_unique<Memory>(m->size()));
        std::memcpy(got.back()->data(), m->data(), m->size());
        bufs.push_back(got.back()->data());
      }
      int32_t errors = 0;
      ASSERT_EQ(kernel.run(bufs, inputs.symbols, chunk, &errors), 0);
      EXPECT_EQ(errors, sticky.load());
      for (size_t n = 0; n < got.size(); ++n) {
        EXPECT_TRUE(got[n]->intact()) << "buffer " << numbers[n] << " overrun";
        DType t = p.buffers[numbers[n]].dtype;
        if (!expect_elements(t, got[n]->data(), wanted[n]->data(), got[n]->size(), inputs.tolerance, numbers[n])) return;
      }
    }
  }
}

}  // namespace hologram::test
