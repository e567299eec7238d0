// codegen/attention_plan.h: how attention is cut into units and blocks. No LLVM in here.
#pragma once

#include <optional>
#include <vector>

#include "codegen/product_plan.h"

namespace hologram::codegen {

/// Keys of one step of the online softmax. The result depends on it and on nothing else of the
/// plan.
inline constexpr int64_t key_block = 128;

/// Lanes of the score tile run along queries, or along keys when there are only a few queries.
enum class ScoreLanes : uint8_t { queries, keys };

/// A bound on the keys that a query sees: at = query * (1 or 0) + offset, offset without axes.
struct KeyBound {
  bool by_query;
  Expr offset;
};

struct AttentionPlan {
  TileModel tile;
  DType type;  ///< of all arithmetic
  ScoreLanes lanes;
  Expr queries, keys, depth, values;
  int64_t query_block;                        ///< queries of a unit
  int key_span;                               ///< panels of keys at once, when lanes run along keys
  int value_span;                             ///< panels of the values at once
  std::optional<StridedLoad> k_load, v_load;  ///< set where the operand is read in place
  std::vector<int64_t> query_counts;  ///< queries of a unit: all that occur, or {} if any may
  std::vector<int64_t> key_counts;    ///< keys of a step, likewise
  /// What the score body hides for certain: keys before the first bound and behind the second.
  std::optional<KeyBound> first_key, last_key;
  Expr query_units;  ///< per batch point
  Expr units;
};

AttentionPlan plan_attention(const atlas::Program& program, const Target& target);

}  // namespace hologram::codegen
