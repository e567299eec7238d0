// gpu/workspaces.h: where the kernels of a plan have what they keep between their launches.
#pragma once

#include <cstddef>
#include <span>

namespace hologram::gpu {

/// A step's piece of a call's workspace.
struct Workspace {
  size_t bytes = 0, at = 0;
};

/// Where pieces begin is a multiple of it.
inline constexpr size_t workspace_alignment = 256;

/// Gives steps their places, and returns the size of it all: behind each other, for those that
/// might run at the same time; from the start again where that takes too much.
size_t place_workspaces(std::span<Workspace* const> steps);

}  // namespace hologram::gpu
