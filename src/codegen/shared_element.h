// codegen/shared_element.h: indices of which neighbouring lanes share an element. No LLVM in here.
#pragma once

#include <optional>

#include "base/expr.h"

namespace hologram::codegen {

/// An index of which neighbouring lanes share an element: step * (lane coordinate / group) + rest.
struct SharedElement {
  int64_t step, group;
  Expr rest;  ///< a multiple of `step` but for its constant
};
/// nullopt unless `index` has that form and no values in it. Vectors whose first lane's coordinate
/// is a multiple of their length then need neighbours in memory alone, from a multiple of `step`
/// on.
std::optional<SharedElement> shared_element(const Expr& index, int lane_axis);

}  // namespace hologram::codegen
