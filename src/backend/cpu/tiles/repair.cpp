// backend/cpu/tiles/repair.cpp: the elements of a product of f32 terms that chains must give.
//
// Rows are classified while they are copied, columns by scanning a panel's first terms (two vectors
// per step of the six products). Only where a class is not the best one sums are looked at, and
// only those that fail become chains.
#include "backend/cpu/tiles/repair.h"

#include <array>

#include "backend/cpu/tiles/terms.h"
#include "codegen/nest.h"

namespace hologram::cpu {

TileRepair::TileRepair(CpuFunction& kernel, const TileProduct& plan, Value* n)
    : IndexBuilder(kernel),
      p_(kernel.program.product()),
      plan_(plan),
      t_(plan.tile),
      n_(n),
      part_(number(plan.part)),
      depth_(number(plan.k)),
      words_(k_.widen(k_.ir.getInt32Ty(), t_.lanes)),
      floats_(k_.lane_type(DType::f32, t_.lanes)),
      least_(k_.slot(k_.ir.getInt16Ty(), "columns_least", plan.block_panels * 64)),
      most_(k_.slot(k_.ir.getInt16Ty(), "columns_most", plan.block_panels * 64)),
      classes_(k_.slot(k_.ir.getInt32Ty(), "columns_classes", plan.block_panels * 32)) {
  k_.root().seek();
}

void TileRepair::scan(Scope& scope, Value* slot, Value* panel_memory, Value* steps, Value* first) {
  auto& ir = k_.ir;
  TileClasses classes{k_};
  llvm::Type* halves = k_.widen(ir.getInt16Ty(), 32);
  scope.seek();
  std::vector<Value*> start;
  std::array<Value*, 4> memory{};
  for (size_t v = 0; v < 4; ++v) {  // least and most of 16 columns, twice
    Value* at = add(mul(slot, 64), static_cast<int64_t>(v / 2) * 32);
    memory[v] = element(k_, DType::i16, v % 2 ? most_ : least_, at);
    start.push_back(ir.CreateSelect(first, llvm::Constant::getAllOnesValue(halves),
                                    ir.CreateAlignedLoad(halves, memory[v], llvm::Align(64))));
  }
  auto found = emit_loop(
      scope, k_.i64(0), steps, k_.i64(1), false, start,
      [&](Scope& s, Value* step, std::vector<Value*> so_far) {
        s.seek();
        Value* rows = ir.CreateInBoundsGEP(ir.getInt8Ty(), panel_memory,
                                           mul(step, int64_t{plan_.terms} * 2048));
        for (int64_t line = 0; line < 32; ++line) {
          Value* p = ir.CreateConstInBoundsGEP1_64(ir.getInt8Ty(), rows, 64 * line);
          auto v = static_cast<size_t>(line % 2) * 2;
          classes.fold(ir.CreateAlignedLoad(halves, p, llvm::Align(4)), so_far[v], so_far[v + 1]);
        }
        return so_far;
      });
  scope.seek();
  for (size_t v = 0; v < 4; ++v) ir.CreateAlignedStore(found[v], memory[v], llvm::Align(64));
  for (size_t half = 0; half < 2; ++half) {  // even and odd k of a column lie in one word
    Value* least = ir.CreateBitCast(found[2 * half], words_);
    Value* most = ir.CreateBitCast(found[2 * half + 1], words_);
    least = ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, ir.CreateLShr(least, 16),
                                     ir.CreateAnd(least, llvm::ConstantInt::get(words_, 0xffff)));
    most = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, ir.CreateAShr(most, 16),
                                    ir.CreateAShr(ir.CreateShl(most, 16), 16));
    Value* at = element(k_, DType::i32, classes_,
                        add(mul(slot, 32), static_cast<int64_t>(half) * t_.lanes));
    ir.CreateAlignedStore(classes.of(least, most), at, llvm::Align(64));
  }
}

