// backend/cpu/limit_loops.h: loops that do one thing as fast as a core can: what limits are
// measured with.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/cpu/load.h"
#include "backend/cpu/target.h"

namespace hologram::cpu {

enum class LimitLoop : uint8_t {
  f32,           ///< multiply-adds in registers
  f64,           ///< likewise
  bf16,          ///< sums of pairs of bfloat16 products
  i8,            ///< sums of four products of bytes
  read,          ///< loads
  write,         ///< stores
  write_around,  ///< stores past the caches
  copy,          ///< a load and a store each
  copy_around,   ///< likewise, the stores past the caches
};

/// Bytes that a round of the loops over memory covers of each of their arrays.
int64_t limit_round_bytes(const Target& target);
/// Operations in a round of a loop in registers, a multiply-add being two; 0 where the target has
/// no instruction of that kind.
int64_t limit_round_operations(LimitLoop loop, const Target& target);

/// The loop as a kernel: runs rounds [begin, end). bufs[0]: what is read and multiplied, bufs[1]:
/// what is written, both on 64-byte boundaries. What it returns has no meaning.
std::shared_ptr<LoadedKernel> compile_limit_loop(LimitLoop loop, const Target& target);

}  // namespace hologram::cpu
