// backend/cpu/loops/plan.h: how a loop block is cut into lanes and units. No LLVM in here.
#pragma once

#include <optional>

#include "atlas/program.h"
#include "backend/cpu/target.h"
#include "backend/cpu/units.h"
#include "codegen/shared_element.h"

namespace hologram::cpu {

enum class LaneMode : uint8_t {
  scalar,    ///< one lane
  parallel,  ///< along the last parallel axis: each lane is a point
  row,       ///< along the last row axis
};

/// How a loop block becomes lanes, vectors and units.
struct LoopPlan {
  LaneMode mode = LaneMode::scalar;
  int lanes = 1;
  int vectors = 1;            ///< registers that `lanes` fill
  int unroll = 1;             ///< vectors per round of loops without reductions
  bool paired = false;        ///< two vectors at a time, instruction by instruction
  bool tiled = false;         ///< squares of lanes: see transposed_loads
  int squares = 1;            ///< side by side in either direction: together lines of memory
  bool whole_lines = false;   ///< units are lines of the lane axis: see shared_element
  int block_axes = 0;         ///< > 0: units are all points of so many last axes: see short_lines
  bool written_out = false;   ///< each point of such a line by itself: see copies_points
  int columns = 0;            ///< > 0: vectors of a block of columns: see columns_plan.h
  int interleaved = 0;        ///< > 0: this many lines side by side, see interleaved_lines
  bool masked_tails = false;  ///< else what is left over runs one by one
  bool carried = false;       ///< the second stage runs along with the next point's first stage
  bool trailing = false;      ///< and the last one along with the next point's second stage
  bool two_rows = false;      ///< the first stage runs over the rows of two points by turns
  bool alternate = false;     ///< lanes are even and odd elements by turns, see alternates()
  bool may_stream = false;    ///< the data may be larger than a core's cache; see cost::turn
};

/// Bytes of all buffers.
Expr buffer_bytes(const atlas::Program& program);

/// Registers that a step's lanes fill where all share what they are multiplied with, which is then
/// read once for these: with 16 registers loads would bind.
inline int shared_vectors(const Target& target) { return target.isa == Isa::avx2 ? 2 : 1; }

LoopPlan plan_loop(const atlas::Program& program, const Target& target);

/// The loads of a single point stage whose elements lie side by side along the axis before the lane
/// axis, not along the lanes: read as rows of squares, which are then turned over in registers.
/// `least`: elements of that axis from which on squares pay (tails may be masked).
std::vector<atlas::ValueId> transposed_loads(const atlas::LoopBlock& block,
                                             const std::vector<atlas::Buffer>& buffers,
                                             int64_t least);
/// Puts those together that are neighbours in memory, so that squares of all are read at once: one
/// list for each square, in ascending order of their places.
std::vector<std::vector<atlas::ValueId>> neighbours(const atlas::LoopBlock& block,
                                                    const std::vector<atlas::ValueId>& loads);
/// `least` where tails are masked, and where they are not.
constexpr int64_t least_lines(bool masked_tails) { return masked_tails ? 6 : 16; }

/// What value `id` of `body` is computed from, it last; nullopt if memory is read for it.
std::optional<atlas::Body> slice_of(const atlas::Body& body, atlas::ValueId id);

/// Whether points lie in memory as short runs along the last parallel axis (the three colours of an
/// image's pixels) while what they read lies along the axis before: then lanes run along that axis,
/// and the vectors of a run are interleaved by shuffles before they are stored. Returns the length
/// of a run, or 0.
int interleaved_lines(const atlas::LoopBlock& block, const std::vector<atlas::Buffer>& buffers);
/// Runs of a unit.
constexpr int64_t interleaved_unit = 4096;

/// Of a body's instructions, those that are the same all along `axis`, or without one (-1) for all
/// points: they are computed once, in front of the loop, and take none of its time.
std::vector<bool> computed_once(const atlas::Body& body, int axis = -1);
/// Bytes of the widest element that lanes compute with. 64-bit integers beside floats are indices
/// and do not count.
int lane_bytes(const atlas::Program& program);
/// Instructions of the least of the elementary functions that the target renders itself, e^x, and
/// of all that `op` takes.
inline constexpr int rendered_work = 16;
inline int work_of(ir::Op op) {
  constexpr int trigonometric = 48;
  return ir::info(op).flags & ir::exact ? 1 : op == ir::Op::exp ? rendered_work : trigonometric;
}
/// Rows that a call should have for the first to count for little where stages are carried.
inline constexpr int64_t carried_rows = 4;

/// About how many instructions a body's arithmetic takes.
int arithmetic_count(const atlas::Body& body);

/// Vectors along the row that a stage's body takes at a time, instruction by instruction.
int vectors_together(const atlas::Stage& stage, const LoopPlan& plan, const Target& target);

/// Product of the extents of axes [first, last).
Expr extent_of(const atlas::LoopBlock& block, int first, int last);

Launch launch_of(const LoopPlan& plan, const atlas::Program& program, const Target& target);

}  // namespace hologram::cpu
