// ir/infer.h: dtype and shape rules of operations.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace hologram::ir {

struct Type {
  DType dtype;
  Shape shape;
};

/// The result type of a node with these fields, brought into normal form (`attrs`: defaults filled
/// in, axes of reductions and flips sorted, steps and flips along dimensions of 1 left out). Throws
/// Error(invalid_argument) naming the op, the operand and the expectation. Dimensions must agree
/// structurally; bounds and element counts that depend on symbols are refused only where they are
/// provably wrong.
Type infer(Op op, const std::vector<Value>& inputs, Attrs& attrs, std::optional<DType> dtype,
           const std::optional<Shape>& shape);

/// True if the arithmetic of `op` is defined on operands of type `t`.
bool accepts(Op op, DType t);

}  // namespace hologram::ir
