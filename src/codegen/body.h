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
/// cast, cast_wrap and bitcast. `narrow`: x, a f32, is a number of the f16 or bf16 that it becomes.
Value* emit_cast(Function& k, ir::Op how, Value* x, DType from, DType to, bool narrow = false);
/// reduce_sum, _prod, _max and _min as arithmetic on two values.
Value* combine(Function& k, ir::Op reduce, DType type, Value* x, Value* y);

/// The value as a vector of `lanes` elements (itself when lanes is 1).
Value* splat(Function& k, LaneValue x, int lanes);

}  // namespace hologram::codegen
