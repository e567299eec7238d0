// backend/cpu/loops/launch.cpp: the units that a loop block is cut into, and what one takes.
#include <algorithm>

#include "backend/cpu/loops/columns_plan.h"
#include "backend/cpu/loops/plan.h"

namespace hologram::cpu {
namespace {

using atlas::Code;
using atlas::Instr;
using atlas::Stage;
using atlas::StageKind;

// Picoseconds that one lane vector of a body takes.
int64_t body_cost(const atlas::Body& body, int lanes) {
  int64_t ps = 0;
  const std::vector<bool> once = computed_once(body);
  for (size_t n = 0; n < once.size(); ++n) {
    if (once[n]) continue;
    const Instr& i = body.instrs[n];
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
          ps += 150 * std::max(1, size_of(i.type) / 4) * work_of(i.op);
        break;
      case Code::lookup:
        ps += 150;
        break;
      default:
        break;
    }
  }
  return ps;
}

// Whether rows write into rows of memory that they find by number.
bool scatters(const atlas::LoopBlock& b) {
  auto found = [](const Instr& i) {
    return i.code == Code::store &&
           i.expr.any_atom([](const Atom& a) { return a.kind == Atom::Kind::value; });
  };
  return std::ranges::any_of(b.stages, [&](const Stage& s) {
    return s.kind == StageKind::serial_row && std::ranges::any_of(s.body.instrs, found);
  });
}

// Every chunk of the lanes walks all rows: it is as wide as the threads allow, but no wider than a
// page, and of as many elements as whole lines have: rows of lines are shared by no threads.
Expr scatter_grain(const Expr& total, const atlas::Program& program, const Target& target) {
  constexpr int64_t page = 4096, line = 64;
  const int64_t elements = line / lane_bytes(program);
  const Expr each = ceil_div(total, Expr(target.threads * elements));
  return max(Expr(1), min(each, Expr(page / line))) * Expr(elements);
}

}  // namespace

Launch launch_of(const LoopPlan& plan, const atlas::Program& program, const Target& target) {
  const atlas::LoopBlock& b = program.nest();
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
    int64_t running = s.kind == StageKind::scan ? 1500 * static_cast<int64_t>(s.running.size()) : 0;
    int64_t cost = (body_cost(s.body, static_cast<int>(lanes) / plan.vectors) + running +
                    300 * static_cast<int64_t>(s.reductions.size())) *
                   plan.vectors;
    if (s.kind == StageKind::point)
      point += cost;
    else
      row += std::max<int64_t>(1, cost / lanes);
  }
  if (plan.interleaved > 0) {
    const Expr &run = b.axes[static_cast<size_t>(b.parallel_rank) - 1].extent,
               &length = b.axes[static_cast<size_t>(b.parallel_rank) - 2].extent;
    launch.total = extent_of(b, 0, b.parallel_rank - 2) * ceil_div(length, Expr(interleaved_unit));
    launch.unit_work = min(length, Expr(interleaved_unit)) * run *
                       Expr(std::max<int64_t>(1, (point + 500) / plan.lanes));
  } else if (plan.tiled) {
    size_t lane = static_cast<size_t>(b.parallel_rank) - 1;
    launch.total = extent_of(b, 0, b.parallel_rank - 2) *
                   ceil_div(b.axes[lane - 1].extent, Expr(plan.lanes * plan.squares));
    launch.unit_work = b.axes[lane].extent * Expr(std::max<int64_t>(1, 3 * point) * plan.squares);
  } else if (plan.whole_lines) {
    size_t lane = static_cast<size_t>(b.parallel_rank) - 1;
    launch.total = extent_of(b, 0, b.parallel_rank - 1);
    launch.unit_work =
        b.axes[lane].extent * (Expr(std::max<int64_t>(1, point / plan.lanes)) + rows * Expr(row));
  } else if (plan.block_axes > 0) {
    launch.total = extent_of(b, 0, b.parallel_rank - plan.block_axes);
    launch.unit_work = extent_of(b, b.parallel_rank - plan.block_axes, b.parallel_rank) *
                       Expr(std::max<int64_t>(1, point / plan.lanes));
  } else if (plan.mode == LaneMode::parallel) {
    // Lanes that walk long rows are work enough for a thread.
    constexpr int64_t long_rows = 4'000'000;
    bool apart = rows.is_const() && rows.constant_value() * row * plan.lanes >= long_rows;
    launch.grain = scatters(b) ? scatter_grain(launch.total, program, target)
                               : Expr(plan.columns > 0 ? columns_grain(b, plan, target)
                                      : apart          ? plan.lanes
                                                       : std::max(64, plan.lanes));
    launch.unit_work = Expr(std::max<int64_t>(1, point / plan.lanes)) + rows * Expr(row);
    if (row == 0) launch.unit_work = Expr(std::max<int64_t>(1, point / plan.lanes));
  } else {
    // Few rows are not kept together, so that every thread has some.
    if (plan.carried)
      launch.grain =
          max(Expr(1), min(Expr(carried_rows), floor_div(launch.total, Expr(4 * carried_rows))));
    launch.unit_work = Expr(point + 5000) + rows * Expr(row);
  }
  return launch;
}

}  // namespace hologram::cpu
