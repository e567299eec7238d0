// backend/cuda/log.h: what a backend has to tell beside errors: counts, and notes in words.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/notes.h"

namespace hologram::cuda {

/// Of all kernels and launchers of a backend. Thread-safe.
class Log : public Notes {
 public:
  std::atomic<uint64_t> host_runs{0};       ///< steps that the host's kernels ran
  std::atomic<uint64_t> graph_launches{0};  ///< runs of launches that were one graph
  std::atomic<uint64_t> wide_launches{0};   ///< of hologram_wide
  std::atomic<uint64_t> refused_maps{0};    ///< launches without it: the driver took no tensor map

  /// By the members' names.
  std::vector<std::pair<std::string_view, uint64_t>> counts() const {
    return {{"host_runs", host_runs},
            {"graph_launches", graph_launches},
            {"wide_launches", wide_launches},
            {"refused_maps", refused_maps}};
  }
};

}  // namespace hologram::cuda
