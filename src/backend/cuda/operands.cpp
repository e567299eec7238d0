// backend/cuda/operands.cpp: elements of operands to shared memory, one by one or eight at a time.
#include "backend/cuda/operands.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include "codegen/nest.h"

namespace hologram::cuda {

void Operands::barrier() { ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {}); }

// The coordinate, or the last one there is.
Value* Operands::within(Value* v, Value* count) {
  return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, ir_.CreateSub(count, k_.i64(1)));
}

void Operands::fix(Scope& scope, const Factor& factor, Value* x) {
  if (factor.place)
    factor.place(scope, x);
  else
    scope.set_axis(factor.axis, x);
}

// Threads beside each other take elements beside each other in memory.
void Operands::stage(Scope& at, const Factor& factor, Value* k, int count, int depth, DType type,
                     llvm::Constant* fill, Value* to, int stride) {
  const int inner = factor.depth_run ? depth : count;
  auto element_of = [&](Scope& part, Value* e) {
    Value* low = ir_.CreateURem(e, number(inner));
    Value* high = ir_.CreateUDiv(e, number(inner));
    Value *x = factor.depth_run ? high : low, *row = factor.depth_run ? low : high;
    Value* place = ir_.CreateGEP(k_.memory_type(type), to,
                                 ir_.CreateAdd(ir_.CreateMul(row, number(stride)), x));
    llvm::Type* word = ir_.getInt64Ty();
    Value* depth_at = ir_.CreateAdd(k, ir_.CreateZExt(row, word));
    Value* inside = ir_.CreateICmpSLT(depth_at, factor.depth);
    Value* v = element(part, factor, ir_.CreateAdd(factor.first, ir_.CreateZExt(x, word)), depth_at,
                       inside);
    if (factor.type != type) v = emit_cast(k_, ir::Op::cast, v, factor.type, type);
    ir_.CreateStore(ir_.CreateSelect(inside, v, fill), place);
  };
  for (int first = 0; first < count * depth; first += threads_) {
    at.seek();
    Value* e = ir_.CreateAdd(k_.thread(), number(first));
    if (first + threads_ <= count * depth)
      element_of(at, e);
    else
      emit_if(at, ir_.CreateICmpULT(e, number(count * depth)), [&](Scope& some) {
        some.seek();
        element_of(some, e);
      });
  }
}

// The element, or another one where there is none; the builder stays where it was made.
Value* Operands::element(Scope& at, const Factor& factor, Value* x, Value* k, Value* inside) {
  Value* exists = ir_.CreateAnd(inside, ir_.CreateICmpSLT(x, factor.count));
  Scope one(at, false);
  one.set_lanes(-1, 1, exists);
  fix(one, factor, within(x, factor.count));
  one.set_axis(factor.depth_axis, within(k, factor.depth));
  Value* v = emit_body(one, *factor.body).back().v;
  one.seek();
  at.move_to(ir_.GetInsertBlock());
  return v;
}

std::pair<Value*, Value*> Operands::split_piece(const Factor& factor, Value* e, int count,
                                                int depth) {
  const int inner = (factor.depth_run ? depth : count) / lanes;
  Value* run = ir_.CreateMul(ir_.CreateURem(e, number(inner)), number(lanes));
  return {ir_.CreateUDiv(e, number(inner)), run};
}

Value* Operands::place_of(const Factor& factor, int n, int count, int depth, int stride) {
  Value* e = ir_.CreateAdd(k_.thread(), number(n * threads_));
  const auto [row, run] = split_piece(factor, e, count, depth);
  return ir_.CreateAdd(ir_.CreateMul(row, number(stride)), run);
}

std::vector<Operands::Piece> Operands::fetch(Scope& at, const Factor& factor, Value* k, int count,
                                             int depth, int stride) {
  const bool deep = factor.depth_run;
  const int total = count * depth / lanes;
  std::vector<Piece> out;
  for (int first = 0; first < total; first += threads_) {
    at.seek();
    Value* e = ir_.CreateAdd(k_.thread(), number(first));
    const auto [row, run] = split_piece(factor, e, count, depth);
    Value* place = ir_.CreateAdd(ir_.CreateMul(row, number(stride)), run);
    Value* exists = first + threads_ <= total ? nullptr : ir_.CreateICmpULT(e, number(total));
    llvm::Type* word = ir_.getInt64Ty();
    Value* x = ir_.CreateAdd(factor.first, ir_.CreateZExt(deep ? row : run, word));
    Value* depth_at = ir_.CreateAdd(k, ir_.CreateZExt(deep ? run : row, word));
    out.push_back({eight(at, factor, x, depth_at), place, exists});
  }
  return out;
}

