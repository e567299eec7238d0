// backend/cuda/products/tile.cpp: a CTA's tile of a product: its place, its factors, its results.
#include "backend/cuda/products/tile.h"

#include "backend/cuda/loops/points.h"
#include "backend/cuda/parts.h"
#include "backend/cuda/products/mend.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

const Expr& extent(const atlas::ProductBlock& block, int axis) {
  return block.axes[static_cast<size_t>(axis)].extent;
}

}  // namespace

ProductTile::ProductTile(CudaFunction& k, const Tiling& tiling, bool merging)
    : Operands(k, tiling.threads),
      k_(k),
      ir_(k.ir),
      block_(k.program.product()),
      tiling_(tiling),
      scope_(k.root(), false) {
  const int m = block_.batch_rank, n = m + 1, depth = m + 2;
  auto value = [&](const Expr& e) {
    Value* v = emit_expr(scope_, e).v;
    scope_.seek();
    return v;
  };
  scope_.seek();
  Value *cta = k.cta(), *part = nullptr;
  if (merging) {
    share_ = ir_.CreateURem(cta, number(tiling.merges()));
    cta = ir_.CreateUDiv(cta, number(tiling.merges()));
  } else if (!tiling.parts(block_).is(0)) {
    Value* parts = ir_.CreateTrunc(k.teams(), ir_.getInt32Ty());
    part = wide(ir_.CreateURem(cta, parts));
    cta = ir_.CreateUDiv(cta, parts);
  }
  Value* rest = tile_ = wide(cta);
  Value* column = take_last(scope_, rest, ceil_div(extent(block_, n), Expr(tiling.columns)));
  Value* row = take_last(scope_, rest, ceil_div(extent(block_, m), Expr(tiling.rows)));
  fix_axes(scope_, block_.axes, 0, block_.batch_rank, rest);
  scope_.seek();
  thread_ = k.thread();
  left_ = {&block_.lhs,
           m,
           depth,
           block_.operand_type,
           ir_.CreateMul(row, k.i64(tiling.rows)),
           value(extent(block_, m)),
           nullptr,
           runs_along(block_.lhs, m, depth)};
  right_ = {&block_.rhs,
            n,
            depth,
            block_.rhs_type(),
            ir_.CreateMul(column, k.i64(tiling.columns)),
            value(extent(block_, n)),
            nullptr,
            runs_along(block_.rhs, n, depth)};
  left_.depth = right_.depth = value(extent(block_, depth));
  begin_ = k.i64(0);
  end_ = left_.depth;
  if (!part) return;
  alone_ = ir_.CreateICmpEQ(k.teams(), k.i64(1));
  Value* unit = k.i64(tiling.unit);
  Value* units = ir_.CreateSDiv(ir_.CreateAdd(left_.depth, k.i64(tiling.unit - 1)), unit);
  auto cut = [&](Value* before) {
    return ir_.CreateMul(ir_.CreateUDiv(ir_.CreateMul(before, units), k.teams()), unit);
  };
  begin_ = cut(part);
  end_ = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left_.depth,
                                   cut(ir_.CreateAdd(part, k.i64(1))));
}

Value* ProductTile::exists(Value* row, Value* column) {
  Value* i = ir_.CreateAdd(left_.first, wide(row));
  Value* j = ir_.CreateAdd(right_.first, wide(column));
  return ir_.CreateAnd(ir_.CreateICmpSLT(i, left_.count), ir_.CreateICmpSLT(j, right_.count));
}

void ProductTile::run_epilogue(Scope& point, Value* row, Value* column, Value* sum) {
  point.set_axis(block_.batch_rank, ir_.CreateAdd(left_.first, wide(row)));
  point.set_axis(block_.batch_rank + 1, ir_.CreateAdd(right_.first, wide(column)));
  point.move_to(ir_.GetInsertBlock());
  if (tiling_.mends) sum = mend_sum(k_, point, sum, depth());
  point.set_accumulator(0, {sum, false});
  emit_body(point, block_.epilogue);
}

// Where part number `team` (i64) leaves an element's sum.
Value* ProductTile::place_in_part(Value* team, Value* row, Value* column) {
  Value* n = ir_.CreateAdd(ir_.CreateMul(row, number(tiling_.columns)), column);
  return ir_.CreateGEP(k_.type_of(block_.acc_type), k_.workspace(team), n);
}

