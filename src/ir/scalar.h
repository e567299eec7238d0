// ir/scalar.h: exact scalar arithmetic on bit patterns: the reference for folding, interpreter and
// backends.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "ir/op.h"

namespace hologram::ir {

/// Evaluates an operation with Flag::exact on scalars given as zero-extended bit patterns in their
/// dtypes. `type` is the operands' dtype (the type of the second operand for select), `to` the
/// result's for casts. f16 and bf16 compute in f32 and round, and everything converts to them
/// through f32, as in PyTorch. min and max order -0 below +0. A division by zero gives 0 and sets
/// *error (when not null).
uint64_t eval_scalar(Op op, DType type, std::span<const uint64_t> args, DType to,
                     bool* error = nullptr);

/// Conversions between numbers and bit patterns. to_bits rounds to nearest even; integers saturate.
uint64_t bits_of(DType type, double value);
uint64_t bits_of_integer(DType type, int64_t value);
/// The value as a double (exact for all but large 64-bit integers).
double as_double(DType type, uint64_t bits);
int64_t as_integer(DType type, uint64_t bits);

/// The neutral element of a reduce_* operation; 0 for those that find positions.
uint64_t identity_of(Op reduce, DType type);

/// Round-to-nearest-even conversions of half types; NaN stays NaN (quiet).
uint16_t f32_to_bf16(float x);
uint16_t f32_to_f16(float x);
float bf16_to_f32(uint16_t x);
float f16_to_f32(uint16_t x);

}  // namespace hologram::ir