void Operands::write(Scope& at, const std::vector<Piece>& pieces, Value* memory, Value* offset,
                     int first) {
  for (const Piece& piece : pieces) {
    auto put = [&](Scope& some) {
      some.seek();
      auto* vector = llvm::cast<llvm::FixedVectorType>(piece.value->getType());
      const unsigned words = vector->getScalarSizeInBits() * lanes / 32;
      Value* to = ir_.CreateAdd(ir_.CreateAdd(piece.place, offset), number(first));
      ir_.CreateAlignedStore(
          ir_.CreateBitCast(piece.value, llvm::FixedVectorType::get(ir_.getInt32Ty(), words)),
          ir_.CreateGEP(vector->getElementType(), memory, to), llvm::Align(4 * words));
    };
    piece.exists ? emit_if(at, piece.exists, put) : put(at);
  }
}

// One vector where the eight elements' run exists; the other coordinate may be taken for another.
Value* Operands::eight(Scope& at, const Factor& factor, Value* x, Value* k) {
  const bool deep = factor.depth_run;
  Value* end = ir_.CreateAdd(deep ? k : x, k_.i64(lanes));
  Value* whole = ir_.CreateICmpSLE(end, deep ? factor.depth : factor.count);
  Value* inside = ir_.CreateICmpSLT(k, factor.depth);
  llvm::BasicBlock *wide = k_.block("wide"), *narrow = k_.block("narrow"), *on = k_.block("on");
  ir_.CreateCondBr(whole, wide, narrow);
  ir_.SetInsertPoint(wide);
  Value *vector, *element;
  {
    Scope all(at, true);
    fix(all, factor, deep ? within(x, factor.count) : x);
    all.set_axis(factor.depth_axis, deep ? k : within(k, factor.depth));
    all.set_lanes(deep ? factor.depth_axis : factor.axis, lanes);
    const LaneValue v = emit_body(all, *factor.body).back();
    all.seek();
    vector = splat(k_, v, lanes);
    if (!deep)
      vector = ir_.CreateSelect(inside, vector, llvm::Constant::getNullValue(vector->getType()));
    wide = ir_.GetInsertBlock();
    ir_.CreateBr(on);
  }
  ir_.SetInsertPoint(narrow);
  {
    Scope some(at, true);
    element = one_by_one(some, factor, x, k);
    some.seek();
    narrow = ir_.GetInsertBlock();
    ir_.CreateBr(on);
  }
  ir_.SetInsertPoint(on);
  llvm::PHINode* out = ir_.CreatePHI(vector->getType(), 2);
  out->addIncoming(vector, wide);
  out->addIncoming(element, narrow);
  at.move_to(on);
  return out;
}

Value* Operands::one_by_one(Scope& at, const Factor& factor, Value* x, Value* k) {
  const bool deep = factor.depth_run;
  auto* type = llvm::FixedVectorType::get(k_.type_of(factor.type), lanes);
  std::vector<int> down;
  for (int n = 1; n <= lanes; ++n) down.push_back(n % lanes);
  auto add = [&](Scope& round, Value* n, const std::vector<Value*>& now) -> std::vector<Value*> {
    Value *at_x = deep ? x : ir_.CreateAdd(x, n), *at_k = deep ? ir_.CreateAdd(k, n) : k;
    Value* inside = ir_.CreateICmpSLT(at_k, factor.depth);
    Value* v = element(round, factor, at_x, at_k, inside);
    v = ir_.CreateSelect(inside, v, llvm::Constant::getNullValue(v->getType()));
    return {ir_.CreateInsertElement(ir_.CreateShuffleVector(now[0], down), v, uint64_t{lanes - 1})};
  };
  return emit_loop(at, k_.i64(0), k_.i64(lanes), k_.i64(1), true,
                   {llvm::Constant::getNullValue(type)}, add)[0];
}

}  // namespace hologram::cuda
