// backend/cpu/products/panels.cpp: the form of packed operands.
#include "backend/cpu/products/panels.h"

#include "backend/cpu/products/plan.h"

namespace hologram::cpu {

int panel_width(const Target& target, DType operand_type) {
  return tile_model(target, compute_type(operand_type)).panel;
}

Dots dots_for(const Target& target, DType operand_type, DType acc_type) {
  if (target.bf16_dots && operand_type == DType::bf16 && acc_type == DType::f32) return Dots::bf16;
  bool bytes = operand_type == DType::i8 || operand_type == DType::u8;
  bool dots = target.i8_dots || target.isa == Isa::avx2;  // or four instructions in their place
  if (dots && bytes && acc_type == DType::i32) return Dots::bytes;
  return Dots::none;
}

int group_of(Dots dots) { return dots == Dots::none ? 1 : dots == Dots::bf16 ? 2 : 4; }

int panel_group(const Target& target, DType operand_type, DType acc_type) {
  return group_of(dots_for(target, operand_type, acc_type));
}

}  // namespace hologram::cpu
