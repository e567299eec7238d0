// backend/cpu/products/digits.h: rows of float32 times weights that are whole numbers of few bits.
#pragma once

#include "backend/cpu/function.h"
#include "backend/cpu/operands/nibbles.h"
#include "backend/cpu/products/factors.h"
#include "backend/cpu/products/plan.h"

namespace hologram::cpu {

/// The right operand of a product for instructions that multiply bytes. Axes behind the product's
/// own: blocks of columns and a column in its block, segments of k, words in a segment, k in a
/// segment.
struct DigitForm {
  atlas::Body whole;        ///< the operand by blocks of columns
  bool in_blocks;           ///< whether it knows them; else its axis of columns is as it was
  int64_t vectors[4] = {};  ///< where words of a unit's vectors of columns are behind the first's
  bool padded;              ///< whether the last block has bytes behind the last column
  Factors factors;          ///< of a segment
  WholeNumber number;       ///< what the value of a byte is
  atlas::Body until[4];     ///< what leads to byte j of a word, its load last
  std::vector<int> places;  ///< value i of a word is of k number * values + places[i]
};
std::optional<DigitForm> digit_form(const atlas::Program& program, const DigitProduct& plan);

void emit(CpuFunction& k, const DigitProduct& plan);

}  // namespace hologram::cpu
