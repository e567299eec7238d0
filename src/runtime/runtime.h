// runtime/runtime.h: what compiled graphs share: backend, threads, memory and kernels.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>

#include "backend/backend.h"
#include "host/boundary_pool.h"
#include "host/memory_pool.h"
#include "host/thread_pool.h"
#include "runtime/kernel_cache.h"

namespace hologram::runtime {

/// Thread-safe. Executables keep their runtime alive.
class Runtime {
 public:
  /// `backend`: a name of backend/registry.h. Throws Error(invalid_argument) for another one,
  /// Error(unavailable) where the machine lacks it.
  explicit Runtime(std::string_view backend);
  explicit Runtime(std::unique_ptr<Backend> backend);

  const Backend& backend() const { return *backend_; }
  /// The device's memory; null where kernels work on the host's.
  Memory* device() const { return backend_->memory(); }
  host::ThreadPool& threads() { return threads_; }
  /// Of the host.
  host::MemoryPool& memory() { return memory_; }
  host::BoundaryPool& boundary() { return boundary_; }
  KernelCache& kernels() { return kernels_; }

 private:
  std::unique_ptr<Backend> backend_;
  host::ThreadPool threads_;
  host::MemoryPool memory_;
  host::BoundaryPool boundary_;
  KernelCache kernels_;
};

}  // namespace hologram::runtime
