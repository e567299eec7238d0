// tests/support/isas.h: instruction sets that this machine has
#pragma once

#include <vector>

#include "backend/cpu/target.h"

namespace hologram::test {

/// Instruction sets whose code this machine runs.
inline std::vector<cpu::Isa> runnable_isas() {
#if defined(__x86_64__)
  std::vector<cpu::Isa> isas{cpu::Isa::sse42};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) isas.push_back(cpu::Isa::avx2);
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    isas.push_back(cpu::Isa::avx512);
  return isas;
#else
  return {cpu::Isa::neon};
#endif
}

}  // namespace hologram::test
