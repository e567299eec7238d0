// backend/cpu/attention/plan.h: how attention is cut into units and blocks. No LLVM in here.
#pragma once

#include <optional>
#include <vector>

#include "atlas/blocks/attention_keys.h"
#include "backend/cpu/products/plan.h"

namespace hologram::cpu {

/// Keys of one step of the online softmax. The result depends on it and on nothing else of the
/// plan.
inline constexpr int64_t key_block = 128;

/// Lanes of the score tile run along queries, or along keys when there are only a few queries.
enum class ScoreLanes : uint8_t { queries, keys };

/// Rows of an operand at one batch point.
struct OperandRows {
  StridedLoad load;
  int64_t rows, columns;
};

struct AttentionPlan {
  TileModel tile;
  DType type;  ///< of all arithmetic
  ScoreLanes lanes;
  Dots dots = Dots::none;  ///< bf16: both products take pairs, probabilities round to bfloat16
  bool on_tiles = false;   ///< both are tile products; lanes along keys: rows of few queries
  int terms = 0;           ///< on tiles: bfloat16 numbers per element, 1 or of f32 3
  Expr queries, keys, depth, values;
  int64_t shared;  ///< few: query heads of a unit, which read the same keys and values
  int64_t
      query_block;  ///< rows of a unit: its queries, of each of its heads; several panels on tiles
  int key_span;     ///< panels of keys at once, when lanes run along keys
  int value_span;   ///< panels of the values at once
  std::optional<StridedLoad> k_load, v_load;  ///< set where the operand is read in place
  bool pairs_of_keys = false;                 ///< few queries: scores by dots of bfloat16
  std::vector<OperandRows> ahead;     ///< each unit fetches its share of the next batch point's
  std::vector<int64_t> query_counts;  ///< queries of a unit: all that occur, or {} if any may
  std::vector<int64_t> key_counts;    ///< keys of a step, likewise
  atlas::KeyBounds bounds;
  atlas::Body seen;  ///< few queries: which keys a mask in memory leaves; empty: there is none
  Expr query_units;  ///< per batch point
  Expr units;
};

/// The sizes of the blocks of [0, total) in ascending order, or {} where `total` is not known.
std::vector<int64_t> block_sizes(const Expr& total, int64_t block);

AttentionPlan plan_attention(const atlas::Program& program, const Target& target);

Launch launch_of(const AttentionPlan& plan, const atlas::Program& program, const Target& target);

}  // namespace hologram::cpu
