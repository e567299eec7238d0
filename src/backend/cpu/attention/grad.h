// backend/cpu/attention/grad.h: gradients of attention, as one or two kernels.
#pragma once

#include "backend/cpu/attention/plan.h"
#include "backend/cpu/function.h"
#include "backend/cpu/target.h"
#include "backend/cpu/units.h"

namespace hologram::cpu {

/// What a unit has for itself: a batch point, a block of its keys, or one of its queries.
enum class GradShare : uint8_t { batch, keys, queries };

struct AttentionGradPlan {
  TileModel tile;
  DType type;  ///< of all arithmetic
  GradShare share;
  bool on_tiles = false;  ///< bf16: all five products, of rounded probabilities and gradients
  Expr members, queries, keys, depth, width;
  int64_t query_block;                ///< queries of a tile of scores; it has key_block keys
  int64_t share_block;                ///< keys or queries of a unit
  std::vector<int64_t> query_counts;  ///< of tiles: all that occur, or {} if any may
  std::vector<int64_t> key_counts;
  atlas::KeyBounds bounds;
  Expr parts;  ///< units per batch point
  Expr units;
};

AttentionGradPlan plan_attention_grad(const atlas::Program& program, const Target& target);

/// Fills kernel `k`, whose program is an attention_grad block on which expand_math has run, and
/// finishes it.
void emit(CpuFunction& k, const AttentionGradPlan& plan);

Launch launch_of(const AttentionGradPlan& plan, const atlas::Program& program,
                 const Target& target);

}  // namespace hologram::cpu
