// runtime/runtime.h: what compiled graphs share: backend, threads, memory and kernels.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "runtime/boundary_pool.h"
#include "runtime/kernel_cache.h"
#include "runtime/memory_pool.h"
#include "runtime/thread_pool.h"

namespace hologram::runtime {

/// Thread-safe. Executables keep their runtime alive.
class Runtime {
 public:
  /// The backends of this build, the fastest first.
  static std::vector<std::string_view> backends();
  /// `backend`: one of them. Throws Error(invalid_argument) for another name, Error(unavailable)
  /// where the machine lacks it.
  explicit Runtime(std::string_view backend);
  explicit Runtime(std::unique_ptr<Backend> backend);

  const Backend& backend() const { return *backend_; }
  ThreadPool& threads() { return threads_; }
  MemoryPool& memory() { return memory_; }
  BoundaryPool& boundary() { return boundary_; }
  KernelCache& kernels() { return kernels_; }

 private:
  std::unique_ptr<Backend> backend_;
  ThreadPool threads_;
  MemoryPool memory_;
  BoundaryPool boundary_;
  KernelCache kernels_;
};

}  // namespace hologram::runtime
