// backend/cuda/attention/plan.h: how attention is cut into CTAs. No LLVM in here.
#pragma once

#include <optional>

#include "backend/cuda/facts.h"
#include "gpu/attention.h"
#include "gpu/points.h"

namespace hologram::cuda {

using gpu::at_most;

struct AttentionPlan : gpu::AttentionSizes {
  DType type;         ///< of all arithmetic
  bool tensor_cores;  ///< both products are theirs
  int rows;           ///< of a CTA: its queries, of each of its heads
  int64_t heads;      ///< query heads of a CTA, which read the same keys and values
  int key_block;      ///< keys of a step
  int columns;        ///< of the values that a CTA computes
  Expr row_tiles, panels;
  Expr units;  ///< CTAs, where keys are not cut
  Expr parts;  ///< that a unit's keys may be cut into; 0: they are not

  bool few() const { return rows == 16; }  ///< the rows of a CTA are all of its heads'
};

AttentionPlan plan_attention(const atlas::Program& program);

/// Of the kernel by warpgroups: rows of each of these, and how many a CTA has at most.
inline constexpr int group_rows = 64, most_groups = 3;
/// Tiles for warpgroups, of a plan for tensor cores; nothing where it has few rows, or deep ones.
std::optional<AttentionPlan> plan_for_groups(const atlas::Program& program, AttentionPlan plan);
/// The same for products of float32 by bfloat16 terms, where bits are not promised.
std::optional<AttentionPlan> plan_for_terms(const atlas::Program& program, AttentionPlan plan);

/// The launch of a plan's kernel with `threads`.
Facts facts_of(const AttentionPlan& plan, int threads);

/// The bytes in which a CTA leaves its part: [rows][columns] sums of values, each row's maximum and
/// its sum of exponentials.
int64_t part_bytes(const AttentionPlan& plan);

}  // namespace hologram::cuda
