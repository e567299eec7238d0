// python/_core/arrays.cpp: NumPy arrays as operands and results of compiled graphs.
#include "arrays.h"

#include <algorithm>
#include <array>

#include "sdk.h"

namespace nb = nanobind;

namespace hologram::python {
namespace {

/// Results from this size on come from the pool.
constexpr size_t pooled = size_t{1} << 14;

constexpr size_t most_dimensions = 64;  // of NumPy's arrays

void free_pooled(PyObject* capsule) {
  host::MemoryPool::deallocate(PyCapsule_GetPointer(capsule, nullptr));
}

}  // namespace

nb::object row_major(nb::handle array) {
  if (is_row_major(*numpy::as_array(array.ptr()))) return nb::borrow(array);
  return nb::module_::import_("numpy").attr("require")(array, nb::none(), "CA");
}

ResultArray new_result(runtime::Runtime& runtime, hologram_dtype dtype,
                       std::span<const int64_t> shape) {
  if (shape.size() > most_dimensions)
    fail(ErrorCode::unsupported, "a result has {} dimensions, NumPy's arrays at most {}",
         shape.size(), most_dimensions);
  std::array<Py_ssize_t, most_dimensions> dims;
  std::ranges::copy(shape, dims.begin());
  const auto rank = static_cast<int>(shape.size());
  auto bytes = static_cast<size_t>(item_size(dtype));
  for (int64_t n : shape) bytes *= static_cast<size_t>(n);
  if (bytes < pooled) {
    nb::object array = numpy::make_array(dtype, rank, dims.data());
    void* data = numpy::as_array(array.ptr())->data;
    return {std::move(array), data};
  }
  void* block = runtime.memory().allocate(bytes);
  PyObject* keeper = PyCapsule_New(block, nullptr, free_pooled);
  if (!keeper) {
    host::MemoryPool::deallocate(block);
    nb::raise_python_error();
  }
  return {numpy::make_array(dtype, rank, dims.data(), block, keeper), block};
}

}  // namespace hologram::python
