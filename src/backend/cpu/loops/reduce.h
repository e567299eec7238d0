// backend/cpu/loops/reduce.h: reductions of row stages, in the order that atlas::Reduction states.
#pragma once

#include <memory>

#include "backend/cpu/function.h"

namespace hologram::cpu {

/// How a stage's row elements arrive.
struct RowShape {
  int lanes = 1;           ///< elements of `varying` values
  bool along_row = false;  ///< lanes are consecutive row elements; else they are separate points
  bool alternate = false;  ///< in alternate lanes (Scope::set_alternate)
  bool stepwise = false;   ///< groups arrive in several steps of a loop; else written out
  int64_t group = 64;      ///< elements whose vectors have states of their own
  Expr total;              ///< row elements
};

/// Whether a sum, a product or an extremum is the same in every order of the elements, as
/// integers'.
inline bool in_any_order(const atlas::Reduction& r) {
  return !is_float(r.type) && ir::info(r.op).kind == ir::OpKind::reduce;
}

/// State of one reduction. Row elements arrive in row-major order: along the row as groups, a
/// vector at a time; otherwise one by one.
class Reducer {
 public:
  virtual ~Reducer() = default;
  /// Along the row: vector number `copy` from element `position` (i64) on, where a group begins or
  /// a step; lanes outside `mask` (may be null) do not exist. Otherwise the element at `position`.
  virtual void update(Scope& scope, int copy, LaneValue value, LaneValue reported, Value* position,
                      Value* mask) = 0;
  /// After each group, or element: `count` elements have arrived. May move the scope to another
  /// block.
  virtual void advance(Scope& scope, Value* count) = 0;
  /// The result, once `count` elements have arrived.
  virtual LaneValue finish(Scope& scope, Value* count) = 0;

  /// `scope` stands before the rows.
  static std::unique_ptr<Reducer> make(Scope& scope, const atlas::Reduction& r,
                                       const RowShape& shape);
};

/// A vector whose element l is l.
llvm::Constant* iota(llvm::Type* element, int lanes);

/// first, then second: halves of a vector combined until one element is left.
Value* fold_lanes(CpuFunction& k, Value* v, const std::function<Value*(Value*, Value*)>& op);

}  // namespace hologram::cpu
