// python/_core/normal_numbers.cpp: the transform of Box and Muller.
#include "normal_numbers.h"

#include <cmath>
#include <initializer_list>
#include <numbers>

#include "base/for_each_isa.h"

namespace hologram::python {
namespace {

using Floats = float __attribute__((vector_size(32), aligned(4), may_alias));
using Ints = int32_t __attribute__((vector_size(32), aligned(4), may_alias));
constexpr size_t lanes = 8;

HOLOGRAM_INLINE Floats floats(Ints bits) { return reinterpret_cast<Floats&>(bits); }
HOLOGRAM_INLINE Ints bits(Floats x) { return reinterpret_cast<Ints&>(x); }
HOLOGRAM_INLINE Floats where(Ints chosen, Floats a, Floats b) {
  return floats((chosen & bits(a)) | (~chosen & bits(b)));
}

// a b + c, rounded once.
HOLOGRAM_INLINE Floats multiply_add(Floats a, Floats b, Floats c) {
  Floats out;
  for (size_t i = 0; i < lanes; ++i) out[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return out;
}
HOLOGRAM_INLINE Floats all(float x) { return Floats{} + x; }

// c[0] x^n + … + c[n].
template <size_t n>
HOLOGRAM_INLINE Floats polynomial(Floats x, const float (&c)[n]) {
  Floats y = all(c[0]);
#pragma GCC unroll 16
  for (size_t i = 1; i < n; ++i) y = multiply_add(y, x, all(c[i]));
  return y;
}

// Of positive numbers that are not subnormal: x = f 2^e with f from sqrt(1/2) to sqrt(2), and a
// polynomial in f - 1.
HOLOGRAM_INLINE Floats logarithm(Floats x) {
  Floats e = __builtin_convertvector((bits(x) >> 23) - 126, Floats);
  const Floats half = floats((bits(x) & 0x007fffff) | 0x3f000000);  // from 1/2 to less than 1
  const Ints low = half < 0.707106781186547524F;
  e -= floats(low & bits(all(1.0F)));
  x = (half - 1.0F) + floats(low & bits(half));
  const Floats z = x * x;
  const Floats high = polynomial(x, {7.0376836292E-2F, -1.1514610310E-1F, 1.1676998740E-1F,
                                     -1.2420140846E-1F, 1.4249322787E-1F, -1.6668057665E-1F,
                                     2.0000714765E-1F, -2.4999993993E-1F, 3.3333331174E-1F});
  Floats y = multiply_add(high * x, z, e * -2.12194440e-4F);
  y = multiply_add(z, all(-0.5F), y);
  return multiply_add(e, all(0.693359375F), x + y);
}

struct SineCosine {
  Floats sine, cosine;
};

// Of angles from 0 to 2 pi: what remains beside the nearest even multiple of pi / 4, whose number
// says which of two polynomials is which, and the signs.
HOLOGRAM_INLINE SineCosine sine_cosine(Floats x) {
  const Ints octant = (__builtin_convertvector(x * 1.27323954473516F, Ints) + 1) & ~1;
  const Floats turns = __builtin_convertvector(octant, Floats);
  for (const float part : {-0.78515625F, -2.4187564849853515625e-4F, -3.77489497744594108e-8F})
    x = multiply_add(turns, all(part), x);
  const Floats z = x * x;
  const Floats c2 =
      polynomial(z, {2.443315711809948E-005F, -1.388731625493765E-003F, 4.166664568298827E-002F});
  const Floats c = multiply_add(c2 * z, z, z * -0.5F) + 1.0F;
  const Floats s2 = polynomial(z, {-1.9515295891E-4F, 8.3321608736E-3F, -1.6666654611E-1F});
  const Floats s = multiply_add(s2 * z, x, x);
  const Ints straight = (octant & 2) == 0;
  const Ints minus_sine = (octant & 4) << 29, minus_cosine = (~(octant - 2) & 4) << 29;
  return {floats(bits(where(straight, s, c)) ^ minus_sine),
          floats(bits(where(straight, c, s)) ^ minus_cosine)};
}

HOLOGRAM_INLINE Floats square_root(Floats x) {
  Floats out;
  for (size_t i = 0; i < lanes; ++i) out[i] = __builtin_sqrtf(x[i]);
  return out;
}

HOLOGRAM_FOR_EACH_ISA void in_vectors(float* numbers, size_t n, float mean, float std) {
  for (size_t i = 0; i < n; ++i, numbers += 16) {
    auto& first = *reinterpret_cast<Floats*>(numbers);
    auto& second = *reinterpret_cast<Floats*>(numbers + lanes);
    const Floats radius = square_root(logarithm(1.0F - first) * -2.0F);
    const SineCosine at = sine_cosine(second * (2.0F * std::numbers::pi_v<float>));
    first = multiply_add(radius * at.cosine, all(std), all(mean));
    second = multiply_add(radius * at.sine, all(std), all(mean));
  }
}

}  // namespace

void normal_of_uniform(float* numbers, size_t n, float mean, float std) {
  in_vectors(numbers, n, mean, std);
}

void normal_of_uniform(double* numbers, size_t n, double mean, double std) {
  for (size_t i = 0; i < n; ++i, numbers += 16)
    for (size_t j = 0; j < 8; ++j) {
      const double radius = std::sqrt(-2 * std::log(1 - numbers[j]));
      const double angle = 2 * std::numbers::pi * numbers[j + 8];
      numbers[j] = std::fma(radius * std::cos(angle), std, mean);
      numbers[j + 8] = std::fma(radius * std::sin(angle), std, mean);
    }
}

NormalPair normal_pair(double u1, double u2) {
  const double radius = std::sqrt(-2.0 * std::log1p(-u2));
  const double angle = 2.0 * std::numbers::pi * u1;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace hologram::python
