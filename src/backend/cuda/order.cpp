// backend/cuda/order.cpp: which launches of a run wait for which others.
#include "backend/cuda/order.h"

#include <algorithm>

#include "backend/cuda/graph.h"

namespace hologram::cuda {
namespace {

bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes && a_bytes > 0 && b_bytes > 0;
}

bool conflict(const Launch& a, const Launch& b) {
  if (!a.touches || !b.touches) return true;
  if (overlap(a.touches->workspace_at, a.touches->workspace_bytes, b.touches->workspace_at,
              b.touches->workspace_bytes))
    return true;
  for (const Touch& x : a.touches->memory)
    for (const Touch& y : b.touches->memory)
      if ((x.writes || y.writes) && overlap(a.words[x.word], x.bytes, b.words[y.word], y.bytes))
        return true;
  return false;
}

}  // namespace

LaunchOrder::LaunchOrder(std::span<const Launch> launches) {
  find_edges(launches);
  find_regions(launches);
}

// From the nearest launch on: one that is waited for already, by those behind it, needs no edge.
void LaunchOrder::find_edges(std::span<const Launch> launches) {
  const size_t n = launches.size();
  edges_.resize(n);
  std::vector<std::vector<bool>> behind(n, std::vector<bool>(n));  // which each waits for
  for (size_t later = 0; later < n; ++later)
    for (size_t earlier = later; earlier-- > 0;) {
      if (behind[later][earlier] || !conflict(launches[earlier], launches[later])) continue;
      edges_[later].push_back(earlier);
      behind[later][earlier] = true;
      for (size_t k = 0; k < earlier; ++k)
        if (behind[earlier][k]) behind[later][k] = true;
    }
}

void LaunchOrder::find_regions(std::span<const Launch> launches) {
  struct Found {
    uint64_t address, bytes;
    size_t launch, word;
  };
  std::vector<Found> all;
  for (size_t l = 0; l < launches.size(); ++l)
    if (launches[l].touches)
      for (const Touch& t : launches[l].touches->memory)
        if (t.bytes > 0) all.push_back({launches[l].words[t.word], t.bytes, l, t.word});
  std::ranges::sort(all, {}, &Found::address);
  uint64_t begin = 0, end = 0;
  for (const Found& f : all) {
    if (regions_.empty() || f.address >= end) {
      regions_.push_back({f.launch, f.word, 0});
      begin = f.address;
    }
    end = std::max(end, f.address + f.bytes);
    regions_.back().bytes = end - begin;
    places_.push_back({f.launch, f.word, regions_.size() - 1, f.address - begin});
  }
}

bool LaunchOrder::holds(std::span<const Launch> launches) const {
  auto address = [&](const auto& p) { return launches[p.launch].words[p.word]; };
  for (const Place& p : places_)
    if (address(p) != address(regions_[p.region]) + p.offset) return false;
  std::vector<std::pair<uint64_t, uint64_t>> now;  // begin, end
  now.reserve(regions_.size());
  for (const Region& r : regions_) now.emplace_back(address(r), address(r) + r.bytes);
  std::ranges::sort(now);
  for (size_t r = 1; r < now.size(); ++r)
    if (now[r].first < now[r - 1].second) return false;
  return true;
}

}  // namespace hologram::cuda
