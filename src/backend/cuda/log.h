// backend/cuda/log.h: what a backend has to tell beside errors: counts, and notes in words.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace hologram::cuda {

/// Of all kernels and launchers of a backend. Thread-safe.
class Log {
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

  /// For a log and for who asks for the device. What is said already is not said again; of very
  /// many notes only the first are kept.
  void note(std::string words);
  std::vector<std::string> notes() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> notes_;
};

}  // namespace hologram::cuda
