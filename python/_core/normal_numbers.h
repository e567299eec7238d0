// python/_core/normal_numbers.h: normally distributed numbers, rounded as PyTorch's kernels for the
// CPU round them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hologram::python {

/// Turns 16 · n uniform numbers from 0 to less than 1 into normal ones, by the transform of Box and
/// Muller within each 16: number j and number j + 8 are a radius and an angle. As PyTorch's vectors
/// of 8 floats compute it, with logarithm, sine and cosine as in the library Cephes.
void normal_of_uniform(float* numbers, size_t n, float mean, float std);
/// The same by the functions of the C library.
void normal_of_uniform(double* numbers, size_t n, double mean, double std);

/// Two independent numbers with mean 0 and deviation 1 of two uniform ones, by the C library.
struct NormalPair {
  double first, second;
};
NormalPair normal_pair(double u1, double u2);

}  // namespace hologram::python
