// atlas/blocks/attention.cpp: what holds for attention and its gradients.
#include "atlas/verifier.h"

namespace hologram::atlas {

void verify_block(const AttentionBlock& b, Verifier&) {
  require(is_float(b.operand_type), "attention: operands that are not floats");
}

void verify_block(const AttentionGradBlock& b, Verifier&) {
  require(is_float(b.operand_type), "attention_grad: operands that are not floats");
}

}  // namespace hologram::atlas
