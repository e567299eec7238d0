// base/expr_parts.h: what the files of integer expressions share
#pragma once

#include "base/expr.h"

namespace hologram::expr_parts {

inline int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

inline int64_t wrapping_sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

/// Rounded down; 0 where b is 0.
inline int64_t floor_div_value(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return wrapping_sub(0, a);
  int64_t q = a / b;
  return q * b != a && ((a < 0) != (b < 0)) ? q - 1 : q;
}

/// An atom of that kind. `a` and `b` are its operands; of an axis, a value and a bounded atom `a`
/// is the extent.
AtomRef make_atom(Atom::Kind kind, int id, const Expr* a, const Expr* b);
inline Expr atom_expr(AtomRef atom) { return Expr::from_terms(0, {Term{1, {std::move(atom)}}}); }

/// Total order on expressions by content; 0 when equal.
int compare_exprs(const Expr& x, const Expr& y);

}  // namespace hologram::expr_parts
