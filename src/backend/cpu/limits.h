// backend/cpu/limits.h: what this machine's cores and memory give at most, measured. No LLVM in
// here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/cpu/target.h"
#include "host/thread_pool.h"

namespace hologram::cpu {

/// Bytes a second of all threads together from and to one level; a copy's are those read and those
/// written.
struct LevelLimits {
  std::string name;   ///< L1, L2, L3 or memory
  int64_t bytes = 0;  ///< that it holds for all threads together; memory: 0
  double read = 0, write = 0, copy = 0;
};

/// Operations a second of all threads together, a multiply-add being two; 0 where the processor has
/// no such instruction, or kernels do not use it.
struct Limits {
  int threads = 0;
  double f32 = 0, f64 = 0, bf16 = 0, i8 = 0;
  std::vector<LevelLimits> levels;
};

/// Measures on all threads of the pool at once; the fastest of `rounds` (of about a millisecond)
/// counts, as other work on the machine only takes away. Takes 8 times the last cache's size of
/// memory, 64 MiB to 1 GiB. Levels of unknown size are left out. `memory_reads`: nothing but these
/// is measured, which takes a tenth of a second.
Limits measure_limits(const Target& target, host::ThreadPool& pool, int rounds, bool memory_reads);

}  // namespace hologram::cpu
