// backend/cuda/attention_grad/share.cpp: CTAs that have keys beside those that have queries.
#include "backend/cuda/attention_grad/share.h"

#include "codegen/nest.h"

namespace hologram::cuda {

void emit_shares(CudaFunction& k, const AttentionGradPlan& plan, int threads, Value* numbers,
                 const std::function<void(GradTile&)>& work) {
  Scope& root = k.root();
  root.seek();
  Value* unit = k.ir.CreateZExt(k.cta(), k.ir.getInt64Ty());
  Value* keys = emit_expr(root, plan.key_units).v;
  root.seek();
  auto emit = [&](GradShare share, Value* when, Value* own) {
    emit_if(root, when, [&](Scope& at) {
      GradTile tile(k, plan, threads, at, own, share, numbers);
      work(tile);
      at.move_to(k.ir.GetInsertBlock());
    });
    root.seek();
  };
  if (plan.query_units.is(0)) {
    emit(GradShare::keys, k.ir.getTrue(), unit);
  } else if (plan.key_units.is(0)) {
    emit(GradShare::queries, k.ir.getTrue(), unit);
  } else {
    Value* has_keys = k.ir.CreateICmpSLT(unit, keys);
    emit(GradShare::keys, has_keys, unit);
    emit(GradShare::queries, k.ir.CreateNot(has_keys), k.ir.CreateSub(unit, keys));
  }
  k.finish();
}

}  // namespace hologram::cuda
