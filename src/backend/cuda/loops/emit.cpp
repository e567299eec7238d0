// backend/cuda/loops/emit.cpp: which threads work on which points of a loop block.
#include "backend/cuda/loops/emit.h"

#include <algorithm>

#include "atlas/empty.h"
#include "backend/cuda/loops/points.h"
#include "backend/cuda/loops/rows.h"
#include "backend/cuda/loops/scatter.h"

namespace hologram::cuda {

using atlas::Stage;
using atlas::StageKind;

std::optional<std::string> unrendered_loop(const atlas::LoopBlock& block) {
  for (const Stage& s : block.stages) {
    const auto trees = std::ranges::count_if(s.reductions, &atlas::Reduction::tree);
    if (trees != 0 && trees != std::ssize(s.reductions)) return "loops that mix sums of blocks";
    if (s.kind != StageKind::row && !s.reductions.empty()) return "reductions of serial stages";
  }
  return std::nullopt;
}

Facts emit_loop_block(llvm::Module& module, const atlas::Program& program, int block_threads) {
  Facts facts;
  const atlas::LoopBlock& block = program.loop();
  if (atlas::is_empty(program)) {
    CudaFunction k(module, program, facts.threads);
    k.finish();
    return facts;
  }
  if (const auto scatter = plan_scatter(program)) {
    facts = scatter_facts(program, *scatter);
    CudaFunction k(module, program, facts.threads);
    emit_scatter(k, *scatter);
    facts.flags = k.flags();
    return facts;
  }
  facts.team_bytes = CudaFunction::scratch_bytes(program);
  const bool points =
      !CudaFunction::has_scratch(program) &&
      std::ranges::all_of(block.stages, [](const Stage& s) { return s.kind == StageKind::point; });
  const int neighbours = points ? neighbours_of(program) : 1;
  facts.total = gpu::shares_of(block, neighbours);
  const Mapping mapping = gpu::mapping_of(program, teams);
  facts.threads = points ? block_threads : Team::threads(mapping);
  facts.points = points ? block_threads : Team::points(mapping);
  CudaFunction k(module, program, facts.threads);
  if (points)
    emit_points(k, facts, neighbours);
  else
    emit_rows(k, mapping);
  facts.flags = k.flags();
  return facts;
}

}  // namespace hologram::cuda
