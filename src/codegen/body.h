// codegen/body.h: emits Atlas bodies as LLVM IR, one lane or a vector of lanes at a time.
#pragma once

#include <span>
#include <vector>

#include "codegen/function.h"

namespace hologram::codegen {

/// Emits the instructions of `body` that are not emitted yet as seen from `scope` and returns the
/// value of every instruction, by ValueId (none for stores). Calling it again in a sibling scope
/// (another unrolled copy, the tail) shares what was put into outer scopes.
std::vector<LaneValue> emit_body(Scope& scope, const atlas::Body& body);

/// An index expression at `scope`: i64, scalar or per lane. `values` serves atoms v<k>.
LaneValue emit_expr(Scope& scope, const Expr& e, const std::vector<LaneValue>* values = nullptr);

/// Arithmetic on values of one lane shape (scalars or vectors alike).
Value* emit_arithmetic(Function& k, ir::Op op, DType type, std::span<Value* const> args,
                       Value* mask = nullptr);
/// x * y + z as products take it: one rounding on floats, wrapping on integers.
Value* multiply_add(Function& k, DType type, Value* x, Value* y, Value* z);
/// What is known of a f32 that becomes a f16 or bf16.
enum class Known : uint8_t {
  nothing,
  low_nan,  ///< where it is NaN, its low half is 0
  narrow,   ///< it is such a number already
};
/// cast, cast_wrap and bitcast. Vectors of bf16 lie as memory has them, also where lanes are
/// alternate: then one register becomes two of f32 by a shift and a mask, and two one by a blend.
Value* emit_cast(Function& k, ir::Op how, Value* x, DType from, DType to,
                 Known known = Known::nothing);
/// Elements in the order of memory as alternate lanes (Scope::set_alternate), and the reverse.
Value* to_alternate(Function& k, Value* x);
Value* from_alternate(Function& k, Value* x);
/// reduce_sum, _prod, _max and _min as arithmetic on two values.
Value* combine(Function& k, ir::Op reduce, DType type, Value* x, Value* y);

/// The value as a vector of `lanes` elements (itself when lanes is 1).
Value* splat(Function& k, LaneValue x, int lanes);

}  // namespace hologram::codegen
