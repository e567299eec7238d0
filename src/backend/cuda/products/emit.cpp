// backend/cuda/products/emit.cpp: which kernel a product gets.
#include "backend/cuda/products/emit.h"

#include "atlas/empty.h"
#include "backend/cuda/products/chain.h"
#include "backend/cuda/products/skinny.h"
#include "backend/cuda/products/tensor.h"
#include "backend/cuda/products/terms.h"
#include "backend/cuda/products/thin.h"
#include "backend/cuda/products/wide.h"

namespace hologram::cuda {

std::optional<std::string> unrendered_product(const atlas::ProductBlock& block) {
  if (auto why = gpu::unrendered_form(block)) return why;
  if (compute_type(block.acc_type) != block.acc_type || block.acc_type == DType::b8 ||
      block.acc_type == DType::host)
    return "products of these types";
  return std::nullopt;
}

Facts emit_product_block(llvm::Module& module, const atlas::Program& program) {
  if (!atlas::is_empty(program)) {
    const atlas::ProductBlock& block = program.product();
    const bool terms = suits_terms(block), cores = terms || suits_tensor_cores(block);
    const bool floats = cores && is_float(block.operand_type);
    if (floats && is_skinny(block)) return emit_skinny_product(module, program);
    if (floats && is_thin(block)) return emit_thin_product(module, program);
    if (!cores) return emit_chains(module, program);
    Facts facts = terms ? emit_terms(module, program) : emit_tensor_product(module, program);
    if (floats && may_be_thin(block)) add_thin_product(facts, module, program);
    if (capability_of(module) == 90 && has_wide_product(program))
      add_wide_product(facts, module, program);
    return facts;
  }
  Facts facts;
  CudaFunction k(module, program, facts.threads);
  k.finish();
  return facts;
}

}  // namespace hologram::cuda
