// backend/cpu/loops/block_tree.cpp: a binary counter of blocks, whose digits are their results.
#include "backend/cpu/loops/block_tree.h"

#include <llvm/IR/Intrinsics.h>

#include "codegen/nest.h"

namespace hologram::cpu {

namespace Intrinsic = llvm::Intrinsic;

BlockTree::BlockTree(CpuFunction& k, const atlas::Reduction& r, llvm::Type* type, int levels,
                     int vectors)
    : k_(k),
      r_(r),
      type_(type),
      vectors_(vectors),
      levels_(k.slot(type, "levels", int64_t{levels} * vectors)),
      blocks_(k.slot(k.ir.getInt64Ty(), "blocks")) {}

void BlockTree::reset(Scope& scope) {
  scope.seek();
  k_.ir.CreateStore(k_.i64(0), blocks_);
}

void BlockTree::push(Scope& scope, Value* value) {
  push(scope, value, k_.i64(0));
  next_block(scope);
}

void BlockTree::push(Scope& scope, Value* value, Value* vector) {
  scope.seek();
  auto& ir = k_.ir;
  Value* n = ir.CreateLoad(ir.getInt64Ty(), blocks_);
  Value* full = ir.CreateBinaryIntrinsic(Intrinsic::cttz, ir.CreateNot(n), ir.getFalse());
  auto merged =
      emit_loop(scope, k_.i64(0), full, k_.i64(1), false, {value},
                [&](Scope&, Value* level, std::vector<Value*> v) -> std::vector<Value*> {
                  return {combine(k_, r_.op, r_.type, load(level, vector), v[0])};
                });
  scope.seek();
  ir.CreateStore(merged[0], at(full, vector));
}

void BlockTree::next_block(Scope& scope) {
  scope.seek();
  Value* n = k_.ir.CreateLoad(k_.ir.getInt64Ty(), blocks_);
  k_.ir.CreateStore(k_.ir.CreateAdd(n, k_.i64(1)), blocks_);
}

Value* BlockTree::finish(Scope& scope, Value* identity) {
  return finish(scope, identity, k_.i64(0));
}

Value* BlockTree::finish(Scope& scope, Value* identity, Value* vector) {
  scope.seek();
  auto& ir = k_.ir;
  Value* n = ir.CreateLoad(ir.getInt64Ty(), blocks_);
  Value* none = ir.CreateICmpEQ(n, k_.i64(0));
  Value* set = ir.CreateUnaryIntrinsic(Intrinsic::ctpop, n);
  Value* first = load(lowest(n), vector);
  auto sum = emit_loop(scope, k_.i64(1), set, k_.i64(1), false, {first, without_lowest(n)},
                       [&](Scope&, Value*, std::vector<Value*> v) -> std::vector<Value*> {
                         Value* next =
                             combine(k_, r_.op, r_.type, load(lowest(v[1]), vector), v[0]);
                         return {next, without_lowest(v[1])};
                       });
  scope.seek();
  return ir.CreateSelect(none, identity, sum[0]);
}

Value* BlockTree::lowest(Value* n) {
  return k_.ir.CreateBinaryIntrinsic(Intrinsic::cttz, n, k_.ir.getFalse());
}

Value* BlockTree::without_lowest(Value* n) {
  return k_.ir.CreateAnd(n, k_.ir.CreateSub(n, k_.i64(1)));
}

Value* BlockTree::at(Value* level, Value* vector) {
  Value* index = vectors_ == 1 ? level
                               : k_.ir.CreateAdd(k_.ir.CreateMul(level, k_.i64(vectors_)), vector);
  return k_.ir.CreateGEP(type_, levels_, index);
}

Value* BlockTree::load(Value* level, Value* vector) {
  return k_.ir.CreateLoad(type_, at(level, vector));
}

}  // namespace hologram::cpu
