// capi/tensors.h: what functions on tensors share.
#pragma once

#include "capi/objects.h"

namespace hologram::capi {

inline constexpr size_t max_rank = 32;

/// A second view of the same memory.
std::unique_ptr<TensorObject> view_of(const TensorObject& tensor);
/// A view of a buffer, checked to stay inside it.
std::unique_ptr<TensorObject> view_of_buffer(const BufferObject& buffer, hologram_handle handle,
                                             std::vector<int64_t> shape,
                                             std::vector<int64_t> strides, uint64_t offset);
/// Product of the dimensions; throws Error(invalid_argument) for negative ones and overflow.
int64_t checked_numel(const std::vector<int64_t>& shape);
std::vector<int64_t> row_major(const std::vector<int64_t>& shape);
/// Writes the elements in row-major order to `out`, on the host or the executor's device.
void copy_row_major(const TensorObject& tensor, void* out);
/// The same of elements of 1, 2, 4 or 8 bytes anywhere in the executor's memory; there are some.
void copy_row_major(ExecutorState& executor, const std::vector<int64_t>& dims,
                    const std::vector<int64_t>& steps, int bytes, const std::byte* from, void* out);
/// A row-major tensor of the same elements, on the same memory if it is row-major already.
std::unique_ptr<TensorObject> contiguous(const TensorObject& tensor);
/// NumPy's rule; false when the shapes do not go together.
bool broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
               std::vector<int64_t>& result);
/// A tensor of this executor.
Pin<TensorObject> need_tensor_of(hologram_handle executor, hologram_handle handle,
                                 std::string_view argument = "tensor");

}  // namespace hologram::capi
