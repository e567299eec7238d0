// gpu/workspaces.cpp: where the kernels of a plan have what they keep between their launches.
#include "gpu/workspaces.h"

#include <algorithm>

namespace hologram::gpu {
namespace {

constexpr size_t most_side_by_side = size_t{16} << 20;

}  // namespace

size_t place_workspaces(std::span<Workspace* const> steps) {
  constexpr size_t unit = workspace_alignment;
  size_t all = 0, largest = 0;
  for (Workspace* w : steps) {
    w->bytes = (w->bytes + unit - 1) / unit * unit;
    all += w->bytes;
    largest = std::max(largest, w->bytes);
  }
  const size_t size = std::max(largest, std::min(all, most_side_by_side));
  size_t at = 0;
  for (Workspace* w : steps) {
    if (at + w->bytes > size) at = 0;
    w->at = at;
    at += w->bytes;
  }
  return size;
}

}  // namespace hologram::gpu
