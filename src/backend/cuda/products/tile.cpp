// backend/cuda/products/tile.cpp: a CTA's tile of a product: its place, its factors, its results.
#include "backend/cuda/products/tile.h"

#include "backend/cuda/loops/points.h"
#include "codegen/index.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

const Expr& extent(const atlas::ProductBlock& block, int axis) {
  return block.axes[static_cast<size_t>(axis)].extent;
}

}  // namespace

Expr ProductTile::tiles(const atlas::ProductBlock& block, int rows, int columns) {
  Expr all(1);
  for (int a = 0; a < block.batch_rank; ++a) all *= max(extent(block, a), Expr(0));
  return all * ceil_div(max(extent(block, block.batch_rank), Expr(0)), Expr(rows)) *
         ceil_div(max(extent(block, block.batch_rank + 1), Expr(0)), Expr(columns));
}

ProductTile::ProductTile(CudaFunction& k, int rows, int columns, int threads)
    : Operands(k, threads),
      k_(k),
      ir_(k.ir),
      block_(k.program.product()),
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
           depth,
           block_.operand_type,
           ir_.CreateMul(row, k.i64(rows)),
           value(extent(block_, m)),
           nullptr,
           runs_along(block_.lhs, m, depth)};
  right_ = {&block_.rhs,
            n,
            depth,
            block_.rhs_type(),
            ir_.CreateMul(column, k.i64(columns)),
            value(extent(block_, n)),
            nullptr,
            runs_along(block_.rhs, n, depth)};
  left_.depth = right_.depth = value(extent(block_, depth));
}

void ProductTile::finish(Value* sums, int stride, int rows,
                         const std::function<Value*(Value*)>& row_of, const Mend& mend) {
  scope_.seek();
  llvm::Type* word = ir_.getInt64Ty();
  const int m = block_.batch_rank, n = m + 1;
  emit_loop(scope_, thread_, ir_.getInt32(static_cast<uint32_t>(rows * columns_)),
            ir_.getInt32(static_cast<uint32_t>(threads_)), true, [&](Scope& round, Value* e) {
              auto count = [&](int c) { return ir_.getInt32(static_cast<uint32_t>(c)); };
              Value *row = ir_.CreateUDiv(e, count(columns_)),
                    *column = ir_.CreateURem(e, count(columns_));
              Value* place = ir_.CreateAdd(ir_.CreateMul(row, count(stride)), column);
              Value* i = ir_.CreateAdd(left_.first, ir_.CreateZExt(row_of(row), word));
              Value* j = ir_.CreateAdd(right_.first, ir_.CreateZExt(column, word));
              Value* exists = ir_.CreateAnd(ir_.CreateICmpSLT(i, left_.count),
                                            ir_.CreateICmpSLT(j, right_.count));
              emit_if(round, exists, [&](Scope& point) {
                point.set_axis(m, i);
                point.set_axis(n, j);
                llvm::Type* type = k_.type_of(block_.acc_type);
                Value* sum = ir_.CreateLoad(type, ir_.CreateGEP(type, sums, place));
                if (mend) sum = mend(point, sum);
                point.set_accumulator(0, {sum, false});
                emit_body(point, block_.epilogue);
              });
            });
}

Facts emit_tiles(llvm::Module& module, const atlas::Program& program, int threads, int rows,
                 int columns, const std::function<void(CudaFunction&)>& fill) {
  Facts facts;
  facts.threads = threads;
  facts.points = 1;
  facts.total = ProductTile::tiles(program.product(), rows, columns);
  CudaFunction k(module, program, threads);
  fill(k);
  k.root().move_to(k.ir.GetInsertBlock());
  k.root().seek();
  k.finish();
  facts.flags = k.flags();
  return facts;
}

}  // namespace hologram::cuda
