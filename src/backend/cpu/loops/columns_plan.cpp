// backend/cpu/loops/columns_plan.cpp: how nests that reduce down columns are cut.
#include "backend/cpu/loops/columns_plan.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "atlas/order.h"
#include "backend/cpu/cost.h"

namespace hologram::cpu {
namespace {

using atlas::Stage;
using atlas::StageKind;

// From so many columns on a unit takes much of a line of memory; rows of fewer are read one after
// the other, as they lie, and the partials are in the nearest cache. AVX2's 64 partials of a vector
// are loaded and stored as often as rows are read.
struct Least {
  int64_t columns, rows;
};
Least least_of(const Target& target) {
  return target.isa == Isa::avx2 ? Least{256, 32} : Least{1024, 128};
}

// With fewer the partials' tree is most of the work.
constexpr int64_t least_rows_together = 16, least_together = 512, least_bytes = 2048;

const Expr& columns_of(const atlas::LoopBlock& block) {
  return block.axes[static_cast<size_t>(block.parallel_rank) - 1].extent;
}

bool has_scratch(const atlas::Program& program) {
  return std::ranges::any_of(
      program.buffers, [](const atlas::Buffer& b) { return b.access == atlas::Access::scratch; });
}

size_t reductions_of(const atlas::LoopBlock& block) {
  size_t n = 0;
  for (const Stage& s : block.stages) n += s.reductions.size();
  return n;
}

// Whether lines eight rows apart, those of a column's partials, meet in too few sets of the nearest
// cache, or rows lie along lines. A vector of AVX-512 is a line, which is not wanted again; others
// share it.
bool lines_meet(const atlas::LoopBlock& block, const Target& target) {
  constexpr int64_t apart = 4096;  // bytes between lines of a set
  const int64_t rows = block.axes.back().extent.constant_value();
  const int64_t most_lines = target.isa == Isa::avx512 ? 16 : rows <= 128 ? 8 : 4;
  return std::ranges::any_of(block.stages, [&](const Stage& s) {
    return std::ranges::any_of(s.body.instrs, [&](const atlas::Instr& i) {
      if (i.code != atlas::Code::load) return false;
      const auto step = i.expr.linear_in_axis(static_cast<int>(block.axes.size()) - 1);
      if (!step || !step->first.is_const() || step->first.is(0)) return false;
      const int64_t row = step->first.constant_value() * size_of(i.type);
      return step->first.is(1) || rows * std::gcd(row, apart / 8) > most_lines * apart;
    });
  });
}

}  // namespace

int partials_together(const atlas::LoopBlock& block, const Target& target) {
  constexpr int64_t least_columns = 16;  // a vector's; with many, rows are long enough to walk
  const Expr &rows = block.axes.back().extent, &columns = columns_of(block);
  constexpr int64_t most_rows = 256;  // lines of more are more than the nearest cache keeps
  const Least several = least_of(target);
  if (target.isa == Isa::neon || reductions_of(block) != 1 || !rows.is_const() ||
      !columns.is_const() || columns.constant_value() < least_columns ||
      rows.constant_value() < least_rows_together || rows.constant_value() > most_rows ||
      (columns.constant_value() >= several.columns && rows.constant_value() >= several.rows))
    return 1;
  const int64_t elements = rows.constant_value() * columns.constant_value();
  if (elements < least_together) return 1;
  for (const Stage& s : block.stages)
    if (!s.reductions.empty() &&
        (arithmetic_count(s.body) > 2 || elements * size_of(s.reductions[0].type) < least_bytes))
      return 1;
  return lines_meet(block, target) ? 1 : 8;
}

bool goes_down_columns(const atlas::LoopBlock& block, LaneMode mode, const Target& target) {
  if (mode != LaneMode::parallel || reductions_of(block) == 0 ||
      static_cast<int>(block.axes.size()) != block.parallel_rank + 1)
    return false;
  const bool together = partials_together(block, target) > 1;
  const Least least = together ? Least{1, least_rows_together} : least_of(target);
  const Expr &rows = block.axes.back().extent, &columns = columns_of(block);
  if (rows.has_axes() || (rows.is_const() && rows.constant_value() < least.rows)) return false;
  if (!columns.is_const() || columns.constant_value() < least.columns) return false;
  return std::ranges::all_of(block.stages, [](const Stage& s) {
    return (s.kind == StageKind::point || s.kind == StageKind::row) && s.running.empty() &&
           std::ranges::all_of(s.reductions, [](const atlas::Reduction& r) {
             return !r.tree && ir::info(r.op).kind == ir::OpKind::reduce;
           });
  });
}

int column_vectors(const atlas::Program& p, const LoopPlan& plan, const Target& target) {
  const atlas::LoopBlock& b = p.nest();
  if (plan.mode != LaneMode::parallel || reductions_of(b) == 0) return 1;
  const bool down = goes_down_columns(b, plan.mode, target);
  int64_t bytes = 0, sums = 0, work = 0;
  for (const Stage& s : b.stages) {
    work += arithmetic_count(s.body);
    sums = std::max(sums, static_cast<int64_t>(s.reductions.size()));
    for (const atlas::Reduction& r : s.reductions)
      bytes += int64_t{down ? 8 : 64} * size_of(r.type) * plan.lanes;
  }
  // Scratch memory is interleaved by lane and should stay in the second-level cache.
  int64_t scratch = 0;
  for (const atlas::Buffer& buffer : p.buffers)
    if (buffer.access == atlas::Access::scratch)
      scratch += (buffer.extent.is_const() ? buffer.extent.constant_value() : 2048) *
                 size_of(buffer.dtype) * plan.lanes;
  // Half of the registers may hold partials where little else is computed.
  const int64_t registers = target.isa == Isa::avx512 || target.isa == Isa::neon ? 16 : 8;
  const Expr& extent = b.axes[static_cast<size_t>(b.lane_axis)].extent;
  int n = 4;
  const int together = down ? partials_together(b, target) : 1;
  if (together > 1)
    n = std::max(1, static_cast<int>(registers) / together);
  else if (down && work <= 2 * sums) {
    n = 16;
    while (n > 4 && (n * sums > registers || n * plan.lanes > 256 ||
                     extent.constant_value() < 8 * n * plan.lanes))
      n /= 2;
  }
  while (n > 1 && ((n <= 4 && n * plan.lanes > 64) || n * bytes > cost::first_level ||
                   n * scratch > cost::scratch))
    n /= 2;
  while (n > 1 && extent.is_const() && extent.constant_value() < n * plan.lanes) n /= 2;
  return n;
}

int block_levels(const Expr& rows) {
  constexpr int most = 40;  // more blocks than memory holds
  if (!rows.is_const()) return most;
  const auto blocks =
      static_cast<uint64_t>((rows.constant_value() + atlas::sum_block - 1) / atlas::sum_block);
  return blocks > 1 ? std::bit_width(blocks) : 0;
}

int block_columns(const atlas::Program& program, const LoopPlan& plan, const Target& target) {
  constexpr int64_t run = 4096;             // bytes of a row
  constexpr int64_t most_state = 96 << 10;  // bytes that wait in trees, on the stack
  const atlas::LoopBlock& b = program.nest();
  if (!goes_down_columns(b, plan.mode, target)) return 0;
  if (has_scratch(program)) return 1;  // it holds one vector of columns
  int64_t narrowest = 8, state = 0;
  for (const Stage& s : b.stages) {
    for (const atlas::Instr& i : s.body.instrs)
      if (i.code == atlas::Code::load && i.expr.has_axis(b.parallel_rank))
        narrowest = std::min<int64_t>(
            narrowest, size_of(program.buffers[static_cast<size_t>(i.buffer)].dtype));
    for (const atlas::Reduction& r : s.reductions)
      state += int64_t{8 + block_levels(b.axes.back().extent)} * size_of(r.type);
  }
  int64_t columns = std::min(run / narrowest, columns_of(b).constant_value() + plan.lanes - 1);
  while (columns > plan.lanes && columns * state > most_state) columns /= 2;
  return static_cast<int>(std::max<int64_t>(1, columns / plan.lanes));
}

int64_t columns_grain(const atlas::LoopBlock& block, const LoopPlan& plan, const Target& target) {
  constexpr int64_t each = 2;  // calls of a thread, at least
  const int64_t share = columns_of(block).constant_value() / (each * target.threads * plan.lanes);
  return plan.lanes * std::clamp<int64_t>(share, 1, plan.columns);
}

}  // namespace hologram::cpu
