// backend/webgpu/wgsl/teams.h: what the threads of a workgroup have, joined to one value.
#pragma once

#include "backend/webgpu/wgsl/unit.h"

namespace hologram::webgpu::wgsl {

/// Joins the values that the threads of a workgroup have in the variable `name` by a reduce_* op;
/// all have the result there. All threads run it, and a barrier stands between two runs of the
/// same text.
void join_threads(Unit& unit, ir::Op reduce, DType type, const std::string& name);

/// Runs `inside` for each half of a workgroup's threads, with the number of the other thread that
/// the first half joins with, until one is left. Barriers in front and behind.
template <class F>
void write_halving(Unit& unit, F&& inside) {
  const std::string half = unit.fresh("half");
  unit.line("workgroupBarrier();");
  unit.block(
      [&] {
        unit.block([&] { inside(fmt::format("lane + {}", half)); }, "if (lane < {})", half);
        unit.line("workgroupBarrier();");
      },
      "for (var {} = {}u; {} > 0u; {} = {} >> 1u)", half, workgroup / 2, half, half, half);
}

/// At least the rounds of loops in one join_threads() or write_halving(): by subgroups, one for
/// each thread where they have one alone.
inline constexpr int64_t join_rounds = workgroup;

}  // namespace hologram::webgpu::wgsl
