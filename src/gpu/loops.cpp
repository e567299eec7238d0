// gpu/loops.cpp: how a loop's points and rows are laid over groups of threads.
#include "gpu/loops.h"

#include <algorithm>

#include "gpu/points.h"

namespace hologram::gpu {
namespace {

using atlas::LoopBlock;
using atlas::Stage;
using atlas::StageKind;

constexpr size_t most_copied = 64;  // instructions of a body that is written 16 times

// Whether threads that share a point's rows can hand on what they have: of a short body that only
// reads, and rows as long at every point.
bool suits_columns(const atlas::Program& program) {
  const LoopBlock& b = program.loop();
  for (const Stage& s : b.stages) {
    if (s.kind != StageKind::point && s.kind != StageKind::row) return false;
    if (s.body.instrs.size() > most_copied) return false;
    if (std::ranges::any_of(s.reductions, &atlas::Reduction::tree)) return false;
  }
  for (const atlas::Buffer& buffer : program.buffers)
    if (buffer.access != atlas::Access::read && buffer.access != atlas::Access::write) return false;
  for (size_t a = static_cast<size_t>(b.parallel_rank); a < b.axes.size(); ++a)
    if (b.axes[a].extent.has_axes()) return false;
  return true;
}

}  // namespace

Mapping mapping_of(const atlas::Program& program, const Teams& teams) {
  const LoopBlock& b = program.loop();
  bool reduces = false, serial = false, rows = false;
  for (const Stage& s : b.stages) {
    const bool scans = s.kind == StageKind::scan && teams.scans;
    reduces = reduces || !s.reductions.empty() || scans;
    serial = serial || s.kind == StageKind::serial_row || (s.kind == StageKind::scan && !scans);
    rows = rows || s.kind != StageKind::point;
  }
  if (!rows || (serial && !reduces) || at_most(row_of(b), teams.least_row - 1))
    return Mapping::thread;
  if (!reduces || b.lane_axis < 0 || b.lane_axis >= b.parallel_rank) return Mapping::team;
  if (!teams.columns) return Mapping::thread;
  return suits_columns(program) ? Mapping::columns : Mapping::team;
}

Expr shares_of(const LoopBlock& block, int neighbours) {
  const int last = block.parallel_rank - 1;
  if (last < 0) return Expr(1);
  const Expr extent = max(block.axes[static_cast<size_t>(last)].extent, Expr(0));
  return points_of(block.axes, 0, last) * ceil_div(extent, Expr(neighbours));
}

Expr row_of(const LoopBlock& block) {
  return points_of(block.axes, block.parallel_rank, static_cast<int>(block.axes.size()));
}

}  // namespace hologram::gpu
