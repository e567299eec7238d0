// strips/avx2.cpp: the loops of AVX2.
#include "strips/vectors.h"

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

namespace hologram::strips::avx2 {
namespace {

using Register = __m256;
constexpr int lanes = 8, most_rows = 6, most_sums = 12;

inline Register zero() { return _mm256_setzero_ps(); }
inline Register load(const float* p) { return _mm256_loadu_ps(p); }
inline Register splat(float x) { return _mm256_set1_ps(x); }
inline void store(float* p, Register x) { _mm256_storeu_ps(p, x); }
inline Register add(Register x, Register y) { return _mm256_add_ps(x, y); }
inline Register fma(Register x, Register y, Register z) { return _mm256_fmadd_ps(x, y, z); }

}  // namespace
}  // namespace hologram::strips::avx2

#define HOLOGRAM_STRIPS avx2
#include "strips/loops.inc"

namespace hologram::strips {
const Vectors* avx2_vectors() { return &avx2::vectors; }
}  // namespace hologram::strips
#else
namespace hologram::strips {
const Vectors* avx2_vectors() { return nullptr; }
}  // namespace hologram::strips
#endif
