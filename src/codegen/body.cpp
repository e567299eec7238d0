// codegen/body.cpp: walks a body and puts each instruction where it belongs.
#include "codegen/body.h"

#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "atlas/builder.h"
#include "base/error.h"
#include "codegen/index.h"
#include "codegen/memory.h"

namespace hologram::codegen {

using atlas::Body;
using atlas::Code;
using atlas::Instr;
using atlas::no_value;
using atlas::ValueId;

LaneValue find_accumulator(Scope& scope, int number, Scope** where) {
  for (Scope* s = &scope; s; s = s->parent_)
    if (auto it = s->accumulators_.find(number); it != s->accumulators_.end()) {
      *where = s;
      return it->second;
    }
  fail(ErrorCode::internal, "internal error in codegen: accumulator {} has no value here", number);
}

LaneValue find_running(Scope& scope, int number) {
  for (Scope* s = &scope; s; s = s->parent_)
    if (auto it = s->running_.find(number); it != s->running_.end()) return it->second;
  fail(ErrorCode::internal, "internal error in codegen: running accumulator {} has no slot",
       number);
}

namespace {

class Walker {
 public:
  Walker(Scope& scope, const Body& body)
      : scope_(scope),
        k_(scope.function()),
        body_(body),
        values_(body.instrs.size()),
        homes_(body.instrs.size()) {}

  Scope* home(ValueId id) const { return homes_[id]; }
  std::vector<LaneValue>& values() { return values_; }

  /// The outermost scope for an instruction.
  Scope& place(const Instr& i) {
    if (i.code == Code::store || i.code == Code::accumulate) return scope_;
    Scope* at = &k_.root();
    auto deeper = [&](Scope& s) {
      if (s.depth() > at->depth()) at = &s;
    };
    for (ValueId a : i.args)
      if (a != no_value) deeper(*homes_[a]);
    if (i.code == Code::accumulator) {
      Scope* where;
      find_accumulator(scope_, i.buffer, &where);
      return *where;
    }
    if (i.code == Code::load || i.code == Code::index || i.code == Code::clamp_index) {
      i.expr.any_atom([&](const Atom& a) {
        if (a.kind == Atom::Kind::value) deeper(*homes_[static_cast<size_t>(a.id)]);
        if (a.kind == Atom::Kind::axis) deeper(axis_home(a.id));
        return false;
      });
    }
    if (i.code == Code::load &&
        k_.program.buffers[static_cast<size_t>(i.buffer)].access != atlas::Access::read)
      return scope_;
    // What may fault or flag an error stays where it runs for certain, among the lanes it is for.
    if (i.code == Code::load || i.code == Code::clamp_index || flags_errors(i)) deeper(certain());
    return *at;
  }

  LaneValue emit(Scope& at, const Instr& i);

 private:
  static bool flags_errors(const Instr& i) {
    return i.code == Code::arithmetic && (i.op == ir::Op::div || i.op == ir::Op::rem) &&
           !is_float(i.type);
  }

  Scope& axis_home(int axis) {
    Scope* s = &scope_;
    while (s->parent() && !s->fixes_axis(axis)) s = s->parent();
    return *s;
  }

  // The outermost scope whose code runs whenever this scope's does.
  Scope& certain() {
    Scope* s = &scope_;
    while (s->parent() && !s->is_conditional()) s = s->parent();
    return *s;
  }

  LaneValue arg(const Instr& i, size_t n) const {
    return i.args[n] == no_value ? LaneValue{} : values_[i.args[n]];
  }

  LaneValue emit_op(Scope& at, const Instr& i);
  LaneValue emit_signs(Scope& at, const Instr& i);
  Value* operate(const Instr& i, std::span<Value* const> operands, Value* mask);
  Known known_of(const Instr& i) const;
  LaneValue with_low_nan(const Instr& i, LaneValue x);
  LaneValue emit_clamp(Scope& at, const Instr& i);
  LaneValue emit_accumulate(const Instr& i);

