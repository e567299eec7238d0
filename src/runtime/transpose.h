// runtime/transpose.h: row-major copies of memory that is contiguous along another dimension.
#pragma once

#include <span>

#include "host/thread_pool.h"

namespace hologram::runtime {

/// Whether a tensor is of the kind that copy_transposed is for: its last dimension is strided and
/// another one is contiguous. Sizes of 1 must be merged away.
bool is_transposed(std::span<const int64_t> shape, std::span<const int64_t> strides);

/// Copies such a tensor, with elements of 1, 2, 4 or 8 bytes and strides in elements, to row-major
/// memory, by square tiles that use whole cache lines on both sides.
void copy_transposed(std::span<const int64_t> shape, std::span<const int64_t> strides, int bytes,
                     const void* from, void* to, host::ThreadPool& threads);

/// Any view of at least one dimension and element, on this thread: where no kernel copies.
void copy_strided(std::span<const int64_t> shape, std::span<const int64_t> strides, int bytes,
                  const void* from, void* to);

}  // namespace hologram::runtime
