// schedule/lower/pieces.h: concatenations of what is cut from one tensor.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace hologram::schedule {

/// Part of a concatenation: from place `begin` on, element i of its axis is element slope * i +
/// first of the tensor that all parts are cut from.
struct Piece {
  int64_t begin, slope, first;
};
struct Pieces {
  ir::Value of;  ///< the tensor
  int64_t axis;
  int64_t size;  ///< of the axis in the concatenation
  std::vector<Piece> parts;
};

/// The parts of a concatenation of known sizes whose operands are cut from one tensor along its
/// axis and whole along the others, in either direction or of one element that is repeated.
std::optional<Pieces> pieces_of(ir::Value concat,
                                const std::function<bool(ir::Value)>& is_buffered);

/// Where the tensor has element i of the concatenation: a remainder, or lines that bend at each
/// part; nullopt if neither is.
std::optional<Expr> place_of(const Pieces& pieces, const Expr& i);

}  // namespace hologram::schedule
