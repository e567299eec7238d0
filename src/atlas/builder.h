// atlas/builder.h: writes bodies: values with types, hash-consed so that nothing is computed twice.
#pragma once

#include <span>
#include <unordered_map>

#include "atlas/program.h"

namespace hologram::atlas {

/// A typed value of the body under construction.
struct Val {
  ValueId id = no_value;
  DType type = DType::f32;
};

/// Appends instructions to a body; pure ones that exist already are reused, loads as long as
/// nothing was stored to their buffer. Folds exact arithmetic on constants. A wrong operand type is
/// an internal error.
class BodyBuilder {
 public:
  /// Continues `body`, reusing what it holds.
  explicit BodyBuilder(Body& body);

  Val constant(DType type, uint64_t bits);
  Val number(DType type, double value);  ///< rounded to `type`
  Val integer(DType type, int64_t value);
  Val index(const Expr& e);
  Val clamp_index(Val i, const Expr& extent);
  Val load(int buffer, DType type, const Expr& offset, Val guard = {});
  void store(int buffer, const Expr& offset, Val value, Val guard = {});
  Val accumulator(int number, DType type);
  Val accumulate(ir::Op reduce, int number, Val value);
  /// table[i mod its size]: bits in `type`, a power of two of them.
  Val lookup(DType type, Val i, std::vector<uint64_t> table);

  /// Any element-wise op of the table; operands in the op's order and of its types.
  Val op(ir::Op op, Val x);
  Val op(ir::Op op, Val x, Val y);
  Val op(ir::Op op, Val x, Val y, Val z);
  Val cast(Val x, DType to, ir::Op how = ir::Op::cast);

  Val add(Val x, Val y) { return op(ir::Op::add, x, y); }
  Val sub(Val x, Val y) { return op(ir::Op::sub, x, y); }
  Val mul(Val x, Val y) { return op(ir::Op::mul, x, y); }
  Val div(Val x, Val y) { return op(ir::Op::div, x, y); }
  Val fma(Val x, Val y, Val z) { return op(ir::Op::fma, x, y, z); }
  Val select(Val c, Val x, Val y) { return op(ir::Op::select, c, x, y); }
  Val lt(Val x, Val y) { return op(ir::Op::lt, x, y); }
  Val le(Val x, Val y) { return op(ir::Op::le, x, y); }
  Val eq(Val x, Val y) { return op(ir::Op::eq, x, y); }
  Val ne(Val x, Val y) { return op(ir::Op::ne, x, y); }
  Val bitcast(Val x, DType to) { return cast(x, to, ir::Op::bitcast); }

  /// Makes `v` the last instruction (repeating it if it is an earlier one): how an operand body
  /// names its value.
  void finish(Val v);

  Body& body() { return body_; }

 private:
  Val emit(Instr i);
  Val arithmetic(ir::Op op, std::span<const Val> args);
  void remember(ValueId id);

  Body& body_;
  std::unordered_multimap<uint64_t, ValueId> seen_;
  std::unordered_map<int, ValueId> stored_;  ///< per buffer: loads before this id are out of date
};

/// Whether the arithmetic of bodies has `op` on operands of `type` (the type selected, for select).
/// f16 and bf16 are storage types: only select takes them. Casts are judged by may_cast.
bool may_compute(ir::Op op, DType type);
/// Whether `how` (cast, cast_wrap or bitcast) converts `from` to `to`.
bool may_cast(ir::Op how, DType from, DType to);
/// Whether a f32 is known to be a number of `narrow` (f16 or bf16), to which no cast rounds it.
bool is_narrow(const Body& body, ValueId id, DType narrow);
/// Whether there are tables of so many entries of `type`.
bool may_look_up(DType type, size_t entries);

}  // namespace hologram::atlas
