// codegen/index.cpp: index expressions and addresses at a scope.
#include "codegen/index.h"

#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "base/error.h"

namespace hologram::codegen {
namespace {

using K = Atom::Kind;

bool has_values(const Expr& e) {
  return e.any_atom([](const Atom& a) { return a.kind == K::value; });
}

bool provably_small(const Expr& e) {
  return provably_nonnegative(e) && provably_less(e, Expr(int64_t{1} << 31));
}

bool provably_positive(const Expr& e) { return e.is_const() && e.constant_value() > 0; }

Value* common(Function& k, LaneValue x, int lanes, bool vector) {
  return vector ? splat(k, x, lanes) : x.v;
}

// Adds x to what there is so far, or multiplies by it.
void join(Scope& scope, LaneValue& total, LaneValue x, bool multiply) {
  Function& k = scope.function();
  scope.seek();
  if (!total) {
    total = x;
    return;
  }
  const bool vector = total.varying || x.varying;
  const int lanes = scope.lanes();
  Value *a = common(k, total, lanes, vector), *b = common(k, x, lanes, vector);
  total = {multiply ? k.ir.CreateMul(a, b, "", false, true) : k.ir.CreateAdd(a, b, "", false, true),
           vector};
}

}  // namespace

struct IndexEmitter::Split {
  Expr outer, inner;
};

int IndexEmitter::depth_of(const Scope& scope, const Atom& a) const {
  if (a.kind == K::symbol) return 0;
  if (a.kind == K::value) return scope.depth();
  if (a.kind != K::axis) return std::max(depth_of(scope, *a.a), depth_of(scope, *a.b));
  for (const Scope* s = &scope; s; s = s->parent())
    if (s->axes_.count(a.id)) return s->depth();
  fail(ErrorCode::internal, "internal error in codegen: axis i{} has no value here", a.id);
}

int IndexEmitter::depth_of(const Scope& scope, const Expr& e) const {
  int depth = 0;
  for (const Term& t : e.terms())
    for (const AtomRef& a : t.atoms) depth = std::max(depth, depth_of(scope, *a));
  return depth;
}

Scope& IndexEmitter::home(Scope& scope, const Expr& e) const {
  int depth = depth_of(scope, e);
  Scope* s = &scope;
  while (s->depth() > depth) s = s->parent();
  return *s;
}

bool IndexEmitter::varies(const Scope& scope, const Expr& e) const {
  return e.any_atom([&](const Atom& a) {
    if (a.kind == K::axis) return scope.lanes() > 1 && a.id == scope.lane_axis();
    return a.kind == K::value && values_ && (*values_)[static_cast<size_t>(a.id)].varying;
  });
}

IndexEmitter::Split IndexEmitter::split(Scope& home, const Expr& e) const {
  std::vector<Term> outer, inner;
  for (const Term& t : e.terms()) {
    int depth = 0;
    for (const AtomRef& a : t.atoms) depth = std::max(depth, depth_of(home, *a));
    (depth < home.depth() ? outer : inner).push_back(t);
  }
  return {Expr::from_terms(e.constant(), std::move(outer)), Expr::from_terms(0, std::move(inner))};
}

LaneValue IndexEmitter::emit(Scope& scope, const Expr& e) {
  Function& k = scope.function();
  if (e.is_const()) return {k.i64(e.constant_value()), false};
  Scope& at = home(scope, e);
  bool keep = !has_values(e);
  auto& memo = base_ ? at.bases_ : at.exprs_;
  if (keep)
    if (auto it = memo.find(e); it != memo.end()) return it->second;
  LaneValue v = !base_ && varies(at, e) ? linear(at, e) : LaneValue{};
  if (!v) v = sum(at, e);
  if (keep) memo.emplace(e, v);
  return v;
}

// c * lane axis + uniform, with a constant c: lane 0's value and a constant vector.
LaneValue IndexEmitter::linear(Scope& scope, const Expr& e) {
  Function& k = scope.function();
  auto parts = e.linear_in_axis(scope.lane_axis());
  if (!parts || !parts->first.is_const() || varies(scope, parts->second)) return {};
  LaneValue first = IndexEmitter(values_, true).emit(scope, e);
  scope.seek();
  std::vector<llvm::Constant*> steps;
  for (int l = 0; l < scope.lanes(); ++l)
    steps.push_back(
        llvm::ConstantInt::getSigned(k.ir.getInt64Ty(), l * parts->first.constant_value()));
  Value* v = k.ir.CreateAdd(splat(k, first, scope.lanes()), llvm::ConstantVector::get(steps));
  return {v, true};
}

LaneValue IndexEmitter::sum(Scope& scope, const Expr& e) {
  Split parts =
      scope.depth() > 0 ? split(scope, e) : Split{Expr(e.constant()), e - Expr(e.constant())};
  LaneValue total;
  for (const Term& t : parts.inner.terms()) join(scope, total, product(scope, t), false);
  if (!parts.outer.is(0)) join(scope, total, emit(scope, parts.outer), false);
  return total;
}

LaneValue IndexEmitter::product(Scope& scope, const Term& t) {
  Function& k = scope.function();
  Term outer{t.coefficient, {}};
  std::vector<AtomRef> inner;
  for (const AtomRef& a : t.atoms)
    (scope.depth() > 0 && depth_of(scope, *a) < scope.depth() ? outer.atoms : inner).push_back(a);
  LaneValue total;
  auto multiply = [&](LaneValue x) { join(scope, total, x, true); };
  for (const AtomRef& a : inner) multiply(atom(scope, *a));
  if (!outer.atoms.empty())
    multiply(emit(scope, Expr::from_terms(0, {outer})));
  else if (outer.coefficient != 1)
    multiply({k.i64(outer.coefficient), false});
  return total;
}

LaneValue IndexEmitter::atom(Scope& scope, const Atom& a) {
  Function& k = scope.function();
  int lanes = scope.lanes();
  switch (a.kind) {
    case K::symbol:
      return {k.symbol(a.id), false};
    case K::value:
      check(values_ != nullptr, "codegen: a body value outside its body");
      return (*values_)[static_cast<size_t>(a.id)];
    case K::axis: {
      Value* first = nullptr;
      for (const Scope* s = &scope; s && !first; s = s->parent())
        if (auto it = s->axes_.find(a.id); it != s->axes_.end()) first = it->second;
      if (base_ || lanes == 1 || a.id != scope.lane_axis()) return {first, false};
      std::vector<llvm::Constant*> steps;
      for (int l = 0; l < lanes; ++l)
        steps.push_back(llvm::ConstantInt::getSigned(k.ir.getInt64Ty(), l));
      scope.seek();
      return {k.ir.CreateAdd(splat(k, {first, false}, lanes), llvm::ConstantVector::get(steps)),
              true};
    }
    default:
      break;
  }
  LaneValue x = emit(scope, *a.a), y = emit(scope, *a.b);
  bool vector = x.varying || y.varying;
  scope.seek();
  Value *p = common(k, x, lanes, vector), *q = common(k, y, lanes, vector);
  switch (a.kind) {
    case K::min:
      return {k.ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, p, q), vector};
    case K::max:
      return {k.ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, p, q), vector};
    case K::floor_div:
      return {emit_floor_div(k, p, q, *a.a, *a.b), vector};
    default: {  // mod: 0 for a divisor of 0
      Value* quotient = emit_floor_div(k, p, q, *a.a, *a.b);
      Value* rest = k.ir.CreateSub(p, k.ir.CreateMul(quotient, q));
      if (!provably_positive(*a.b)) {
        Value* zero = llvm::Constant::getNullValue(q->getType());
        rest = k.ir.CreateSelect(k.ir.CreateICmpEQ(q, zero), zero, rest);
      }
      return {rest, vector};
    }
  }
}

