// base/expr_range.h: bounds of expressions that are numbers.
#pragma once

#include <cstdint>
#include <optional>

#include "base/expr.h"

namespace hologram {

/// A number that `e` is not below, or (`upper`) not above, for every legal value of its axes; nothing
/// where symbols, or products of atoms, take a closer look.
std::optional<int64_t> number_bound(const Expr& e, bool upper);

}  // namespace hologram
