// backend/cuda/attention_grad/emit.cpp: which kernel gradients of attention get.
#include "backend/cuda/attention_grad/emit.h"

#include "atlas/empty.h"
#include "backend/cuda/attention_grad/chain.h"
#include "backend/cuda/attention_grad/tensor.h"

namespace hologram::cuda {

std::optional<std::string> unrendered_attention_grad(const atlas::AttentionGradBlock& block) {
  const DType type = compute_type(block.operand_type);
  if (type != DType::f32 && type != DType::f64) return "gradients of attention of these types";
  return std::nullopt;
}

Facts emit_attention_grad_block(llvm::Module& module, const atlas::Program& program) {
  Facts facts;
  if (atlas::is_empty(program)) {
    CudaFunction k(module, program, facts.threads);
    k.finish();
    return facts;
  }
  const AttentionGradPlan plan = plan_attention_grad(program);
  facts.threads = plan.tensor_cores ? tensor_grad_threads : chain_grad_threads;
  facts.points = 1;
  facts.total = plan.key_units + plan.query_units;
  CudaFunction k(module, program, facts.threads);
  plan.tensor_cores ? emit_tensor_grad(k, plan) : emit_chain_grad(k, plan);
  facts.flags = k.flags();
  return facts;
}

}  // namespace hologram::cuda
