// backend/cpu/operands/nibbles.h: values of a body that depend on half a byte: looked up instead of
// computed.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "backend/cpu/function.h"

namespace hologram::cpu {

/// A float32 value that is a function of one half of a byte from memory.
struct NibbleTable {
  atlas::ValueId value;  ///< the instruction that gives it
  atlas::ValueId byte;   ///< the load
  bool high;             ///< the byte's upper half
  std::array<uint32_t, 16> entries;
};

/// A float32 value that is a whole number: a byte from memory, or a half of it, minus `offset`.
struct WholeNumber {
  enum Part : uint8_t { all, low, high } part;
  atlas::ValueId byte;  ///< the load
  bool flipped;         ///< its uppermost bit is taken the other way round, as that of signed bytes
  int offset;
};
/// The last value of `body` as such a number.
std::optional<WholeNumber> find_whole_number(const atlas::Program& program,
                                             const atlas::Body& body);

/// The values of `body` that other instructions need and that are such functions; none where
/// something of the body other than constants decides.
std::vector<NibbleTable> find_nibbles(const atlas::Program& program, const atlas::Body& body);

/// The value of a table where the lanes' bytes are `bytes`; only with AVX-512 and 16 lanes.
Value* look_up(CpuFunction& k, const NibbleTable& table, Value* bytes);

}  // namespace hologram::cpu
