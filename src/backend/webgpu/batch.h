// backend/webgpu/batch.h: steps of plans as dispatches with their words and bindings, for whatever
// runs them: wgpu-native, or a browser.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/launcher.h"
#include "backend/webgpu/wgsl/module.h"
#include "gpu/workspaces.h"

namespace hologram::webgpu {

/// A rendered kernel.
struct RenderedKernel {
  std::vector<atlas::Buffer> buffers;  ///< all of the program's
  size_t num_symbols = 0;
  wgsl::Module module;

  Kernel::Takes takes() const;
};

/// What of a device bounds launches.
struct Bounds {
  std::string name;
  /// Rounds of loops after which the driver ends a thread's loops without a word.
  int64_t most_rounds = INT64_MAX;
  uint64_t storage_binding = 0;  ///< maxStorageBufferBindingSize
  /// Bytes of the largest buffer that fits a binding wherever it begins, if that is to be known
  /// before it has a place.
  uint64_t sure_bytes = UINT64_MAX;
};

/// What is known of a step from sizes alone.
struct StepSizes {
  std::vector<int64_t> units;     ///< by dispatch
  std::vector<uint64_t> bytes;    ///< by buffer
  std::vector<uint64_t> scratch;  ///< by buffer: place in the step's workspace
  gpu::Workspace workspace;
};

/// For these values of the program's symbols; the workspace has no place yet. Throws
/// Error(unsupported) for what is too much for kernels or exceeds the bounds.
StepSizes sizes_of(const RenderedKernel& kernel, std::span<const int64_t> symbols,
                   const Bounds& bounds);
/// Gives steps their places in a call's workspace, and returns its bytes.
size_t place_workspaces(std::span<StepSizes> steps);

/// A range of memory as a dispatch sees it; begins at a multiple of binding_alignment.
struct Binding {
  int buffer = 0;  ///< of the program; behind them the word of faults
  const std::byte* address = nullptr;
  uint64_t bytes = 0;
};

struct Dispatched {
  const RenderedKernel* kernel;
  size_t dispatch;
  uint64_t words;  ///< place of its words, in bytes
  std::vector<Binding> bindings;
  uint32_t x, y;  ///< the grid
};

/// Memory that launches of these kernels need: the word of faults, and places for buffers without
/// elements.
uint64_t spare_bytes(size_t most_buffers);
/// Of the words of a launch.
uint64_t word_bytes(const RenderedKernel& kernel);

/// Dispatches that wait for their submission.
class Batch {
 public:
  /// `spare`: of spare_bytes() for every kernel that is added.
  Batch(std::byte* spare, const Bounds& bounds) : spare_(spare), bounds_(bounds) {}
  void add(const RenderedKernel& kernel, const CallFrame& frame, const atlas::EntryStep& step,
           const StepSizes& sizes);
  bool empty() const { return dispatches_.empty(); }
  void clear();
  const std::vector<int32_t>& words() const { return words_; }
  const std::vector<Dispatched>& dispatches() const { return dispatches_; }

 private:
  Binding bind(const RenderedKernel& kernel, size_t buffer, const std::byte* address,
               uint64_t bytes);
  void add_dispatch(const RenderedKernel& kernel, size_t d, uint64_t words,
                    const std::vector<Binding>& buffers, int64_t units);

  std::byte* spare_;
  const Bounds& bounds_;
  std::vector<int32_t> words_;
  std::vector<Dispatched> dispatches_;
};

}  // namespace hologram::webgpu
