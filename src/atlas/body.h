// atlas/body.h: what blocks are made of: instructions, bodies, buffers and axes.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/expr.h"
#include "ir/op.h"

namespace hologram::atlas {

/// Position of an instruction's result in its body.
using ValueId = uint32_t;
inline constexpr ValueId no_value = ~0u;

enum class Code : uint8_t {
  constant,     ///< `bits` in `type`
  index,        ///< the integer expression `expr` as an i64
  clamp_index,  ///< args[0] (i64) if it is in [0, n), n = `expr`; otherwise 0, and the sticky error
                ///< index_out_of_range is set; `expr` is a dimension (symbols only). Its result may
                ///< be used in expressions as v<id>.
  load,         ///< buffer[expr]; with args[0] (b8) false memory is not touched and the result is 0
  store,        ///< buffer[expr] = args[0], if args[1] (b8) is absent or true. No result.
  arithmetic,   ///< element-wise `op` on args in their common `type` (casts: from `from` to `type`)
  accumulator,  ///< result number `buffer` of earlier reductions; in an epilogue 0 is the product's
                ///< element
  accumulate,   ///< serial stages: combines args[0] into running accumulator `buffer` (`op` a
                ///< reduce_*), gives the new value
  lookup,       ///< element args[0] (i32) modulo n of the n constants `table`; n is a power of two
};

/// One SSA instruction. f16 and bf16 are storage types: they are loaded, stored and cast (and
/// selected); arithmetic is done in their compute type.
struct Instr {
  Code code;
  ir::Op op = ir::Op::add;
  DType type = DType::f32;  ///< result type; for compares and stores the type of the operands
  DType from = DType::f32;  ///< casts: source type
  std::array<ValueId, 3> args{no_value, no_value, no_value};
  uint64_t bits = 0;  ///< a constant's; 1 in what a backend marks: an e^x of at most 1, roundings
                      ///< to bf16 of what has a low half of 0 in NaN, f32 that are to have that
  int buffer = -1;
  Expr expr;
  std::vector<uint64_t> table = {};  ///< lookup: bits in `type`, 2 to 16 of them

  bool operator==(const Instr&) const = default;
};

/// The result type of an instruction (b8 for compares).
DType result_type(const Instr& i);

struct Body {
  std::vector<Instr> instrs;
  ValueId add(Instr i) {
    instrs.push_back(std::move(i));
    return static_cast<ValueId>(instrs.size() - 1);
  }
  bool operator==(const Body&) const = default;
};

enum class Access : uint8_t {
  read,
  write,
  read_write,  ///< may alias nothing else in the program
  scratch,  ///< private to one parallel point: `extent` elements, contents undefined at its start
};

struct Buffer {
  DType dtype;
  Access access;
  Expr extent;  ///< elements that may be addressed: [0, extent)

  bool operator==(const Buffer&) const = default;
};

enum class AxisKind : uint8_t { parallel, row };

/// Axis number k of a block is i<k>. The extent of a row axis may depend on parallel axes before
/// it.
struct Axis {
  AxisKind kind;
  Expr extent;

  bool operator==(const Axis&) const = default;
};

}  // namespace hologram::atlas
