// runtime/runtime.h: what compiled graphs share: backend, threads, memory and kernels.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "host/boundary_pool.h"
#include "host/memory_pool.h"
#include "host/thread_pool.h"
#include "runtime/kernel_cache.h"

namespace hologram::runtime {

/// What live executables take beside kernels, in bytes.
struct ExecutableBytes {
  std::atomic<size_t> plans{0};
  std::atomic<size_t> code{0};  ///< of the functions that run their steps
};

/// Bytes that compiled graphs take, apart from the memory that they compute in.
struct CompiledBytes {
  size_t code = 0;         ///< machine code in use
  size_t code_cached = 0;  ///< of kernels that nothing uses now
  size_t plans = 0;        ///< plans of live executables
};

class Executable;
struct Frame;

/// Is told of every call that a runtime's executables make, when it has ended well; from any
/// thread.
class Tracer {
 public:
  /// Of a step by its number in the plan, in nanoseconds of the steady clock.
  struct Span {
    int step;
    int64_t begin, took;
  };
  virtual ~Tracer() = default;
  virtual void called(Executable& executable, const Frame& frame,
                      std::vector<Span> spans) noexcept = 0;
};

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
  /// Gives what is kept of freed memory, the device's too, back to the system; how many bytes.
  size_t release_memory() noexcept {
    return memory_.release() + (device() ? device()->release() : 0);
  }
  KernelCache& kernels() { return kernels_; }
  ExecutableBytes& executables() { return executables_; }
  CompiledBytes compiled_bytes() const;
  /// Whom calls tell from now on; null: nobody. They then run step by step.
  void set_tracer(std::shared_ptr<Tracer> tracer) {
    std::lock_guard lock(tracer_mutex_);
    tracer_ = std::move(tracer);
    traced_ = tracer_ != nullptr;
  }
  std::shared_ptr<Tracer> tracer() {
    if (!traced_.load(std::memory_order_relaxed)) return nullptr;
    std::lock_guard lock(tracer_mutex_);
    return tracer_;
  }

 private:
  std::unique_ptr<Backend> backend_;
  host::ThreadPool threads_;
  host::MemoryPool memory_;
  host::BoundaryPool boundary_;
  KernelCache kernels_;
  ExecutableBytes executables_;
  std::atomic<bool> traced_{false};
  std::mutex tracer_mutex_;
  std::shared_ptr<Tracer> tracer_;
};

}  // namespace hologram::runtime
