// codegen/index.h: index expressions and addresses at a scope.
#pragma once

#include "codegen/body.h"

namespace hologram::codegen {

/// Emits index expressions, each part in the outermost scope in which it is fixed.
class IndexEmitter {
 public:
  /// `values` serves atoms v<k>; may be null when there are none. `base`: the lane axis stands for
  /// lane 0's coordinate, so that results are scalars.
  IndexEmitter(const std::vector<LaneValue>* values, bool base) : values_(values), base_(base) {}

  LaneValue emit(Scope& scope, const Expr& e);
  /// Address of element `e` of a buffer; only with `base`.
  Value* address(Scope& scope, int buffer, const Expr& e);
  /// Whether lanes see different values of `e`.
  bool varies(const Scope& scope, const Expr& e) const;
  /// The outermost scope, at most `scope`, in which everything that `e` reads is fixed.
  Scope& home(Scope& scope, const Expr& e) const;

 private:
  struct Split;
  Split split(Scope& home, const Expr& e) const;
  LaneValue sum(Scope& scope, const Expr& e);
  LaneValue product(Scope& scope, const Term& t);
  LaneValue atom(Scope& scope, const Atom& a);
  LaneValue linear(Scope& scope, const Expr& e);
  Value* divide(Scope& scope, const Atom& a, LaneValue x, LaneValue y, int lanes);
  int depth_of(const Scope& scope, const Expr& e) const;
  int depth_of(const Scope& scope, const Atom& a) const;

  const std::vector<LaneValue>* values_;
  bool base_;
};

/// floor(x / y), 0 where y is 0. `x_bound` and `y_bound` tell what is known of the operands.
Value* emit_floor_div(Function& k, Value* x, Value* y, const Expr& x_known, const Expr& y_known);

}  // namespace hologram::codegen
