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

bool lies_along(const atlas::Body& body, int axis) {
  for (const atlas::Instr& i : body.instrs) {
    if (i.code != atlas::Code::load || !i.expr.has_axis(axis)) continue;
    const auto along = i.expr.linear_in_axis(axis);
    return along && along->first.is(1);
  }
  return false;
}

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
    Value* inside = ir_.CreateICmpSLT(depth_at, depth_);
    Value* v =
        element(at, factor, ir_.CreateAdd(factor.first, ir_.CreateZExt(x, word)), depth_at, inside);
    if (factor.type != type) v = emit_cast(k_, ir::Op::cast, v, factor.type, type);
    ir_.CreateStore(ir_.CreateSelect(inside, v, fill), place);
  }
}

// The element, or another one where there is none; the builder stays where it was made.
Value* ProductTile::element(Scope& at, const Factor& factor, Value* x, Value* k, Value* inside) {
  Value* exists = ir_.CreateAnd(inside, ir_.CreateICmpSLT(x, factor.count));
  Scope one(at, false);
  one.set_lanes(-1, 1, exists);
  one.set_axis(factor.axis, within(x, factor.count));
  one.set_axis(block_.batch_rank + 2, within(k, depth_));
  Value* v = emit_body(one, *factor.body).back().v;
  one.seek();
  at.move_to(ir_.GetInsertBlock());
  return v;
}

// The coordinate, or the last one there is.
Value* ProductTile::within(Value* v, Value* count) {
  return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, ir_.CreateSub(count, k_.i64(1)));
}

std::vector<ProductTile::Piece> ProductTile::fetch(Scope& at, const Factor& factor, Value* k,
                                                   int count, int depth, int stride) {
  const bool deep = factor.depth_run;
  const auto inner = static_cast<uint32_t>((deep ? depth : count) / lanes);
  std::vector<Piece> out;
  for (int number = 0; number < count * depth / lanes; number += threads_) {
    at.seek();
    Value* e = ir_.CreateAdd(thread_, ir_.getInt32(static_cast<uint32_t>(number)));
    Value* run = ir_.CreateMul(ir_.CreateURem(e, ir_.getInt32(inner)), ir_.getInt32(lanes));
    Value* row = ir_.CreateUDiv(e, ir_.getInt32(inner));
    Value* place =
        ir_.CreateAdd(ir_.CreateMul(row, ir_.getInt32(static_cast<uint32_t>(stride))), run);
    llvm::Type* word = ir_.getInt64Ty();
    Value* x = ir_.CreateAdd(factor.first, ir_.CreateZExt(deep ? row : run, word));
    Value* depth_at = ir_.CreateAdd(k, ir_.CreateZExt(deep ? run : row, word));
    out.push_back({eight(at, factor, x, depth_at), place});
  }
  return out;
}

// One vector where the eight elements' run exists; the other coordinate may be taken for another.
Value* ProductTile::eight(Scope& at, const Factor& factor, Value* x, Value* k) {
  const int depth_axis = block_.batch_rank + 2;
  const bool deep = factor.depth_run;
  Value* end = ir_.CreateAdd(deep ? k : x, k_.i64(lanes));
  Value* whole = ir_.CreateICmpSLE(end, deep ? depth_ : factor.count);
  Value* inside = ir_.CreateICmpSLT(k, depth_);
  llvm::BasicBlock *wide = k_.block("wide"), *narrow = k_.block("narrow"), *on = k_.block("on");
  ir_.CreateCondBr(whole, wide, narrow);
  ir_.SetInsertPoint(wide);
  Value *vector, *element;
  {
    Scope all(at, true);
    all.set_axis(factor.axis, deep ? within(x, factor.count) : x);
    all.set_axis(depth_axis, deep ? k : within(k, depth_));
    all.set_lanes(deep ? depth_axis : factor.axis, lanes);
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

Value* ProductTile::one_by_one(Scope& at, const Factor& factor, Value* x, Value* k) {
  const bool deep = factor.depth_run;
  auto* type = llvm::FixedVectorType::get(ir_.getInt16Ty(), lanes);
  std::vector<int> down;
  for (int n = 1; n <= lanes; ++n) down.push_back(n % lanes);
  auto add = [&](Scope& round, Value* n, const std::vector<Value*>& now) -> std::vector<Value*> {
    Value *at_x = deep ? x : ir_.CreateAdd(x, n), *at_k = deep ? ir_.CreateAdd(k, n) : k;
    Value* inside = ir_.CreateICmpSLT(at_k, depth_);
    Value* v = element(round, factor, at_x, at_k, inside);
    v = ir_.CreateSelect(inside, v, llvm::Constant::getNullValue(v->getType()));
    return {ir_.CreateInsertElement(ir_.CreateShuffleVector(now[0], down), v, uint64_t{lanes - 1})};
  };
  return emit_loop(at, k_.i64(0), k_.i64(lanes), k_.i64(1), true,
                   {llvm::Constant::getNullValue(type)}, add)[0];
}

void ProductTile::finish(Value* sums, int stride, int rows,
                         const std::function<Value*(Value*)>& row_of) {
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
                point.set_accumulator(0, {sum, false});
                emit_body(point, block_.epilogue);
              });
            });
}

}  // namespace hologram::cuda
