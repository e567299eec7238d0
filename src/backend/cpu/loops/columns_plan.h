// backend/cpu/loops/columns_plan.h: how nests that reduce down columns are cut. No LLVM in here.
#pragma once

#include "backend/cpu/loops/plan.h"

namespace hologram::cpu {

/// Partials of a column that are summed at a time, in registers: several where little else is done.
int partials_together(const atlas::LoopBlock& block, const Target& target);

/// Whether the row stages of a nest go down columns, block by block, and their reductions take the
/// elements of one partial after the other, which saves keeping the 64 partials of every column in
/// memory.
bool goes_down_columns(const atlas::LoopBlock& block, LaneMode mode, const Target& target);

/// Registers that a vector of columns fills, where a row is not read by itself: a vector of each
/// row is then whole cache lines. 1 for other nests.
int column_vectors(const atlas::Program& program, const LoopPlan& plan, const Target& target);

/// Vectors of columns in a block, of a plan whose lanes are known; 0 for other nests.
int block_columns(const atlas::Program& program, const LoopPlan& plan, const Target& target);

/// Results of blocks that wait in a reduction's tree over so many rows; 0: there is one block.
int block_levels(const Expr& rows);

/// Columns that a call should have.
int64_t columns_grain(const atlas::LoopBlock& block, const LoopPlan& plan, const Target& target);

}  // namespace hologram::cpu
