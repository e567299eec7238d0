// backend/cuda/attention_grad/plan.h: how gradients of attention are cut into CTAs. No LLVM in
// here.
#pragma once

#include "atlas/program.h"
#include "gpu/attention.h"

namespace hologram::cuda {

/// What a CTA has for itself: keys, whose dk and dv it sums over members and queries, or queries of
/// a member, whose dq it sums over keys.
enum class GradShare : uint8_t { keys, queries };

struct AttentionGradPlan : gpu::AttentionGradSizes {
  DType type;         ///< of all arithmetic
  bool tensor_cores;  ///< all five products are theirs
  int rows, steps;    ///< of a tile of scores: of what is the CTA's, and of what it sums over
  int columns;        ///< of results that a CTA sums
  Expr key_units, query_units;  ///< CTAs of each share, those of keys first

  Expr tiles(GradShare share) const;
  Expr panels(GradShare share) const;
};

/// Where factors of 16-bit numbers lie in shared memory: rows, then steps, of operands q and k (0)
/// and g and v (1), along their depth or not as they do in memory.
struct GradFactors {
  static constexpr int pad = 8;  ///< elements between rows, which stay aligned
  struct Place {
    int first, stride;
  };
  Place rows[2], steps[2];
  int end;  ///< elements of all
};
GradFactors grad_factors(const atlas::AttentionGradBlock& block, const AttentionGradPlan& plan,
                         GradShare share);
/// A multiple of 16 that has room for depth (0) or width (1), which are known.
int rounded_depth(const AttentionGradPlan& plan, int operand);

AttentionGradPlan plan_attention_grad(const atlas::Program& program);

}  // namespace hologram::cuda