void TileRepair::repair(Scope& scope, Value* slot, Value* panel, Value* m, Value* count,
                        Value* row_classes, Value* sums) {
  scope.seek();
  emit_loop(scope, k_.i64(0), count, k_.i64(1), true, [&](Scope& s, Value* r) {
    s.seek();
    s.set_axis(p_.batch_rank, add(m, r));
    Value* row_class =
        k_.ir.CreateLoad(k_.ir.getInt32Ty(), element(k_, DType::i32, row_classes, r));
    row(s, slot, panel, row_class, element(k_, DType::f32, sums, mul(r, t_.panel)));
  });
}

void TileRepair::row(Scope& scope, Value* slot, Value* panel, Value* row_class, Value* sums) {
  auto& ir = k_.ir;
  emit_loop(scope, k_.i64(0), k_.i64(t_.panel), k_.i64(t_.lanes), true, [&](Scope& s, Value* c) {
    s.seek();
    Value* at = element(k_, DType::i32, classes_, add(mul(slot, 32), c));
    Value* both = ir.CreateBinaryIntrinsic(
        llvm::Intrinsic::umin, ir.CreateAlignedLoad(words_, at, llvm::Align(64)),
        ir.CreateVectorSplat(static_cast<unsigned>(t_.lanes), row_class));
    Value* out = element(k_, DType::f32, sums, c);
    Value* sum = ir.CreateAlignedLoad(floats_, out, llvm::Align(64));
    Value* bad = TileClasses{k_}.refused(both, sum);
    Value *column = add(mul(panel, t_.panel), c), *end = n_;
    if (plan_.parts > 1) {
      Value* block = div(panel, k_.i64(plan_.parts));
      Value* begin = mul(sub(panel, mul(block, plan_.parts)), part_);
      column = add(begin, add(mul(block, t_.panel), c));
      end = add(begin, part_);
    }
    Value* exists = lane_mask(k_, sub(end, column), t_.lanes);
    bad = ir.CreateAnd(bad, exists);
    emit_if(s, ir.CreateOrReduce(bad), [&](Scope& inner) {
      Value* exact = chain(inner, column, exists);
      inner.seek();
      ir.CreateAlignedStore(ir.CreateSelect(bad, exact, sum), out, llvm::Align(64));
    });
  });
}

// The multiply-add chains of one row and a vector of columns, whose row `scope` fixes.
Value* TileRepair::chain(Scope& scope, Value* column, Value* mask) {
  int n_axis = p_.batch_rank + 1, k_axis = n_axis + 1;
  auto& ir = k_.ir;
  scope.seek();
  Value* zero = llvm::ConstantFP::getZero(floats_, true);  // -0: x + it is x
  return emit_loop(
      scope, k_.i64(0), depth_, k_.i64(atlas::product_block), false, {zero},
      [&](Scope& block, Value* begin, std::vector<Value*> total) -> std::vector<Value*> {
        block.seek();
        Value* end = least(add(begin, atlas::product_block), depth_);
        Value* start = llvm::ConstantFP::getZero(floats_);
        Value* sum =
            emit_loop(block, begin, end, k_.i64(1), true, {start},
                      [&](Scope& s, Value* k, std::vector<Value*> so_far) -> std::vector<Value*> {
                        s.set_axis(k_axis, k);
                        Scope left(s, false), right(s, false);
                        Value* x = splat(k_, emit_body(left, p_.lhs).back(), t_.lanes);
                        s.seek();
                        right.set_axis(n_axis, column);
                        right.set_lanes(n_axis, t_.lanes, mask);
                        Value* y = splat(k_, emit_body(right, p_.rhs).back(), t_.lanes);
                        s.seek();
                        return {multiply_add(k_, DType::f32, x, y, so_far[0])};
                      })[0];
        block.seek();
        return {ir.CreateFAdd(total[0], sum)};
      })[0];
}

}  // namespace hologram::cpu
