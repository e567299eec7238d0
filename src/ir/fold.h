// ir/fold.h: constant folding and the identities of the op table, applied when a node is made.
#pragma once

#include <optional>

#include "ir/graph.h"
#include "ir/infer.h"

namespace hologram::ir {

/// The scalar e with op(x, e) = x for every x, bit for bit, if there is one (add on floats: -0).
std::optional<uint64_t> right_identity(Op op, DType t);

/// The scalar z with op(x, z) = z for every x, if there is one (never on floats but for or / and
/// like operations).
std::optional<uint64_t> right_zero(Op op, DType t);

/// What a reduction over nothing gives. Sums start from +0, so that -0 alone gives +0, as in
/// PyTorch.
std::optional<uint64_t> reduction_identity(Op op, DType t);

/// A simpler value than the node with these (inferred) fields, or nullptr; may change the fields in
/// place to an equal node in normal form (operand order, cast_wrap that is a plain cast).
Value fold(Graph& graph, Op& op, std::vector<Value>& inputs, Attrs& attrs, const Type& type);

}  // namespace hologram::ir
