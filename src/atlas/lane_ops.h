// atlas/lane_ops.h: lane instructions in terms of the op table.
#pragma once

#include "atlas/lane.h"
#include "ir/op.h"

namespace hologram::atlas {

/// The element-wise op of an arithmetic, logic, transcendental or reduce instruction (of a
/// reduction: what combines two registers). Min and max let a NaN yield to a number.
/// Error(internal) for others.
ir::Op scalar_op(LaneOp op);

/// The reduce_* row whose identity is a reduction's result on no registers.
ir::Op identity_op(LaneOp reduction);

/// A comparison as eq, ne, lt or le on `type`, of the operands as they are or exchanged.
struct Comparison {
  ir::Op op;
  DType type;
  bool exchanged;
};
Comparison comparison(Compare compare, DType type);

}  // namespace hologram::atlas
