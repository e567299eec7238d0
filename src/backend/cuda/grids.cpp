// backend/cuda/grids.cpp: CTAs, parts and workspaces by sizes.
#include "backend/cuda/grids.h"

#include <algorithm>

#include "base/error.h"

namespace hologram::cuda {
namespace {

constexpr int64_t most_workspace = int64_t{64} << 20;  // of a launch, in bytes
constexpr int64_t most_ctas = (int64_t{1} << 31) - 1;

int64_t ceil_to(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }

[[noreturn]] void refuse_points(int64_t total) {
  fail(ErrorCode::invalid_argument, "cuda: a kernel of {} points, more than a launch has", total);
}

// As many parts as give each multiprocessor two CTAs, unless there are to be all.
Grid cut_parts(Grid g, int64_t parts, const Facts& facts, int multiprocessors) {
  if (facts.all_parts && parts <= 0) return {};  // points of nothing
  const int64_t wanted = ceil_to(int64_t{2} * multiprocessors, g.total);
  g.teams = facts.all_parts ? parts : std::clamp<int64_t>(std::min(parts, wanted), 1, most_parts);
  g.ctas = g.total * g.teams;
  g.parted = facts.merges > 0 && g.teams > 1;
  if (g.parted) g.merging = (facts.all_parts ? g.ctas : g.total) * facts.merges;
  if (std::max(g.ctas, g.merging) > most_ctas) refuse_points(g.total);
  return g;
}

Grid cut_points(const Facts& facts, std::span<const int64_t> symbols, int multiprocessors) {
  Grid g;
  g.total = facts.total.eval(symbols);
  g.team_bytes = facts.team_bytes.eval(symbols);
  if (g.total <= 0) return g;
  g.ctas = ceil_to(g.total, facts.points);
  const bool cut = !facts.parts.is(0);
  if (cut) {
    g = cut_parts(g, facts.parts.eval(symbols), facts, multiprocessors);
  } else {
    if (g.team_bytes > 0) {
      const int64_t room = std::max<int64_t>(most_workspace / g.team_bytes / facts.points, 1);
      g.ctas = std::min({g.ctas, room, int64_t{16} * multiprocessors});
    }
    if (g.ctas > most_ctas) refuse_points(g.total);
    g.teams = g.ctas * facts.points;
  }
  const int64_t pieces = cut ? (g.parted ? g.ctas : 0) : g.teams;
  g.workspace.bytes = static_cast<size_t>(pieces * g.team_bytes);
  return g;
}

// As a kernel of a CTA for each point.
Facts facts_of(const ThinFacts& thin) {
  Facts f;
  f.total = thin.total;
  f.team_bytes = thin.team_bytes;
  f.parts = thin.parts;
  f.merges = thin.merges;
  f.points = 1;
  return f;
}

}  // namespace

std::optional<std::vector<CuTensorMap>> WideLaunch::maps(const Driver& driver,
                                                         std::span<const uint64_t> buffers,
                                                         uint64_t workspace, CuResult& result) {
  std::lock_guard lock(mutex_);
  if (!maps_) {
    maps_ = make_maps(driver, grid_, buffers, workspace, result);
    return maps_;
  }
  if (!move_maps(driver, grid_, buffers, workspace, *maps_, result)) return std::nullopt;
  return maps_;
}

size_t Grid::launches() const {
  if (total <= 0) return 0;
  if (!wide) return parted ? 2 : 1;
  const WideGrid& g = wide->grid();
  return size_t{1} + (g.pieces > 0) + (g.parts > 1) + g.marks;
}

Grid make_grid(const LoadedKernel& k, std::span<const int64_t> symbols, int threads,
               int multiprocessors) {
  if (k.host) {
    Grid g;
    g.host = host_launch(k.host, symbols, threads);
    return g;
  }
  if (const auto& thin = k.facts.thin; thin && thin->rows.eval(symbols) <= most_thin_rows) {
    Grid g = cut_points(facts_of(*thin), symbols, multiprocessors);
    g.thin = true;
    return g;
  }
  Grid g = cut_points(k.facts, symbols, multiprocessors);
  if (g.total <= 0 || !k.facts.wide) return g;
  auto wide = wide_grid(*k.facts.wide, symbols, multiprocessors);
  if (!wide) return g;
  const int64_t parts = wide->parts > 1 ? g.total * wide->parts : 0;
  g.workspace.bytes = std::max(
      g.workspace.bytes, wide->workspace + static_cast<size_t>(parts * k.facts.wide->part_bytes));
  g.wide = std::make_shared<WideLaunch>(std::move(*wide));
  return g;
}

}  // namespace hologram::cuda
