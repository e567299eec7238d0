// backend/cuda/sums.cpp: the way of sums through a warp's shared memory.
#include "backend/cuda/sums.h"

#include "backend/cuda/products/mend.h"
#include "backend/cuda/warp.h"
#include "codegen/nest.h"

namespace hologram::cuda {

int lanes_of_sums(const atlas::Body& epilogue) {
  const size_t instructions = epilogue.instrs.size();
  return instructions <= 16 ? 8 : instructions <= 48 ? 4 : 2;
}

Value* row_of_lane(CudaFunction& k, Value* lane, bool turned_rows) {
  llvm::IRBuilder<>& ir = k.ir;
  Value* g = ir.CreateLShr(lane, 2);
  if (!turned_rows) return g;
  return ir.CreateOr(ir.CreateShl(ir.CreateAnd(g, 3), 1), ir.CreateLShr(g, 2));
}

void hand_out(CudaFunction& k, Scope& scope, const SumSlices& s, Value* memory, Value* lane,
              const std::vector<Value*>& sums,
              const std::function<void(Scope&, Value*, Value*, Value*)>& take) {
  llvm::IRBuilder<>& ir = k.ir;
  auto number = [&](int n) { return ir.getInt32(static_cast<uint32_t>(n)); };
  scope.seek();
  llvm::Type* type = sums[0]->getType();
  // Eights of columns change places by the row, so that rows meet different banks.
  auto place = [&](Value* row, Value* eight) {
    Value* by = s.turned_rows ? ir.CreateLShr(row, 1) : row;
    Value* other = ir.CreateXor(eight, ir.CreateAnd(by, 3));
    return ir.CreateAdd(ir.CreateMul(row, number(s.slice)), ir.CreateShl(other, 3));
  };
  Value* high = row_of_lane(k, lane, s.turned_rows);
  Value* pair = ir.CreateShl(ir.CreateAnd(lane, 3), 1);
  const int row_lanes = s.slice / s.lanes;  // lanes that share a row
  Value* own = ir.CreateMul(ir.CreateAnd(lane, number(row_lanes - 1)), number(s.lanes));
  for (int first = 0; first < s.columns; first += s.slice) {
    scope.seek();
    sync_warp(ir);
    for (int j = 0; j < s.slice / 8; ++j)
      for (int half = 0; half < 2; ++half) {
        const auto which = static_cast<size_t>((first / 8 + j) * 4 + 2 * half);
        Value* two = llvm::PoisonValue::get(llvm::FixedVectorType::get(type, 2));
        for (uint64_t n = 0; n < 2; ++n) two = ir.CreateInsertElement(two, sums[which + n], n);
        Value* row = ir.CreateAdd(high, number(8 * half));
        Value* at = ir.CreateAdd(place(row, number(j)), pair);
        ir.CreateAlignedStore(two, ir.CreateGEP(type, memory, at), llvm::Align(8));
      }
    sync_warp(ir);
    Value* column = ir.CreateAdd(own, number(first));
    emit_loop(scope, ir.CreateUDiv(lane, number(row_lanes)), number(16), number(32 / row_lanes),
              true, [&](Scope& some, Value* row) {
                some.seek();
                Value* from =
                    ir.CreateAdd(place(row, ir.CreateLShr(own, 3)), ir.CreateAnd(own, number(7)));
                take(some, row, column, ir.CreateGEP(type, memory, from));
              });
  }
  scope.seek();
  sync_warp(ir);  // the next step's products are the whole warp's
}

void run_over(CudaFunction& k, Scope& row, const atlas::Body& body, int axis, Value* column,
              Value* end, Value* from, int lanes, llvm::Type* type,
              const std::function<Value*(Scope&, Value*)>& mend) {
  llvm::IRBuilder<>& ir = k.ir;
  row.seek();
  Value* behind = ir.CreateAdd(column, k.i64(lanes));
  auto* vector = llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes));
  Value* sums = ir.CreateAlignedLoad(vector, from, llvm::Align(lanes >= 4 ? 16 : 8));
  Value* whole = ir.CreateICmpSLE(behind, end);
  if (mend) whole = ir.CreateAnd(whole, is_finite(k, sums));
  emit_if(row, whole, [&](Scope& point) {
    point.seek();
    point.set_axis(axis, column);
    point.set_lanes(axis, lanes);
    point.set_accumulator(0, {sums, true});
    emit_body(point, body);
  });
  row.seek();
  Value* last = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, behind, end);
  emit_loop(row, ir.CreateSelect(whole, last, column), last, k.i64(1), false,
            [&](Scope& point, Value* at) {
              point.seek();
              Value* sum = ir.CreateLoad(type, ir.CreateGEP(type, from, ir.CreateSub(at, column)));
              point.set_axis(axis, at);
              if (mend) {
                sum = mend(point, sum);
                point.seek();
              }
              point.set_accumulator(0, {sum, false});
              emit_body(point, body);
            });
}

}  // namespace hologram::cuda
