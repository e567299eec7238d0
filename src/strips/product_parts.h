// strips/product_parts.h: what the routines of products have in common.
#pragma once

#include <atomic>
#include <optional>

#include "base/error.h"
#include "strips/body.h"
#include "strips/routine.h"

namespace hologram::strips {

inline constexpr int64_t multiply_add = 15;  ///< picoseconds

inline int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }
inline int64_t up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/// An operand's body, of which the last value is kept, with lanes along an axis.
inline std::optional<BodyPlan> operand_plan(const atlas::Program& program, const Vectors& vectors,
                                            const atlas::Body& body, int lanes) {
  const auto last = static_cast<atlas::ValueId>(body.instrs.size() - 1);
  return BodyPlan::of(body, {program, vectors, lanes, false}, std::span(&last, 1));
}

/// Runs units [begin, end) by `run`, which tells the bytes that it needs, takes them and has the
/// sticky errors behind.
template <class Run>
int32_t run_units(Run&& run, const atlas::Context& context, int64_t begin, int64_t end) {
  auto* memory = static_cast<char*>(context.scratch(&context, run.bytes()));
  if (!memory) return static_cast<int32_t>(ErrorCode::out_of_memory);
  run.use(memory);
  for (int64_t unit = begin; unit < end; ++unit) run.unit(unit);
  if (run.sticky() != 0 && context.sticky_error)
    context.sticky_error->fetch_or(run.sticky(), std::memory_order_relaxed);
  return 0;
}

}  // namespace hologram::strips
