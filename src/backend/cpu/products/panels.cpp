// backend/cpu/products/panels.cpp: the form of packed operands.
#include "backend/cpu/products/panels.h"

#include "backend/cpu/products/plan.h"

namespace hologram::cpu {

int panel_width(const Target& target, DType operand_type) {
  return tile_model(target, compute_type(operand_type)).panel;
}

namespace {

bool sums_bytes(DType operand_type, DType acc_type) {
  return (operand_type == DType::i8 || operand_type == DType::u8) && acc_type == DType::i32;
}

}  // namespace

Dots dots_for(const Target& target, DType operand_type, DType acc_type) {
  if (target.bf16_dots && operand_type == DType::bf16 && acc_type == DType::f32) return Dots::bf16;
  if (!sums_bytes(operand_type, acc_type)) return Dots::none;
  if (target.i8_dots) return Dots::bytes;
  return target.isa == Isa::avx2 && !target.tiles ? Dots::words : Dots::none;
}

int group_of(Dots dots) { return dots == Dots::none ? 1 : dots == Dots::bytes ? 4 : 2; }

int panel_group(const Target& target, DType operand_type, DType acc_type) {
  const Dots dots = target.tiles && sums_bytes(operand_type, acc_type)
                        ? Dots::bytes
                        : dots_for(target, operand_type, acc_type);
  return group_of(dots);
}

// What digits.cpp takes without dots of bytes: of three digits, more rows are as fast by narrow.cpp
// (Zen 3).
int word_columns(const Target& target, const atlas::ProductBlock& b, int bits) {
  const Expr& m = b.axes[static_cast<size_t>(b.batch_rank)].extent;
  const bool pairs = b.precision > 0;
  const int64_t most_rows = pairs ? 8 : 3;
  if (target.isa != Isa::avx2 || target.i8_dots || b.reproducible || b.mixed || !m.is_const() ||
      b.operand_type != DType::f32 || b.acc_type != DType::f32 ||
      !(bits == 4 || (bits == 8 && pairs)) || m.constant_value() > most_rows)
    return 0;
  return target.vector_bytes;
}

}  // namespace hologram::cpu
