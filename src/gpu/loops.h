// gpu/loops.h: how a loop's points and rows are laid over groups of threads.
#pragma once

#include "atlas/program.h"

namespace hologram::gpu {

enum class Mapping : uint8_t {
  thread,   ///< a thread for each point, which walks its rows alone
  team,     ///< a team of threads for each point, which are neighbours in the row: a warp, a group
  columns,  ///< points beside each other share a group, several threads each: its threads are
            ///< neighbours among points
};

/// What a backend's teams are like.
struct Teams {
  bool columns = false;   ///< whether it has that mapping
  bool scans = false;     ///< whether a team scans a row together; else one of its threads does
  int64_t least_row = 0;  ///< elements; shorter rows, if that is known, are one thread's
};

/// What a loop's threads are for. Of a team, one thread runs what goes from point to point of a row
/// in order, and what follows on the rows.
Mapping mapping_of(const atlas::Program& program, const Teams& teams);

/// Threads' shares of the parallel points, each of `neighbours` along the last axis.
Expr shares_of(const atlas::LoopBlock& block, int neighbours);

/// Elements of a row: the points of the axes behind the parallel ones.
Expr row_of(const atlas::LoopBlock& block);

}  // namespace hologram::gpu
