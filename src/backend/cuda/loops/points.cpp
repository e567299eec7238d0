// backend/cuda/loops/points.cpp: loops of points alone: a thread for each.
#include "backend/cuda/loops/points.h"

#include "codegen/index.h"
#include "codegen/nest.h"

namespace hologram::cuda {

void fix_axes(Scope& scope, std::span<const atlas::Axis> axes, int first, int last, Value* number) {
  CudaFunction& k = static_cast<CudaFunction&>(scope.function());
  Expr rest(1);  // how many numbers there are
  for (int a = first; a < last; ++a) rest *= axes[static_cast<size_t>(a)].extent;
  for (int a = last - 1; a > first; --a) {
    const Expr& extent = axes[static_cast<size_t>(a)].extent;
    Value* size = emit_expr(scope, extent).v;
    scope.seek();
    const Expr number_known = rest.is_const() ? Expr::axis(0, rest) : Expr::symbol(0);
    Value* q = emit_floor_div(k, number, size, number_known, extent);
    scope.set_axis(a, k.ir.CreateSub(number, k.ir.CreateMul(q, size)));
    number = q;
    if (rest.is_const()) rest = floor_div(rest, max(extent, Expr(1)));
  }
  if (last > first) scope.set_axis(first, number);
}

void emit_points(CudaFunction& k, Facts& facts) {
  auto& ir = k.ir;
  Value* first = ir.CreateMul(ir.CreateZExt(k.cta(), ir.getInt64Ty()), k.i64(facts.threads));
  Value* number = ir.CreateAdd(first, ir.CreateZExt(k.thread(), ir.getInt64Ty()));
  const atlas::LoopBlock& block = k.program.loop();
  emit_if(k.root(), ir.CreateICmpSLT(number, k.total()), [&](Scope& point) {
    fix_axes(point, block.axes, 0, block.parallel_rank, number);
    for (const atlas::Stage& s : block.stages) emit_body(point, s.body);
  });
  k.root().seek();
  k.finish();
}

}  // namespace hologram::cuda