  Scope& scope_;
  Function& k_;
  const Body& body_;
  std::vector<LaneValue> values_;
  std::vector<Scope*> homes_;

 public:
  void keep(ValueId id, Scope& at, LaneValue v) {
    values_[id] = v;
    homes_[id] = &at;
  }
};

// A 16-bit float of which only the sign changes, as the bits that it has in memory; else nothing.
LaneValue Walker::emit_signs(Scope& at, const Instr& i) {
  if (i.op != ir::Op::cast || i.from != DType::f32 || compute_type(i.type) == i.type) return {};
  const Instr& how = body_.instrs[i.args[0]];
  const bool both = how.op == ir::Op::copysign;
  if (how.code != Code::arithmetic || !(both || how.op == ir::Op::neg || how.op == ir::Op::abs))
    return {};
  std::array<LaneValue, 2> x;
  for (size_t n = 0; n < (both ? 2 : 1); ++n) {
    const Instr& wide = body_.instrs[how.args[n]];
    if (wide.code != Code::arithmetic || wide.op != ir::Op::cast || wide.from != i.type) return {};
    x[n] = arg(wide, 0);
  }
  const bool vector = x[0].varying || x[1].varying;
  if (vector && at.alternate()) return {};
  auto bits = [&](size_t n) { return vector ? splat(k_, x[n], at.lanes()) : x[n].v; };
  auto& ir = k_.ir;
  constexpr uint64_t sign = 0x8000;
  if (how.op == ir::Op::neg) return {ir.CreateXor(bits(0), sign), vector};
  Value* size = ir.CreateAnd(bits(0), sign - 1);
  return {both ? ir.CreateOr(size, ir.CreateAnd(bits(1), sign)) : size, vector};
}

LaneValue Walker::emit_op(Scope& at, const Instr& i) {
  if (LaneValue r = emit_signs(at, i)) return r;
  auto count = static_cast<size_t>(ir::info(i.op).arity);
  bool vector = false;
  for (size_t n = 0; n < count; ++n) vector = vector || arg(i, n).varying;
  std::array<Value*, 3> operands{};
  for (size_t n = 0; n < count; ++n)
    operands[n] = vector ? splat(k_, arg(i, n), at.lanes()) : arg(i, n).v;
  Value* mask = vector || at.lanes() == 1 ? at.mask() : nullptr;
  k_.set_alternate(vector && at.alternate());
  Value* r = operate(i, std::span(operands).first(count), mask);
  k_.set_alternate(false);
  const bool cast = ir::info(i.op).kind == ir::OpKind::cast;
  return cast ? with_low_nan(i, {r, vector}) : LaneValue{r, vector};
}

// Where a f32 that comes from elsewhere is marked, its NaN becomes one whose low half is 0.
LaneValue Walker::with_low_nan(const Instr& i, LaneValue x) {
  if (i.type != DType::f32 || i.bits == 0) return x;
  Value* nan = llvm::ConstantFP::getNaN(x.v->getType());
  return {k_.ir.CreateSelect(k_.ir.CreateFCmpUNO(x.v, x.v), nan, x.v), x.varying};
}

Known Walker::known_of(const Instr& i) const {
  if (i.from != DType::f32 || i.type == DType::f32 || compute_type(i.type) != DType::f32)
    return Known::nothing;
  if (atlas::is_narrow(body_, i.args[0], i.type)) return Known::narrow;
  return i.bits != 0 ? Known::low_nan : Known::nothing;
}

Value* Walker::operate(const Instr& i, std::span<Value* const> operands, Value* mask) {
  if (ir::info(i.op).kind == ir::OpKind::cast)
    return emit_cast(k_, i.op, operands[0], i.from, i.type, known_of(i));
  if (i.op == ir::Op::exp && i.bits != 0) return k_.render(i.op, operands[0], true);
  if (i.op != ir::Op::select || i.type != DType::bf16 || !k_.alternate())
    return emit_arithmetic(k_, i.op, i.type, operands, mask);
  // The condition is alternate, and so are float32 numbers.
  auto wide = [&](size_t n) {
    return emit_cast(k_, ir::Op::cast, operands[n], DType::bf16, DType::f32);
  };
  Value *x = wide(1), *y = wide(2);
  Value* r = k_.ir.CreateSelect(operands[0], x, y);
  return emit_cast(k_, ir::Op::cast, r, DType::f32, DType::bf16, Known::narrow);
}

LaneValue Walker::emit_clamp(Scope& at, const Instr& i) {
  LaneValue index = arg(i, 0), extent = IndexEmitter(&values_, false).emit(at, i.expr);
  at.seek();
  bool vector = index.varying || extent.varying;
  Value* x = vector ? splat(k_, index, at.lanes()) : index.v;
  Value* n = vector ? splat(k_, extent, at.lanes()) : extent.v;
  auto& ir = k_.ir;
  Value *inside = ir.CreateICmpULT(x, n), *outside = ir.CreateNot(inside);
  if ((vector || at.lanes() == 1) && at.mask()) outside = ir.CreateAnd(outside, at.mask());
  k_.flag_error(outside, atlas::index_out_of_range);
  return {ir.CreateSelect(inside, x, llvm::Constant::getNullValue(x->getType())), vector};
}

LaneValue Walker::emit_accumulate(const Instr& i) {
  if (scope_.accumulate()) return scope_.accumulate()(i, arg(i, 0));
  LaneValue slot = find_running(scope_, i.buffer);
  int lanes = slot.varying ? scope_.lanes() : 1;
  llvm::Type* type = k_.lane_type(i.type, lanes);
  Value* now =
      combine(k_, i.op, i.type, k_.ir.CreateLoad(type, slot.v), splat(k_, arg(i, 0), lanes));
  k_.ir.CreateStore(now, slot.v);
  return {now, slot.varying};
}

LaneValue Walker::emit(Scope& at, const Instr& i) {
  at.seek();
  switch (i.code) {
    case Code::constant: {
      llvm::Type* type = k_.type_of(i.type);
      if (type->isFloatingPointTy()) {
        llvm::APInt bits(static_cast<unsigned>(size_of(i.type)) * 8, i.bits);
        return {llvm::ConstantFP::get(k_.context, llvm::APFloat(type->getFltSemantics(), bits)),
                false};
      }
      uint64_t bits = i.type == DType::b8 ? i.bits != 0 : i.bits;
      return {llvm::ConstantInt::get(type, bits), false};
    }
    case Code::index:
      return IndexEmitter(&values_, false).emit(at, i.expr);
    case Code::clamp_index:
      return emit_clamp(at, i);
    case Code::load:
      return with_low_nan(i, emit_load(at, i, arg(i, 0), values_));
    case Code::store:
      emit_store(at, i, arg(i, 0), arg(i, 1), values_);
      return {};
    case Code::arithmetic:
      return emit_op(at, i);
    case Code::accumulator: {
      Scope* where;
      return find_accumulator(scope_, i.buffer, &where);
    }
    case Code::accumulate:
      return emit_accumulate(i);
    case Code::lookup:
      return {k_.look_up(i.type, i.table, arg(i, 0).v), arg(i, 0).varying};
  }
  return {};
}

}  // namespace

std::vector<LaneValue> emit_body(Scope& scope, const Body& body) {
  Walker w(scope, body);
  for (ValueId id = 0; id < body.instrs.size(); ++id) {
    const Instr& i = body.instrs[id];
    Scope& at = w.place(i);
    if (i.code == Code::store || i.code == Code::accumulate) {
      w.keep(id, scope, w.emit(scope, i));
      continue;
    }
    auto [it, fresh] = at.values_.try_emplace({&body, id});
    if (fresh) it->second = w.emit(at, i);
    w.keep(id, at, it->second);
  }
  scope.seek();
  return std::move(w.values());
}

}  // namespace hologram::codegen
