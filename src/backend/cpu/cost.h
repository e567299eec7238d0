// backend/cpu/cost.h: the costs that plans and launches reckon with: one design of processor for
// every one of an instruction set, so that code is the same wherever it is made.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/target.h"
#include "base/expr.h"

namespace hologram::cpu::cost {

// Time, in picoseconds of a core at 4 GHz.
inline constexpr int64_t cycle = 250;
inline constexpr int64_t multiply_add = cycle / 2;  ///< of a vector: two start in a cycle
inline constexpr int64_t unit = 20'000;             ///< what a unit takes beside its work

// Cycles of a product's unit.
inline constexpr double bytes_in_cycle = 32;      ///< that a cache gives
inline constexpr int64_t handing_out = 600;       ///< a unit, to a thread
inline constexpr double short_unit = 8e3;         ///< shared between threads that wait for it
inline constexpr double long_unit = 40e3;         ///< otherwise a unit takes so long at least
inline constexpr int64_t balanced_unit = 12'000;  ///< and so long where few are shared evenly
inline constexpr double multiply_adds = 32;       ///< of f32 in a cycle

// Cycles to split a number of f32 into terms, where it lies along the summed axis and where it is
// turned over on the way.
inline constexpr double split_number = 0.6, split_column = 1.0;

// Threads, Target::threads of them: units that each gets of many, and of few rows of a matrix.
inline constexpr int64_t units_each = 4, streams_each = 2;

// Caches, in bytes.
inline int64_t half_second_level(const Target& target) {
  return (target.vector_bytes == 64 ? 1024 : 512) * 1024 / 2;
}
inline constexpr int64_t first_level = 32 * 1024;
inline constexpr int64_t scratch = 256 * 1024;        ///< of a loop, in the second level
inline constexpr int64_t distant = int64_t{1} << 20;  ///< a larger operand is in none of a core's
inline constexpr int64_t kept = int64_t{2} << 20;     ///< of an operand that two cores keep
inline constexpr int64_t shared = int64_t{8} << 20;   ///< of a block that all cores read
/// Kernels on more write past the caches.
inline int64_t stream(const Target& target) {
  return int64_t{target.vector_bytes == 64 ? 48 : 32} << 20;
}
inline constexpr int64_t turn = int64_t{4} << 20;  ///< and on more than this walk from the end in
                                                   ///< every other pass

// Sizes assumed for run-time dimensions when blocks are chosen.
inline constexpr int64_t assumed_rows = 512, assumed_columns = 1024, assumed_depth = 512;

}  // namespace hologram::cpu::cost
