// backend/cuda/loops/scatter.h: rows whose elements go to places that they name, in order.
//
// Each warp owns the places whose hash falls to it. It looks at all indices of a row, 32 at a time,
// and handles those of its own places in their order: one element after the other with lanes along
// the columns (up to 128 in a CTA) or, of fewer than eight columns, 32 elements at once, of which
// those that go to one place take turns (match.any). As many CTAs share a row as give each
// multiprocessor two, up to 64, and to one for each 32 elements; each reads all indices of the row.
#pragma once

#include <optional>

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// A serial stage whose only store goes to a place that an index says. Places are owned: whoever
/// owns one handles all elements that go there, in their order, and elements of different owners do
/// not meet.
struct ScatterPlan {
  atlas::ValueId place;  ///< the clamp_index that says where an element goes
  atlas::Body probe;     ///< the stage's body as far as that needs it
  /// Parallel axes: those that the place depends on, and the others, along which elements that go
  /// to one place lie beside each other.
  std::vector<int> points, columns;
  Expr rows, width;      ///< elements of a row; of columns
  bool by_rows = false;  ///< lanes are elements of the row; else columns
};

/// How a scatter's elements are dealt out; nothing for all other loops, and for rows so short that
/// the thread of each column takes them one after the other.
std::optional<ScatterPlan> plan_scatter(const atlas::Program& program);

Facts scatter_facts(const atlas::Program& program, const ScatterPlan& plan);
void emit_scatter(CudaFunction& k, const ScatterPlan& plan);

}  // namespace hologram::cuda
