// codegen/loop_plan.cpp: how a loop block is cut into lanes and units.
#include "codegen/loop_plan.h"

#include <algorithm>
#include <bit>

namespace hologram::codegen {
namespace {

using atlas::Code;
using atlas::Instr;
using atlas::Stage;
using atlas::StageKind;

// Bytes of the widest element that lanes compute with. 64-bit integers beside floats are indices
// and do not count.
int lane_bytes(const atlas::Program& p) {
  int widest = 1, widest_index = 1;
  bool floats = false;
  auto see = [&](DType t) {
    if (t == DType::i64 || t == DType::u64) {
      widest_index = 8;
      return;
    }
    widest = std::max(widest, size_of(t));
    floats = floats || is_float(t);
  };
  for (const Stage& s : p.loop.stages) {
    for (const Instr& i : s.body.instrs) {
      if (i.code == Code::index || i.code == Code::clamp_index || i.code == Code::constant)
        continue;
      see(i.type);
      if (i.code == Code::arithmetic && ir::info(i.op).kind == ir::OpKind::cast) see(i.from);
    }
    for (const atlas::Reduction& r : s.reductions) see(r.type);
  }
  return floats ? std::max(widest, 2) : std::max(widest, widest_index);
}

int arithmetic_count(const atlas::LoopBlock& b) {
  int n = 0;
  for (const Stage& s : b.stages)
    for (const Instr& i : s.body.instrs) n += i.code == Code::arithmetic;
  return n;
}

// Picoseconds that one lane vector of a body takes.
int64_t body_cost(const atlas::Body& body, int lanes) {
  int64_t ps = 0;
  for (const Instr& i : body.instrs) {
    switch (i.code) {
      case Code::load:
      case Code::store:
        ps += 300;
        break;
      case Code::clamp_index:
        ps += 1000 + 800 * lanes;  // a gather follows
        break;
      case Code::arithmetic:
        if (i.op == ir::Op::div || i.op == ir::Op::sqrt)
          ps += is_float(i.type) ? 2500 : 1500 * lanes;
        else if (i.op == ir::Op::rem)
          ps += 10000 * lanes;
        else
          ps += 150 * std::max(1, size_of(i.type) / 4);
        break;
      default:
        break;
    }
  }
  return ps;
}

// Beyond this much arithmetic memory is not what limits a kernel, and stores past the caches only
// hold it up.
constexpr int max_streamed_work = 24;

// Column reductions take several vectors of adjacent columns at a time, so that each row gives
// whole cache lines; their partials stay in the nearest cache.
int column_vectors(const atlas::Program& p, const LoopPlan& plan) {
  if (plan.mode != LaneMode::parallel) return 1;
  int64_t bytes = 0;
  for (const Stage& s : p.loop.stages)
    for (const atlas::Reduction& r : s.reductions)
      bytes += int64_t{64} * size_of(r.type) * plan.lanes;
  // Scratch memory is interleaved by lane and should stay in the second-level cache.
  int64_t scratch = 0;
  for (const atlas::Buffer& b : p.buffers)
    if (b.access == atlas::Access::scratch)
      scratch +=
          (b.extent.is_const() ? b.extent.constant_value() : 2048) * size_of(b.dtype) * plan.lanes;
  int n = 4;
  while (n > 1 && (n * plan.lanes > 64 || n * bytes > 32 * 1024 || n * scratch > 256 * 1024))
    n /= 2;
  const Expr& extent = p.loop.axes[static_cast<size_t>(p.loop.lane_axis)].extent;
  while (n > 1 && extent.is_const() && extent.constant_value() < n * plan.lanes) n /= 2;
  return bytes > 0 ? n : 1;
}

}  // namespace

Expr buffer_bytes(const atlas::Program& program) {
  Expr bytes(0);
  for (const atlas::Buffer& b : program.buffers)
    if (b.access != atlas::Access::scratch) bytes += b.extent * Expr(size_of(b.dtype));
  return bytes;
}

LoopPlan plan_loop(const atlas::Program& program, const Target& target) {
  const atlas::LoopBlock& b = program.loop;
  LoopPlan plan;
  int rank = static_cast<int>(b.axes.size());
  if (b.lane_axis >= 0 && b.lane_axis == b.parallel_rank - 1)
    plan.mode = LaneMode::parallel;
  else if (b.lane_axis >= 0 && b.lane_axis == rank - 1)
    plan.mode = LaneMode::row;
  else
    return plan;
  plan.lanes = std::min(64, target.vector_bytes / lane_bytes(program));
  const Expr& extent = b.axes[static_cast<size_t>(b.lane_axis)].extent;
  if (extent.is_const()) {
    auto n = static_cast<uint64_t>(std::max<int64_t>(1, extent.constant_value()));
    if (n < static_cast<uint64_t>(plan.lanes)) plan.lanes = static_cast<int>(std::bit_ceil(n));
  }
  if (plan.lanes == 1) plan.mode = LaneMode::scalar;
  plan.masked_tails = target.isa == Isa::avx512;
  int work = arithmetic_count(b);
  Expr bytes = buffer_bytes(program);
  plan.may_stream = target.isa != Isa::neon && work <= max_streamed_work &&
                    (!bytes.is_const() || bytes.constant_value() > stream_bytes);
  plan.lanes *= column_vectors(program, plan);
  plan.unroll = work <= 8 ? 4 : work <= 24 ? 2 : 1;
  return plan;
}

Expr extent_of(const atlas::LoopBlock& block, int first, int last) {
  Expr n(1);
  for (int k = first; k < last; ++k) n *= block.axes[static_cast<size_t>(k)].extent;
  return n;
}

Launch launch_of_loop(const atlas::Program& program, const Target& target) {
  const atlas::LoopBlock& b = program.loop;
  LoopPlan plan = plan_loop(program, target);
  Launch launch;
  launch.total = extent_of(b, 0, b.parallel_rank);
  int rank = static_cast<int>(b.axes.size());
  // Rows whose extent depends on parallel axes are taken at their largest.
  Expr rows(1);
  for (int k = b.parallel_rank; k < rank; ++k) {
    Expr extent = b.axes[static_cast<size_t>(k)].extent;
    for (int depth = 0; depth < 8 && extent.has_axes(); ++depth)
      extent = extent.substitute([&](const Atom& a) -> std::optional<Expr> {
        // By the block's own extents: an atom's may name the symbols of the graph around.
        if (a.kind == Atom::Kind::axis) return b.axes[static_cast<size_t>(a.id)].extent - Expr(1);
        return std::nullopt;
      });
    rows *= extent;
  }
  int64_t point = 0, row = 0;
  for (const Stage& s : b.stages) {
    int64_t lanes = plan.mode == LaneMode::row && s.kind == StageKind::serial_row ? 1 : plan.lanes;
    int64_t cost = body_cost(s.body, static_cast<int>(lanes)) +
                   300 * static_cast<int64_t>(s.reductions.size());
    if (s.kind == StageKind::point)
      point += cost;
    else
      row += std::max<int64_t>(1, cost / lanes);
  }
  if (plan.mode == LaneMode::parallel) {
    launch.grain = Expr(64);
    launch.unit_work = Expr(std::max<int64_t>(1, point / plan.lanes)) + rows * Expr(row);
    if (row == 0) launch.unit_work = Expr(std::max<int64_t>(1, point / plan.lanes));
  } else {
    launch.grain = Expr(1);
    launch.unit_work = Expr(point + 5000) + rows * Expr(row);
  }
  return launch;
}

}  // namespace hologram::codegen
