// backend/cpu/operands/pack.h: operand bodies written out as blocks of memory, straight or
// transposed.
#pragma once

#include <cstdint>
#include <functional>

#include "backend/cpu/function.h"

namespace hologram::cpu {

/// `bytes` of scratch memory from the kernel's context, at the end of `scope`; leaves the kernel
/// when there is none. Valid until the kernel returns; only one such call may be made in a kernel.
Value* emit_scratch(Scope& scope, Value* bytes);

/// Where the kernel notes which block the scratch memory `memory` holds: an i64, 0 for none. The
/// note stays from one chunk to the next where the memory does, so that a thread makes a block
/// once.
Value* emit_block_note(Scope& scope, Value* memory);

/// Pointer to element `index` (i64) of type `t`'s memory form behind `base`.
Value* element(CpuFunction& k, DType t, Value* base, Value* index);

/// Of a stream that few rows read: hardware stops at the end of each page.
inline constexpr int64_t bytes_ahead = 8192;

enum class FetchTo : uint8_t { second_level = 2, first_level = 3 };
/// Fetches the line at `from` bytes behind `p`.
void emit_fetch(CpuFunction& k, Value* p, int64_t from, FetchTo to = FetchTo::first_level);

/// Fetches what plain loads of `body` read along the lanes of `scope`: so many elements, `later`
/// elements on.
void fetch_columns(Scope& scope, const atlas::Body& body, int64_t count, int64_t later);

/// Runs `fill` for each vector of [0, count): whole ones without a mask, then the rest with one.
void for_vectors(Scope& scope, Value* count, int lanes,
                 const std::function<void(Scope&, Value* offset, Value* mask)>& fill);

/// A vector of i1: which of `lanes` lanes lie before `remaining` (i64).
Value* lane_mask(CpuFunction& k, Value* remaining, int lanes);

/// Transposes a square of vectors in registers; their number is a power of two.
void transpose_square(CpuFunction& k, std::vector<Value*>& rows);

/// The bytes of each i32 of `v` as groups of `group` elements in the opposite order.
Value* reverse_groups(CpuFunction& k, Value* v, int group);

/// A run of an axis: [begin, begin + count).
struct Run {
  int axis;
  Value *begin, *count;
};

/// The values of an operand's body, converted to `type`.
struct Operand {
  const atlas::Body& body;
  DType from, type;
  int lanes;
  int groups = -1;  ///< >= 0: `body` knows the axis along the lanes as lanes * (axis `groups`) +
                    ///< axis `groups` + 1 (block_axis in runs.h), and runs begin at whole vectors

  /// out[i] = the element at y.begin + i; y runs along lanes and out has room for a whole number of
  /// vectors. What else the body reads is fixed in `scope`.
  void gather(Scope& scope, const Run& y, Value* out) const;

  /// The same for exactly `vectors` whole vectors, in straight-line code.
  void gather_whole(Scope& scope, const Run& y, int vectors, Value* out) const;

  /// out[j * stride + i] = the element at x.begin + i, y.begin + j, for an operand that lies along
  /// y in memory. Rows of out have room for x.count rounded up to whole vectors; what fills it is
  /// unspecified. `square`: lanes * lanes elements to work in.
  void transpose(Scope& scope, const Run& x, const Run& y, Value* square, Value* out,
                 int64_t stride) const;

 private:
  void vector(Scope& scope, int axis, Value* at, Value* mask, Value* out) const;
  std::vector<Value*> square_rows(Scope& scope, const Run& x, Value* x_offset, Value* rows,
                                  const Run& y, Value* y_offset, Value* mask, Value* square) const;
  void store_transposed(Scope& scope, std::vector<Value*> rows, Value* square, Value* out,
                        int64_t stride, Value* limit) const;
};

}  // namespace hologram::cpu