Value* emit_floor_div(Function& k, Value* x, Value* y, const Expr& x_known, const Expr& y_known) {
  auto& ir = k.ir;
  llvm::Type* type = x->getType();
  Value* zero = llvm::Constant::getNullValue(type);
  bool safe = provably_positive(y_known);
  bool vector = type->isVectorTy();
  Value* divisor = y;
  Value* by_zero = nullptr;
  if (!safe) {
    by_zero = ir.CreateICmpEQ(y, zero);
    divisor = ir.CreateSelect(by_zero, llvm::ConstantInt::get(type, 1), y);
  }
  Value* q;
  if (provably_small(x_known) && (y_known.is_const() || provably_small(y_known)) &&
      (!y_known.is_const() || y_known.constant_value() < (int64_t{1} << 31)) &&
      !(vector && !y_known.is_const())) {
    llvm::Type* narrow = type->getWithNewBitWidth(32);
    q = ir.CreateUDiv(ir.CreateTrunc(x, narrow), ir.CreateTrunc(divisor, narrow));
    q = ir.CreateZExt(q, type);
  } else if (vector) {
    // Exact for operands below 2^53: the quotient rounds to an integer only if it is one.
    llvm::Type* real = llvm::VectorType::get(ir.getDoubleTy(), llvm::cast<llvm::VectorType>(type));
    Value* ratio = ir.CreateFDiv(ir.CreateSIToFP(x, real), ir.CreateSIToFP(divisor, real));
    q = ir.CreateFPToSI(ir.CreateUnaryIntrinsic(llvm::Intrinsic::floor, ratio), type);
  } else if (provably_nonnegative(x_known) && (safe || provably_nonnegative(y_known))) {
    q = ir.CreateUDiv(x, divisor);
  } else {
    q = ir.CreateSDiv(x, divisor);
    Value* rest = ir.CreateSub(x, ir.CreateMul(q, divisor));
    Value* down = ir.CreateAnd(ir.CreateICmpNE(rest, zero),
                               ir.CreateICmpSLT(ir.CreateXor(rest, divisor), zero));
    q = ir.CreateSub(q, ir.CreateZExt(down, type));
  }
  return by_zero ? ir.CreateSelect(by_zero, zero, q) : q;
}

Value* IndexEmitter::address(Scope& scope, int buffer, const Expr& e) {
  Function& k = scope.function();
  if (e.is(0)) return k.buffer(buffer);
  Scope& at = home(scope, e);
  bool keep = !has_values(e);
  Scope::Address key{buffer, e};
  if (keep)
    if (auto it = at.addresses_.find(key); it != at.addresses_.end()) return it->second;
  // The constant comes last, as a displacement: neighbours share a pointer, and none of them needs
  // a register of its own in the loop around.
  Expr constant(e.constant()), rest = e - constant;
  DType type = k.program.buffers[static_cast<size_t>(buffer)].dtype;
  Value *from, *offset;
  if (!constant.is(0)) {
    from = address(at, buffer, rest);
    offset = k.i64(e.constant());
  } else {
    Split parts = at.depth() > 0 ? split(at, e) : Split{Expr(0), e};
    from = address(at, buffer, parts.outer);
    offset = emit(at, parts.inner).v;
  }
  at.seek();
  Value* p = k.ir.CreateGEP(k.memory_type(type), from, offset);
  if (keep) at.addresses_.emplace(std::move(key), p);
  return p;
}

LaneValue emit_expr(Scope& scope, const Expr& e, const std::vector<LaneValue>* values) {
  LaneValue v = IndexEmitter(values, false).emit(scope, e);
  scope.seek();
  return v;
}

}  // namespace hologram::codegen
