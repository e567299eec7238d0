// backend/cuda/products/mend.cpp: what is not finite comes of infinities, NaN, or of numbers that a
// term or a sum cannot hold: there the chain of multiply-adds says what it is.
#include "backend/cuda/products/mend.h"

#include "atlas/order.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

Value* chain_of(CudaFunction& k, Scope& block, Value* begin, Value* depth) {
  llvm::IRBuilder<>& ir = k.ir;
  const atlas::ProductBlock& product = k.program.product();
  Value* end = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, depth,
                                        ir.CreateAdd(begin, k.i64(atlas::product_block)));
  Value* zero = llvm::Constant::getNullValue(k.type_of(product.acc_type));
  Value* out =
      emit_loop(block, begin, end, k.i64(1), true, {zero},
                [&](Scope& one, Value* at, const std::vector<Value*>& now) -> std::vector<Value*> {
                  one.set_axis(product.batch_rank + 2, at);
                  Value* x = emit_body(one, product.lhs).back().v;
                  Value* y = emit_body(one, product.rhs).back().v;
                  one.seek();
                  return {multiply_add(k, product.acc_type, x, y, now[0])};
                })[0];
  block.seek();
  return out;
}

}  // namespace

Value* is_finite(CudaFunction& k, Value* numbers) {
  llvm::IRBuilder<>& ir = k.ir;
  auto of = [&](Value* x) {
    Value* size = ir.CreateAnd(ir.CreateBitCast(x, ir.getInt32Ty()), ir.getInt32(0x7fffffff));
    return ir.CreateICmpULT(size, ir.getInt32(0x7f800000));
  };
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(numbers->getType());
  if (!vector) return of(numbers);
  Value* all = nullptr;
  for (uint64_t n = 0; n < vector->getNumElements(); ++n) {
    Value* one = of(ir.CreateExtractElement(numbers, n));
    all = all ? ir.CreateAnd(all, one) : one;
  }
  return all;
}

Value* mend_sum(CudaFunction& k, Scope& point, Value* sum, Value* depth) {
  llvm::IRBuilder<>& ir = k.ir;
  Value* end = ir.CreateSelect(is_finite(k, sum), k.i64(0), depth);
  const DType type = k.program.product().acc_type;
  return emit_loop(
      point, k.i64(0), end, k.i64(atlas::product_block), false, {sum},
      [&](Scope& block, Value* begin, const std::vector<Value*>& now) -> std::vector<Value*> {
        Value* chain = chain_of(k, block, begin, depth);
        Value* all = emit_arithmetic(k, ir::Op::add, type, std::array{now[0], chain});
        Value* first = ir.CreateICmpEQ(begin, k.i64(0));
        return {ir.CreateSelect(first, chain, all)};
      })[0];
}

}  // namespace hologram::cuda