void ProductTile::finish_element(Scope& at, Value* row, Value* column, Value* has,
                                 const std::function<Value*()>& sum) {
  has = ir_.CreateAnd(has, exists(row, column));
  emit_if(at, alone_ ? ir_.CreateAnd(has, alone_) : has, [&](Scope& point) {
    point.seek();
    run_epilogue(point, row, column, sum());
  });
  if (!alone_) return;
  at.seek();
  emit_if(at, ir_.CreateAnd(has, ir_.CreateNot(alone_)), [&](Scope& point) {
    point.seek();
    ir_.CreateStore(sum(), place_in_part(wide(k_.cta()), row, column));
  });
}

void ProductTile::finish(Value* sums, int stride, int rows,
                         const std::function<Value*(Value*)>& row_of) {
  scope_.seek();
  llvm::Type* type = k_.type_of(block_.acc_type);
  emit_loop(scope_, thread_, number(rows * tiling_.columns), number(tiling_.threads), true,
            [&](Scope& round, Value* e) {
              Value *row = ir_.CreateUDiv(e, number(tiling_.columns)),
                    *column = ir_.CreateURem(e, number(tiling_.columns));
              Value* place = ir_.CreateAdd(ir_.CreateMul(row, number(stride)), column);
              finish_element(round, row_of(row), column, ir_.getTrue(), [&] {
                return ir_.CreateLoad(type, ir_.CreateGEP(type, sums, place));
              });
            });
}

void ProductTile::merge() {
  scope_.seek();
  const int count = (tiling_.elements() + tiling_.merges() - 1) / tiling_.merges();
  llvm::Type* type = k_.type_of(block_.acc_type);
  Value* parts = ir_.CreateTrunc(k_.teams(), ir_.getInt32Ty());
  Value* first = ir_.CreateMul(share_, number(count));
  Value* team = ir_.CreateMul(tile_, k_.teams());
  emit_loop(
      scope_, thread_, number(count), number(merge_threads), false, [&](Scope& round, Value* e) {
        round.seek();
        e = ir_.CreateAdd(first, e);
        Value *row = ir_.CreateUDiv(e, number(tiling_.columns)),
              *column = ir_.CreateURem(e, number(tiling_.columns));
        Value* has =
            ir_.CreateAnd(ir_.CreateICmpULT(e, number(tiling_.elements())), exists(row, column));
        emit_if(round, has, [&](Scope& point) {
          point.seek();
          Value* sum = add_parts(
              k_, parts, llvm::Constant::getNullValue(type),
              [&](Value* part) {
                Value* own = ir_.CreateAdd(team, wide(part));
                return ir_.CreateLoad(type, place_in_part(own, row, column));
              },
              [&](Value*, Value* value, Value* total) {
                return emit_arithmetic(k_, ir::Op::add, block_.acc_type, std::array{total, value});
              });
          run_epilogue(point, row, column, sum);
        });
      });
}

namespace {

void finish_kernel(Facts& facts, CudaFunction& k) {
  k.root().move_to(k.ir.GetInsertBlock());
  k.root().seek();
  k.finish();
  facts.flags = facts.flags || k.flags();
}

}  // namespace

void add_merge(Facts& facts, llvm::Module& module, const atlas::Program& program,
               const Tiling& tiling, const char* name) {
  CudaFunction merge(module, program, merge_threads, name);
  ProductTile(merge, tiling, true).merge();
  finish_kernel(facts, merge);
}

Facts emit_tiles(llvm::Module& module, const atlas::Program& program, const Tiling& tiling,
                 const std::function<void(CudaFunction&)>& fill, const TileNames& names) {
  const atlas::ProductBlock& block = program.product();
  Facts facts;
  facts.threads = tiling.threads;
  facts.points = 1;
  facts.total = tiling.tiles(block);
  CudaFunction k(module, program, tiling.threads, names.kernel);
  fill(k);
  finish_kernel(facts, k);
  const Expr parts = tiling.parts(block);
  if (parts.is(0)) return facts;
  facts.parts = parts;
  facts.merges = tiling.merges();
  facts.team_bytes = Expr(tiling.part_bytes(block));
  add_merge(facts, module, program, tiling, names.merge);
  return facts;
}

}  // namespace hologram::cuda
