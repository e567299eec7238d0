// python/_core/choices.h: places chosen by probabilities, as PyTorch's multinomial chooses them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace hologram::python {

/// `rows` rows of `n` probabilities (floats of `dtype`; they need not sum to 1), `k` places of
/// each.
struct Choices {
  DType dtype;
  const void* chances;
  const void* numbers;
  int64_t* out;  ///< [rows, k]
  size_t rows, n, k;
};

/// Of each row k different places, k ≤ n: those of the largest quotients of probabilities and
/// `numbers`, which are [rows, n] of the same type, exponentially distributed.
/// False: there is a number below 0, an infinity, a NaN, or a row of zeros.
/// Throws Error(invalid_argument) for a type that is no float.
bool choose_once(const Choices&);

/// Of each row a place for each of k uniform `numbers`, float64 [rows, k]: where the sums of the
/// probabilities reach it. False and throws: likewise.
bool choose_again(const Choices&);

}  // namespace hologram::python
