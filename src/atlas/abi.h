// atlas/abi.h: what native kernels and the runtime agree on.
#pragma once

#include <atomic>
#include <cstdint>

namespace hologram::atlas {

struct Context;

/// A compiled kernel: works on parallel units [begin, end) of its iteration space. `bufs` holds one
/// address per program buffer that is not scratch, in order; `syms` the program's symbols. Returns
/// 0 or an ErrorCode.
using KernelFn = int32_t (*)(const Context* context, void* const* bufs, const int64_t* syms,
                             int64_t begin, int64_t end);

/// Services for a running kernel. Plain data: generated code reads it by offset (checked by
/// static_asserts in codegen).
struct Context {
  /// Runs kernel over [0, total) in chunks of `grain` on the pool; the calling thread takes part.
  int32_t (*parallel_for)(const Context* context, KernelFn kernel, void* const* bufs,
                          const int64_t* syms, int64_t total, int64_t grain);
  /// At least `bytes` of 64-byte aligned memory private to the calling thread, valid until the
  /// kernel returns; null if there is none.
  void* (*scratch)(const Context* context, int64_t bytes);
  /// Calls step `step` of the host (extern operations); nonzero stops the graph.
  int32_t (*call_host)(const Context* context, int64_t step);
  std::atomic<int32_t>* sticky_error;  ///< StickyError bits, or-ed by kernels
  void* runtime;                       ///< belongs to the runtime
  /// A number that no other parallel_for has, or 0. If it is not 0, the i64 8 bytes before scratch
  /// memory is a note: 0 until a kernel writes it in this thread during this parallel_for. While it
  /// is what the kernel wrote, so is the memory.
  int64_t launch = 0;
};

/// Bits of *Context::sticky_error: data-dependent faults that do not stop the computation.
enum StickyError : int32_t { index_out_of_range = 1, integer_division_by_zero = 2 };

}  // namespace hologram::atlas
