// canon/movement.h: helpers for rules on shapes.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace hologram::canon {

/// The axes whose dimension is not 1.
inline std::vector<size_t> wide_axes(const Shape& s) {
  std::vector<size_t> out;
  for (size_t i = 0; i < s.size(); ++i)
    if (!s[i].is(1)) out.push_back(i);
  return out;
}

/// True if the shapes differ only in where dimensions of 1 stand, so that a reshape between them
/// renames axes.
inline bool same_but_for_ones(const Shape& a, const Shape& b) {
  std::vector<size_t> x = wide_axes(a), y = wide_axes(b);
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); ++i)
    if (a[x[i]] != b[y[i]]) return false;
  return true;
}

/// No dimension can be 0.
inline bool never_empty(const Shape& s) {
  for (const Expr& d : s)
    if (!provably_nonnegative(d - Expr(1))) return false;
  return true;
}

}  // namespace hologram::canon
