// runtime/operations.h: the operations on plain memory, made once and then called directly.
#pragma once

#include <array>
#include <string>

#include "base/recent.h"
#include "builtin/definitions.h"
#include "host/context.h"
#include "runtime/executable.h"

namespace hologram::runtime {

/// A compiled operation whose plan is one kernel over elements: calling it is a jump.
struct DirectKernel {
  static constexpr int max_arguments = 8;

  std::shared_ptr<Executable> owner;
  atlas::KernelFn function = nullptr;            ///< null: the backend launches it
  int arguments = 0;                             ///< of the operation: operands, then the result
  int count = 0;                                 ///< buffers
  std::array<uint8_t, max_arguments> sources{};  ///< by kernel buffer: the argument it is
  int64_t grain = 1;
  int64_t unit_work = 1;
  int64_t inline_limit = 0;  ///< up to this many elements run on the calling thread
};

/// Where a call that is not waited for is left, and where its faults go; without a queue a call
/// ends with its work.
struct Late {
  const Stream* queue = nullptr;
  std::atomic<int32_t>* faults = nullptr;
};

/// Operations by id and dtype, by name, and by any key; each is planned and its kernels are looked
/// up at its first use. Thread-safe; what exists already is found without a lock.
class Operations {
 public:
  explicit Operations(std::shared_ptr<Runtime> runtime)
      : runtime_(std::move(runtime)), context_(host::make_context(runtime_->threads(), nullptr)) {}
  ~Operations();
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  /// An element-wise operation. Throws Error(invalid_argument) for an unknown id or a dtype that it
  /// does not take.
  const DirectKernel& elementwise(uint32_t id, DType dtype) {
    if (id < num_ids && static_cast<int>(dtype) < num_dtypes) [[likely]]
      if (const DirectKernel* k =
              elementwise_[id][static_cast<size_t>(dtype)].load(std::memory_order_acquire))
        return *k;
    return make_elementwise(id, dtype);
  }
  const DirectKernel& convert(DType from, DType to);

  /// Runs it over `length` elements; `arguments` are the operands' addresses, then the result's.
  /// Returns StickyError bits. Throws Error when the kernel fails.
  int32_t run(const DirectKernel& kernel, void* const* arguments, int64_t length, Late late = {}) {
    if (!kernel.function) [[unlikely]]
      return launch(kernel, arguments, length, late);
    void* buffers[DirectKernel::max_arguments];
    for (int i = 0; i < kernel.count; ++i) buffers[i] = arguments[kernel.sources[i]];
    std::atomic<int32_t> sticky{0};
    atlas::Context context = context_;
    context.sticky_error = &sticky;
    const int32_t status = length <= kernel.inline_limit
                               ? kernel.function(&context, buffers, &length, 0, length)
                               : run_parallel(kernel, context, buffers, length);
    if (status != 0) [[unlikely]]
      raise_status(status);
    return sticky.load(std::memory_order_relaxed);
  }

  /// An operation that takes any number of kernels, under a key that says all about it; those used
  /// last are kept.
  std::shared_ptr<Executable> executable(const std::string& key,
                                         const std::function<void(ir::Graph&)>& build);
  /// Runs it: `inputs` by parameter, `outputs` by result. Throws Error.
  void run(Executable& executable, void* const* inputs, const int64_t* symbols,
           void* const* outputs, Late late = {});

  Runtime& runtime() { return *runtime_; }
  const std::shared_ptr<Runtime>& shared_runtime() { return runtime_; }
  uint64_t kernel_calls() const noexcept { return calls_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t num_ids = builtin::end_of_ids;
  static constexpr size_t most_executables = 256;
  const DirectKernel& make_elementwise(uint32_t id, DType dtype);
  std::unique_ptr<DirectKernel> make_direct(const std::function<void(ir::Graph&)>& build,
                                            int arguments);

  int32_t launch(const DirectKernel& kernel, void* const* arguments, int64_t length, Late late);
  int32_t run_parallel(const DirectKernel& kernel, const atlas::Context& context,
                       void* const* buffers, int64_t length);

  std::shared_ptr<Runtime> runtime_;
  atlas::Context context_;  ///< without a place for sticky errors
  std::array<std::array<std::atomic<const DirectKernel*>, num_dtypes>, num_ids> elementwise_{};
  std::array<std::array<std::atomic<const DirectKernel*>, num_dtypes>, num_dtypes> convert_{};
  std::mutex mutex_;
  Recent<std::string, std::shared_ptr<Executable>> executables_{most_executables};
  std::atomic<uint64_t> calls_{0};
};

}  // namespace hologram::runtime
