// backend/cuda/attention/emit.cpp: which kernel attention gets.
#include "backend/cuda/attention/emit.h"

#include "atlas/empty.h"
#include "backend/cuda/attention/chain.h"
#include "backend/cuda/attention/merge.h"
#include "backend/cuda/attention/tensor.h"
#include "backend/cuda/attention/wide.h"

namespace hologram::cuda {

std::optional<std::string> unrendered_attention(const atlas::AttentionBlock& block) {
  const DType type = compute_type(block.operand_type);
  if (type != DType::f32 && type != DType::f64) return "attention of these types";
  return std::nullopt;
}

Facts emit_attention_block(llvm::Module& module, const atlas::Program& program) {
  Facts facts;
  if (atlas::is_empty(program)) {
    CudaFunction k(module, program, facts.threads);
    k.finish();
    return facts;
  }
  const AttentionPlan plan = plan_attention(program);
  const int threads = plan.tensor_cores ? tensor_attention_threads(plan) : chain_attention_threads;
  CudaFunction k(module, program, threads);
  if (!plan.tensor_cores) k.fit(1);  // else ptxas may hold it to 128 registers, and sums spill
  const bool wide = capability_of(module) == 90 && has_wide_attention(program);
  plan.tensor_cores ? emit_tensor_attention(k, plan) : emit_chain_attention(k, plan, wide);
  facts = facts_of(plan, threads);
  facts.flags = k.flags();
  if (wide) add_wide_attention(facts, module, program);
  if (plan.parts.is(0)) return facts;
  CudaFunction merge(module, program, merge_threads, merge_symbol);
  emit_merge(merge, plan);
  facts.flags = facts.flags || merge.flags();
  return facts;
}

}  // namespace hologram::cuda
