// strips/avx512.cpp: the loops of AVX-512.
#include "strips/vectors.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include <immintrin.h>

namespace hologram::strips::avx512 {
namespace {

using Register = __m512;
constexpr int lanes = 16, most_rows = 12, most_sums = 24;

inline Register zero() { return _mm512_setzero_ps(); }
inline Register load(const float* p) { return _mm512_loadu_ps(p); }
inline Register splat(float x) { return _mm512_set1_ps(x); }
inline void store(float* p, Register x) { _mm512_storeu_ps(p, x); }
inline Register add(Register x, Register y) { return _mm512_add_ps(x, y); }
inline Register fma(Register x, Register y, Register z) { return _mm512_fmadd_ps(x, y, z); }

}  // namespace
}  // namespace hologram::strips::avx512

#define HOLOGRAM_STRIPS avx512
#include "strips/loops.inc"

namespace hologram::strips {
const Vectors* avx512_vectors() { return &avx512::vectors; }
}  // namespace hologram::strips
#else
namespace hologram::strips {
const Vectors* avx512_vectors() { return nullptr; }
}  // namespace hologram::strips
#endif
