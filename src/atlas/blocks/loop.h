// atlas/blocks/loop.h: loop nests.
#pragma once

#include <utility>

#include "atlas/blocks/form.h"

namespace hologram::atlas {

/// One reduction over all row axes, its operand computed by the stage's body. Sums and products:
/// blocks of 4,096 in row-major order, inside a block 64 strided partials that start from the
/// identity (partial j takes elements j, j + 64, …) and a halving tree (j takes j + 32, then j +
/// 16, …), tails padded with the identity; blocks are combined as a binary counter does (equal
/// sizes first, then the rest from the smallest up), the earlier operand first. `tree` drops the
/// 4,096 blocks: each row element is itself a block's result and only the binary counter is
/// applied. No elements give the identity. reduce_arg* takes the first of equal elements in
/// row-major order, and gives 0 for no elements.
struct Reduction {
  ir::Op op;   ///< a reduce_* row
  DType type;  ///< of operand and result (reduce_arg*: of the operand; the result is i64)
  ValueId value;
  bool tree = false;
  ValueId position =
      no_value;  ///< reduce_arg*: i64 value to report; none = the row-major row position

  bool operator==(const Reduction&) const = default;
};

enum class StageKind : uint8_t {
  point,       ///< runs once per parallel point
  row,         ///< runs for every row element, in any order; may reduce and store
  serial_row,  ///< runs for every row element in row-major order; may accumulate and store
  /// The last stage of a block with one row axis, which is its lane axis: runs for every row
  /// element; each running accumulator is accumulated once, in blocks of 16 elements: for s = 1, 2,
  /// 4, 8 every element whose number in the block has bit s set takes the last one of the s before
  /// its group of s as the left operand; then all take the carry so. The carry starts as the
  /// identity and takes each block's last element; that of f32 sums and products is an f64, rounded
  /// where elements take it. What is stored here is not loaded here.
  scan,
};

struct Stage {
  StageKind kind;
  Body body;
  std::vector<Reduction> reductions;  ///< row stages: appended to the block's accumulators
  std::vector<std::pair<ir::Op, DType>>
      running;  ///< serial stages: running accumulators, likewise appended

  bool operator==(const Stage&) const = default;
};

/// A loop nest. Parallel axes come first and their points are independent. Accumulators are
/// numbered through all stages in order, reductions before running ones.
struct LoopBlock {
  std::vector<Axis> axes;
  int parallel_rank = 0;
  int lane_axis = -1;  ///< which axis backends should vectorise: the last parallel or the last row
                       ///< axis; -1: none
  std::vector<Stage> stages;

  bool operator==(const LoopBlock&) const = default;
};

template <>
struct Form<LoopBlock> {
  static constexpr std::string_view name = "loop";
  static constexpr Field<LoopBlock> fields[] = {
      {.word = "parallel",
       .member = &LoopBlock::parallel_rank,
       .limit = limits::axes,
       .leads = true},
      {.word = "lane",
       .member = &LoopBlock::lane_axis,
       .letter = 'i',
       .optional = true,
       .leads = true},
  };
  static constexpr std::array<BodyField<LoopBlock>, 0> bodies{};  // those of its stages
};

void verify_block(const LoopBlock& b, Verifier& v);

}  // namespace hologram::atlas
