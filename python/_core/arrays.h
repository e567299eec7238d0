// python/_core/arrays.h: NumPy arrays as operands and results of compiled graphs.
#pragma once

#include <span>

#include "numpy_api.h"
#include "runtime/runtime.h"

namespace hologram::python {

/// Whether elements lie side by side in row-major order, aligned.
inline bool is_row_major(const numpy::Array& array) {
  constexpr int wanted = numpy::c_contiguous | numpy::aligned;
  return (array.flags & wanted) == wanted;
}

/// An array for a call to read: itself if it is row-major, else a copy.
nanobind::object row_major(nanobind::handle array);

struct ResultArray {
  nanobind::object array;
  void* data;
};
/// A new row-major array for a call to write; large ones lie in the runtime's pool of reusable
/// memory. Throws nanobind::python_error, Error(out_of_memory), and Error(unsupported) for more
/// dimensions than NumPy has.
ResultArray new_result(runtime::Runtime& runtime, hologram_dtype dtype,
                       std::span<const int64_t> shape);

}  // namespace hologram::python
