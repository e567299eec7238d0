// backend/cuda/loops/counter.cpp: results of blocks combined as a binary counter does.
#include "backend/cuda/loops/counter.h"

#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

constexpr int levels = 32;  // 2^32 blocks

}  // namespace

Counter::Counter(CudaFunction& k, Team& team, ir::Op op, DType type)
    : k_(k), team_(team), op_(op), type_(type), kept_(k.type_of(type)) {
  if (team.mapping() != Mapping::team) memory_ = k.slot(k.memory_type(type), "counter", levels);
}

Value* Counter::initial() const { return k_.identity(op_, type_); }

Value* Counter::place(Value* level) {
  return k_.ir.CreateGEP(k_.memory_type(type_), memory_, level);
}

Value* Counter::get(Value* carried, Value* level) {
  if (!memory_) return team_.from(carried, level);
  Value* x = k_.ir.CreateLoad(k_.memory_type(type_), place(level));
  return type_ == DType::b8 ? k_.ir.CreateTrunc(x, kept_) : x;
}

Value* Counter::push(Scope& scope, Value* carried, Value* count, Value* sum, Value* level) {
  auto& ir = k_.ir;
  scope.seek();
  Value* above = ir.CreateNot(ir.CreateLShr(count, level));
  Value* full =
      ir.CreateIntrinsic(llvm::Intrinsic::cttz, {ir.getInt64Ty()}, {above, ir.getFalse()});
  Value* top = ir.CreateAdd(level, full);
  sum = emit_loop(scope, level, top, k_.i64(1), false, {sum},
                  [&](Scope& inner, Value* at, std::vector<Value*> now) -> std::vector<Value*> {
                    inner.seek();
                    return {combine(k_, op_, type_, get(carried, at), now[0])};
                  })[0];
  scope.seek();
  if (!memory_) return ir.CreateSelect(ir.CreateICmpEQ(team_.rank(), top), sum, carried);
  ir.CreateStore(type_ == DType::b8 ? ir.CreateZExt(sum, ir.getInt8Ty()) : sum, place(top));
  return carried;
}

Value* Counter::finish(Scope& scope, Value* carried, Value* count) {
  auto& ir = k_.ir;
  scope.seek();
  Value* sums = ir.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, count);
  auto step = [&](Scope& inner, Value* at, std::vector<Value*> now) -> std::vector<Value*> {
    inner.seek();
    Value* level =
        ir.CreateIntrinsic(llvm::Intrinsic::cttz, {ir.getInt64Ty()}, {now[1], ir.getFalse()});
    Value* x = get(carried, level);
    Value* sum =
        ir.CreateSelect(ir.CreateICmpEQ(at, k_.i64(0)), x, combine(k_, op_, type_, x, now[0]));
    return {sum, ir.CreateAnd(now[1], ir.CreateSub(now[1], k_.i64(1)))};
  };
  return emit_loop(scope, k_.i64(0), sums, k_.i64(1), false, {initial(), count}, step)[0];
}

}  // namespace hologram::cuda
