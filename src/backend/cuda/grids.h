// backend/cuda/grids.h: how a kernel's launch is cut for some sizes.
#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "backend/cuda/kernel.h"
#include "backend/cuda/maps.h"
#include "gpu/workspaces.h"

namespace hologram::cuda {

/// The kernel for large sizes, and its tensor maps as they were last.
class WideLaunch {
 public:
  explicit WideLaunch(WideGrid grid) : grid_(std::move(grid)) {}

  const WideGrid& grid() const { return grid_; }
  /// Encoded at the first call; later ones' addresses take the place of those in them. Nothing
  /// where they do not suit or, as `result` says, the driver refuses.
  std::optional<std::vector<CuTensorMap>> maps(const Driver& driver,
                                               std::span<const uint64_t> buffers,
                                               uint64_t workspace, CuResult& result);

 private:
  const WideGrid grid_;
  std::mutex mutex_;
  std::optional<std::vector<CuTensorMap>> maps_;
};

/// A step's launch for some sizes.
struct Grid {
  int64_t total = 0, ctas = 0, teams = 0, team_bytes = 0;
  bool thin = false;    ///< by the kernel for few rows
  bool parted = false;  ///< its parts are merged by a second launch
  int64_t merging = 0;  ///< of so many CTAs
  gpu::Workspace workspace;
  std::shared_ptr<WideLaunch> wide;  ///< instead, where addresses suit it
  std::optional<HostLaunch> host;    ///< of a kernel of the host: all else is 0

  /// Launches that it is expected to take.
  size_t launches() const;
};

/// `threads`: of the host, for kernels that run there.
Grid make_grid(const LoadedKernel& kernel, std::span<const int64_t> symbols, int threads,
               int multiprocessors);

}  // namespace hologram::cuda
