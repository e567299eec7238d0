// backend/cuda/loops/scan.cpp: scans along a row: two blocks of 16 elements at a time.
#include "backend/cuda/loops/scan.h"

#include "atlas/order.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

using ir::Op;

DType carried_in(Op op, DType type) {
  const bool wide = type == DType::f32 && (op == Op::reduce_sum || op == Op::reduce_prod);
  return wide ? DType::f64 : type;
}

}  // namespace

void emit_scan(Scope& point, Team& team, const atlas::Stage& stage, int first, Value* count,
               const std::function<void(Scope&, Value*)>& fix) {
  auto& k = static_cast<CudaFunction&>(point.function());
  auto& ir = k.ir;
  static_assert(2 * atlas::scan_block == 32);
  auto round_of = [&](const atlas::Instr& i, Value* x, Value*& carry) {
    const DType type = i.type, wide = carried_in(i.op, type);
    for (int64_t s = 1; s < atlas::scan_block; s *= 2) {
      Value* there = ir.CreateSub(ir.CreateAnd(team.rank(), k.i64(-s)), k.i64(1));
      Value* other = team.from(x, ir.CreateAnd(there, k.i64(31)));
      Value* upper = ir.CreateICmpNE(ir.CreateAnd(team.rank(), k.i64(s)), k.i64(0));
      x = ir.CreateSelect(upper, combine(k, i.op, type, other, x), x);
    }
    auto add = [&](int64_t lane) {
      Value* last = emit_cast(k, Op::cast, team.from(x, k.i64(lane)), type, wide);
      return combine(k, i.op, wide, carry, last);
    };
    Value* middle = add(atlas::scan_block - 1);
    Value* end = middle;
    Value* lower = ir.CreateICmpSLT(team.rank(), k.i64(atlas::scan_block));
    Value* before = ir.CreateSelect(lower, carry, middle);
    carry = middle;
    end = add(2 * atlas::scan_block - 1);
    carry = end;
    return combine(k, i.op, type, emit_cast(k, Op::cast, before, wide, type), x);
  };
  std::vector<Value*> carries;
  for (const auto& [op, type] : stage.running)
    carries.push_back(k.identity(op, carried_in(op, type)));
  emit_loop(point, k.i64(0), count, k.i64(32), false, carries,
            [&](Scope& scope, Value* begin, std::vector<Value*> now) {
              scope.seek();
              Value* row = ir.CreateAdd(begin, team.rank());
              Value* last = ir.CreateSub(count, k.i64(1));
              scope.set_lanes(-1, 1, ir.CreateICmpSLT(row, count));
              fix(scope, ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, row, last));
              scope.set_accumulate([&](const atlas::Instr& i, LaneValue x) -> LaneValue {
                return {round_of(i, x.v, now[static_cast<size_t>(i.buffer - first)]), false};
              });
              emit_body(scope, stage.body);
              return now;
            });
}

}  // namespace hologram::cuda
