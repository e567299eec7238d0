// backend/cpu/products/panels.h: what the planner asks about packed operands. No LLVM in here.
#pragma once

#include "atlas/program.h"
#include "backend/cpu/target.h"

namespace hologram::cpu {

/// How many bfloat16 terms per number a product of these operands and extents is to use on this
/// target: ProductBlock::terms. 0: none. `packed_once`: its right operand keeps its content.
int terms_for(const Target& target, const atlas::ProductBlock& product, bool packed_once);

/// Whether a product of bytes whose right operand is new in each call is worth a kernel that packs
/// it for tiles.
bool packs_given_bytes(const Target& target, const atlas::ProductBlock& product);

/// Machine::word_columns.
int word_columns(const Target& target, const atlas::ProductBlock& product, int bits);

/// Columns per packed panel of a product's right operand on this target.
int panel_width(const Target& target, DType operand_type);
/// Values of k that lie side by side in such a panel.
int panel_group(const Target& target, DType operand_type, DType acc_type);

}  // namespace hologram::cpu
