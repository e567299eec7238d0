// backend/cuda/products/tile.cpp: a CTA's tile of a product: its place, its factors, its results.
#include "backend/cuda/products/tile.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include "backend/cuda/loops/points.h"
#include "codegen/index.h"
#include "codegen/memory.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

const Expr& extent(const atlas::ProductBlock& block, int axis) {
  return block.axes[static_cast<size_t>(axis)].extent;
}

// Whether the first load that depends on either axis has its neighbours along k.
bool runs_along(const atlas::Body& body, int axis, int depth_axis) {
  for (const atlas::Instr& i : body.instrs) {
    if (i.code != atlas::Code::load || !(i.expr.has_axis(axis) || i.expr.has_axis(depth_axis)))
      continue;
    const auto along = i.expr.linear_in_axis(axis);
    return !along || !along->first.is(1);
  }
  return true;
}

}  // namespace

Expr ProductTile::tiles(const atlas::ProductBlock& block, int rows, int columns) {
  Expr all(1);
  for (int a = 0; a < block.batch_rank; ++a) all *= max(extent(block, a), Expr(0));
  return all * ceil_div(max(extent(block, block.batch_rank), Expr(0)), Expr(rows)) *
         ceil_div(max(extent(block, block.batch_rank + 1), Expr(0)), Expr(columns));
}

ProductTile::ProductTile(CudaFunction& k, int rows, int columns, int threads)
    : k_(k),
      ir_(k.ir),
      block_(k.program.product()),
      rows_(rows),
      columns_(columns),
      threads_(threads),
      scope_(k.root(), false) {
  const int m = block_.batch_rank, n = m + 1, depth = m + 2;
  auto value = [&](const Expr& e) {
    Value* v = emit_expr(scope_, e).v;
    scope_.seek();
    return v;
  };
  scope_.seek();
  Value* number = ir_.CreateZExt(k.cta(), ir_.getInt64Ty());
  auto split = [&](const Expr& count) {  // takes the last coordinate of the CTA's number
    Value* size = value(count);
    Value* q = emit_floor_div(k, number, size, Expr::symbol(0), count);
    Value* last = ir_.CreateSub(number, ir_.CreateMul(q, size));
    number = q;
    return last;
  };
  Value* column = split(ceil_div(extent(block_, n), Expr(columns)));
  Value* row = split(ceil_div(extent(block_, m), Expr(rows)));
  fix_axes(scope_, block_.axes, 0, block_.batch_rank, number);
  scope_.seek();
  thread_ = k.thread();
  left_ = {&block_.lhs,
           m,
           block_.operand_type,
           ir_.CreateMul(row, k.i64(rows)),
           value(extent(block_, m)),
           runs_along(block_.lhs, m, depth)};
  right_ = {&block_.rhs,
            n,
            block_.rhs_type(),
            ir_.CreateMul(column, k.i64(columns)),
            value(extent(block_, n)),
            runs_along(block_.rhs, n, depth)};
  depth_ = value(extent(block_, depth));
}

void ProductTile::barrier() { ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {}); }

// Threads beside each other take elements beside each other in memory.
void ProductTile::stage(Scope& at, const Factor& factor, Value* k, int count, int depth, DType type,
                        llvm::Constant* fill, Value* to, int stride) {
  const int inner = factor.depth_run ? depth : count;
  for (int number = 0; number < count * depth; number += threads_) {
    at.seek();
    Value* e = ir_.CreateAdd(thread_, ir_.getInt32(static_cast<uint32_t>(number)));
    Value* low = ir_.CreateURem(e, ir_.getInt32(static_cast<uint32_t>(inner)));
    Value* high = ir_.CreateUDiv(e, ir_.getInt32(static_cast<uint32_t>(inner)));
    Value *x = factor.depth_run ? high : low, *row = factor.depth_run ? low : high;
    Value* place = ir_.CreateGEP(
        k_.memory_type(type), to,
        ir_.CreateAdd(ir_.CreateMul(row, ir_.getInt32(static_cast<uint32_t>(stride))), x));
    llvm::Type* word = ir_.getInt64Ty();
    Value* depth_at = ir_.CreateAdd(k, ir_.CreateZExt(row, word));
    emit_element(at, factor, ir_.CreateAdd(factor.first, ir_.CreateZExt(x, word)), depth_at,
                 ir_.CreateICmpSLT(depth_at, depth_), type, fill, place);
  }
}

void ProductTile::emit_element(Scope& at, const Factor& factor, Value* x, Value* k, Value* inside,
                               DType type, llvm::Constant* fill, Value* place) {
  auto last = [&](Value* count) { return ir_.CreateSub(count, k_.i64(1)); };
  auto within = [&](Value* v, Value* count) {
    return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, last(count));
  };
  Value* exists = ir_.CreateAnd(inside, ir_.CreateICmpSLT(x, factor.count));
  Scope one(at, false);
  one.set_lanes(-1, 1, exists);
  one.set_axis(factor.axis, within(x, factor.count));
  one.set_axis(block_.batch_rank + 2, within(k, depth_));
  Value* v = emit_body(one, *factor.body).back().v;
  one.seek();
  if (factor.type != type) v = emit_cast(k_, ir::Op::cast, v, factor.type, type);
  ir_.CreateStore(ir_.CreateSelect(inside, v, fill), place);
  at.move_to(ir_.GetInsertBlock());
}

void ProductTile::finish(Value* sums, int stride) {
  scope_.seek();
  llvm::Type* word = ir_.getInt64Ty();
  const int m = block_.batch_rank, n = m + 1;
  emit_loop(scope_, thread_, ir_.getInt32(static_cast<uint32_t>(rows_ * columns_)),
            ir_.getInt32(static_cast<uint32_t>(threads_)), true, [&](Scope& round, Value* e) {
              auto count = [&](int c) { return ir_.getInt32(static_cast<uint32_t>(c)); };
              Value *row = ir_.CreateUDiv(e, count(columns_)),
                    *column = ir_.CreateURem(e, count(columns_));
              Value* place = ir_.CreateAdd(ir_.CreateMul(row, count(stride)), column);
              Value* i = ir_.CreateAdd(left_.first, ir_.CreateZExt(row, word));
              Value* j = ir_.CreateAdd(right_.first, ir_.CreateZExt(column, word));
              Value* exists = ir_.CreateAnd(ir_.CreateICmpSLT(i, left_.count),
                                            ir_.CreateICmpSLT(j, right_.count));
              emit_if(round, exists, [&](Scope& point) {
                point.set_axis(m, i);
                point.set_axis(n, j);
                llvm::Type* type = k_.type_of(block_.acc_type);
                Value* sum = ir_.CreateLoad(type, ir_.CreateGEP(type, sums, place));
                point.set_accumulator(0, {sum, false});
                emit_body(point, block_.epilogue);
              });
            });
}

}  // namespace hologram::cuda
