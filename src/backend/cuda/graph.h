// backend/cuda/graph.h: a run of launches as one of the driver's graphs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/driver.h"
#include "backend/cuda/order.h"

namespace hologram::cuda {

/// A kernel's launch with the words of its parameters.
struct Launch {
  CuFunction function = nullptr;
  std::string_view symbol;  ///< its name in its module
  unsigned ctas = 0, threads = 0;
  std::vector<uint64_t> words;
  unsigned shared_bytes = 0;
  std::vector<CuTensorMap> maps;     ///< parameters behind the words
  const Touches* touches = nullptr;  ///< null: anything

  /// Whether another launch differs in its parameters alone.
  bool like(const Launch& other) const {
    return function == other.function && ctas == other.ctas && words.size() == other.words.size() &&
           maps.size() == other.maps.size();
  }

  /// "hologram_kernel (1 CTAs of 256 threads, 0 bytes of shared memory)".
  std::string str() const;

  /// Puts it on a stream.
  CuResult start(const Driver& driver, CuStream stream);
};

/// Launches in the driver's form, each behind those that it shares written memory with. Made from
/// them, not captured: what an address in them is changed to is patched into their node.
class LaunchGraph {
 public:
  explicit LaunchGraph(const DeviceContext& device) : device_(device) {}
  ~LaunchGraph();
  LaunchGraph(const LaunchGraph&) = delete;
  LaunchGraph& operator=(const LaunchGraph&) = delete;

  /// Starts these launches on a stream. Of other kernels than at the last call, or where others
  /// share memory, it is made anew. Not success: nothing was started, and the graph is of no more
  /// use.
  CuResult start(std::span<Launch> launches, CuStream stream);

 private:
  CuResult make(std::span<Launch> launches);
  CuResult patch(std::span<Launch> launches);
  bool fits(std::span<const Launch> launches);
  void free();

  const DeviceContext& device_;
  CuGraph graph_ = nullptr;
  CuGraphExec exec_ = nullptr;
  std::vector<CuGraphNode> nodes_;
  std::vector<Launch> launches_;  // by node: as they are in the graph
  LaunchOrder order_;
};

}  // namespace hologram::cuda
