// tests/math/native.cpp: arithmetic of atlas::math::Num that computes: one value, or sixteen with
// AVX-512. The only file here that is compiled for the machine at hand (see libs.cmake), and
// without contraction.
#include "native.h"

#include <bit>
#include <cmath>
#include <vector>

#include "atlas/math/functions.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include <immintrin.h>
#endif

namespace hologram::atlas::math {
namespace {

/// One value at a time, as ir/ops.def defines the operations.
struct ScalarArithmetic {
  template <class T>
  using Value = T;
  static constexpr int lanes = 1;

  template <class T>
  static T load(const T* p) {
    return *p;
  }
  template <class T>
  static void store(T* p, T v) {
    *p = v;
  }
  template <class T>
  T constant(T c) {
    return c;
  }

  template <Op op, class T>
  T arithmetic(T x) {
    if constexpr (op == Op::neg) return -x;
    if constexpr (op == Op::abs) return std::fabs(x);
    if constexpr (op == Op::sqrt) return std::sqrt(x);
    if constexpr (op == Op::floor) return std::floor(x);
    if constexpr (op == Op::round) return std::nearbyint(x);
    if constexpr (op == Op::trunc) return std::trunc(x);
  }
  template <Op op, class T>
  T arithmetic(T x, T y) {
    using U = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    constexpr bool integer = std::is_integral_v<T> && !std::is_same_v<T, bool>;
    if constexpr (op == Op::add && integer)
      return static_cast<T>(U(x) + U(y));
    else if constexpr (op == Op::sub && integer)
      return static_cast<T>(U(x) - U(y));
    else if constexpr (op == Op::mul && integer)
      return static_cast<T>(U(x) * U(y));
    else if constexpr (op == Op::shl)
      return static_cast<T>(U(x) << U(y));
    else if constexpr (op == Op::shr)
      return x >> y;
    else if constexpr (op == Op::bit_and)
      return x & y;
    else if constexpr (op == Op::bit_or)
      return x | y;
    else if constexpr (op == Op::bit_xor)
      return x ^ y;
    else if constexpr (op == Op::add)
      return x + y;
    else if constexpr (op == Op::sub)
      return x - y;
    else if constexpr (op == Op::mul)
      return x * y;
    else if constexpr (op == Op::div)
      return x / y;
    else if constexpr (op == Op::copysign)
      return std::copysign(x, y);
  }
  template <Op op, class T>
  T arithmetic(T x, T y, T z) {
    return std::fma(x, y, z);
  }
  template <Op op, class T>
  bool compare(T x, T y) {
    if constexpr (op == Op::lt) return x < y;
    if constexpr (op == Op::le) return x <= y;
    if constexpr (op == Op::eq) return x == y;
    if constexpr (op == Op::ne) return x != y;
  }
  template <class T>
  T select(bool c, T x, T y) {
    return c ? x : y;
  }
  template <class To, class From>
  To convert(From x) {
    return static_cast<To>(x);
  }
  template <class To, class From>
  To bits(From x) {
    return std::bit_cast<To>(x);
  }
  template <class T, size_t n>
  T lookup(int32_t i, const std::array<T, n>& table) {
    return table[static_cast<uint32_t>(i) % n];
  }
};

#if defined(__AVX512F__) && defined(__AVX512DQ__)

struct Doubles {
  __m512d a, b;
};
struct Longs {
  __m512i a, b;
};

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  using type = __m512;
};
template <>
struct VectorOf<double> {
  using type = Doubles;
};
template <>
struct VectorOf<int32_t> {
  using type = __m512i;
};
template <>
struct VectorOf<int64_t> {
  using type = Longs;
};
template <>
struct VectorOf<bool> {
  using type = __mmask16;
};

/// Sixteen values at a time.
struct VectorArithmetic {
  template <class T>
  using Value = typename VectorOf<T>::type;
  static constexpr int lanes = 16;

  static __m512 load(const float* p) { return _mm512_loadu_ps(p); }
  static Doubles load(const double* p) { return {_mm512_loadu_pd(p), _mm512_loadu_pd(p + 8)}; }
  static void store(float* p, __m512 v) { _mm512_storeu_ps(p, v); }
  static void store(double* p, Doubles v) {
    _mm512_storeu_pd(p, v.a);
    _mm512_storeu_pd(p + 8, v.b);
  }

  template <class T>
  Value<T> constant(T c) {
    if constexpr (std::is_same_v<T, float>)
      return _mm512_set1_ps(c);
    else if constexpr (std::is_same_v<T, double>)
      return {_mm512_set1_pd(c), _mm512_set1_pd(c)};
    else if constexpr (std::is_same_v<T, int32_t>)
      return _mm512_set1_epi32(c);
    else if constexpr (std::is_same_v<T, int64_t>)
      return {_mm512_set1_epi64(c), _mm512_set1_epi64(c)};
    else
      return c ? 0xffff : 0;
  }

  template <Op op, class T>
  Value<T> arithmetic(Value<T> x) {
    if constexpr (std::is_same_v<T, double>)
      return {unary<op>(x.a), unary<op>(x.b)};
    else
      return unary<op>(x);
  }
  template <Op op, class T>
  Value<T> arithmetic(Value<T> x, Value<T> y) {
    if constexpr (std::is_same_v<T, double>)
      return {binary<op>(x.a, y.a), binary<op>(x.b, y.b)};
    else if constexpr (std::is_same_v<T, int64_t>)
      return {long_binary<op>(x.a, y.a), long_binary<op>(x.b, y.b)};
    else if constexpr (std::is_same_v<T, bool>) {
      if constexpr (op == Op::bit_and) return _kand_mask16(x, y);
      if constexpr (op == Op::bit_or) return _kor_mask16(x, y);
      if constexpr (op == Op::bit_xor) return _kxor_mask16(x, y);
    } else
      return binary<op>(x, y);
  }
  template <Op op, class T>
  Value<T> arithmetic(Value<T> x, Value<T> y, Value<T> z) {
    if constexpr (std::is_same_v<T, double>) {
      return {_mm512_fmadd_pd(x.a, y.a, z.a), _mm512_fmadd_pd(x.b, y.b, z.b)};
    } else
      return _mm512_fmadd_ps(x, y, z);
  }
  template <Op op, class T>
  __mmask16 compare(Value<T> x, Value<T> y) {
    constexpr int how = op == Op::lt ? _CMP_LT_OQ : op == Op::le ? _CMP_LE_OQ : op == Op::eq ? _CMP_EQ_OQ : _CMP_NEQ_UQ;
    constexpr int ints = op == Op::lt ? _MM_CMPINT_LT : op == Op::le ? _MM_CMPINT_LE : op == Op::eq ? _MM_CMPINT_EQ : _MM_CMPINT_NE;
    if constexpr (std::is_same_v<T, float>)
      return _mm512_cmp_ps_mask(x, y, how);
    else if constexpr (std::is_same_v<T, int32_t>)
      return _mm512_cmp_epi32_mask(x, y, ints);
    else if constexpr (std::is_same_v<T, double>)
      return join(_mm512_cmp_pd_mask(x.a, y.a, how), _mm512_cmp_pd_mask(x.b, y.b, how));
    else
      return join(_mm512_cmp_epi64_mask(x.a, y.a, ints), _mm512_cmp_epi64_mask(x.b, y.b, ints));
  }
  template <class T>
  Value<T> select(__mmask16 c, Value<T> x, Value<T> y) {
    if constexpr (std::is_same_v<T, float>)
      return _mm512_mask_blend_ps(c, y, x);
    else if constexpr (std::is_same_v<T, int32_t>)
      return _mm512_mask_blend_epi32(c, y, x);
    else if constexpr (std::is_same_v<T, double>)
      return {_mm512_mask_blend_pd(c & 0xff, y.a, x.a), _mm512_mask_blend_pd(c >> 8, y.b, x.b)};
    else
      return {_mm512_mask_blend_epi64(c & 0xff, y.a, x.a), _mm512_mask_blend_epi64(c >> 8, y.b, x.b)};
  }
  template <class To, class From>
  Value<To> convert(Value<From> x) {
    if constexpr (std::is_same_v<To, double> && std::is_same_v<From, float>) {
      return {_mm512_cvtps_pd(_mm512_castps512_ps256(x)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1))};
    } else if constexpr (std::is_same_v<To, float> && std::is_same_v<From, double>) {
      return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(x.a)), _mm512_cvtpd_ps(x.b), 1);
    } else {
      static_assert(std::is_same_v<To, float> && std::is_same_v<From, int32_t>);
      return _mm512_cvtepi32_ps(x);
    }
  }
  template <class To, class From>
  Value<To> bits(Value<From> x) {
    if constexpr (std::is_same_v<To, float>)
      return _mm512_castsi512_ps(x);
    else if constexpr (std::is_same_v<To, int32_t>)
      return _mm512_castps_si512(x);
    else if constexpr (std::is_same_v<To, double>)
      return {_mm512_castsi512_pd(x.a), _mm512_castsi512_pd(x.b)};
    else
      return {_mm512_castpd_si512(x.a), _mm512_castpd_si512(x.b)};
  }
  template <class T, size_t n>
  Value<T> lookup(__m512i i, const std::array<T, n>& table) {
    alignas(64) T entries[16];
    for (size_t k = 0; k < 16; ++k) entries[k] = table[k % n];
    if constexpr (std::is_same_v<T, float>)
      return _mm512_permutexvar_ps(i, _mm512_load_ps(entries));
    else
      return _mm512_permutexvar_epi32(i, _mm512_load_si512(entries));
  }

 private:
  static __mmask16 join(__mmask8 low, __mmask8 high) { return _mm512_kunpackb(high, low); }
  template <Op op>
  static __m512 unary(__m512 x) {
    if constexpr (op == Op::neg) return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));
    if constexpr (op == Op::abs) return _mm512_abs_ps(x);
    if constexpr (op == Op::sqrt) return _mm512_sqrt_ps(x);
    if constexpr (op == Op::floor) return _mm512_roundscale_ps(x, 9);
    if constexpr (op == Op::round) return _mm512_roundscale_ps(x, 8);
    if constexpr (op == Op::trunc) return _mm512_roundscale_ps(x, 11);
  }
  template <Op op>
  static __m512d unary(__m512d x) {
    if constexpr (op == Op::neg) return _mm512_xor_pd(x, _mm512_set1_pd(-0.0));
    if constexpr (op == Op::abs) return _mm512_abs_pd(x);
    if constexpr (op == Op::sqrt) return _mm512_sqrt_pd(x);
    if constexpr (op == Op::floor) return _mm512_roundscale_pd(x, 9);
    if constexpr (op == Op::round) return _mm512_roundscale_pd(x, 8);
    if constexpr (op == Op::trunc) return _mm512_roundscale_pd(x, 11);
  }
  template <Op op>
  static __m512 binary(__m512 x, __m512 y) {
    if constexpr (op == Op::add) return _mm512_add_ps(x, y);
    if constexpr (op == Op::sub) return _mm512_sub_ps(x, y);
    if constexpr (op == Op::mul) return _mm512_mul_ps(x, y);
    if constexpr (op == Op::div) return _mm512_div_ps(x, y);
    if constexpr (op == Op::copysign) {
      __m512i sign = _mm512_set1_epi32(INT32_MIN);
      return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(sign, _mm512_castps_si512(x), _mm512_castps_si512(y), 0xac));
    }
  }
  template <Op op>
  static __m512d binary(__m512d x, __m512d y) {
    if constexpr (op == Op::add) return _mm512_add_pd(x, y);
    if constexpr (op == Op::sub) return _mm512_sub_pd(x, y);
    if constexpr (op == Op::mul) return _mm512_mul_pd(x, y);
    if constexpr (op == Op::div) return _mm512_div_pd(x, y);
    if constexpr (op == Op::copysign) {
      __m512i sign = _mm512_set1_epi64(INT64_MIN);
      return _mm512_castsi512_pd(_mm512_ternarylogic_epi64(sign, _mm512_castpd_si512(x), _mm512_castpd_si512(y), 0xac));
    }
  }
  template <Op op>
  static __m512i binary(__m512i x, __m512i y) {
    if constexpr (op == Op::add) return _mm512_add_epi32(x, y);
    if constexpr (op == Op::sub) return _mm512_sub_epi32(x, y);
    if constexpr (op == Op::shl) return _mm512_sllv_epi32(x, y);
    if constexpr (op == Op::shr) return _mm512_srav_epi32(x, y);
    if constexpr (op == Op::bit_and) return _mm512_and_si512(x, y);
    if constexpr (op == Op::bit_or) return _mm512_or_si512(x, y);
    if constexpr (op == Op::bit_xor) return _mm512_xor_si512(x, y);
  }
  template <Op op>
  static __m512i long_binary(__m512i x, __m512i y) {
    if constexpr (op == Op::add) return _mm512_add_epi64(x, y);
    if constexpr (op == Op::sub) return _mm512_sub_epi64(x, y);
    if constexpr (op == Op::mul) return _mm512_mullo_epi64(x, y);
    if constexpr (op == Op::shl) return _mm512_sllv_epi64(x, y);
    if constexpr (op == Op::shr) return _mm512_srav_epi64(x, y);
    if constexpr (op == Op::bit_and) return _mm512_and_si512(x, y);
    if constexpr (op == Op::bit_or) return _mm512_or_si512(x, y);
    if constexpr (op == Op::bit_xor) return _mm512_xor_si512(x, y);
  }
};
using NativeArithmetic = VectorArithmetic;

#else
using NativeArithmetic = ScalarArithmetic;
#endif

/// A whole number of vectors: the last one is filled up with ones.
template <class T>
std::vector<T> padded(std::span<const T> in) {
  std::vector<T> v(in.begin(), in.end());
  while (v.size() % NativeArithmetic::lanes != 0) v.push_back(T(1));
  return v;
}

template <class T, class Function>
std::vector<T> map(Function f, std::span<const T> in) {
  std::vector<T> x = padded(in), y(x.size());
  NativeArithmetic b;
  for (size_t i = 0; i < x.size(); i += NativeArithmetic::lanes) {
    Num<NativeArithmetic, T> v{&b, NativeArithmetic::load(&x[i])};
    NativeArithmetic::store(&y[i], f(v, i).v);
  }
  y.resize(in.size());
  return y;
}

template <class T>
std::vector<T> unary(Op op, std::span<const T> in) {
  bool known = false;
  return map([&](auto x, size_t) { return elementary(op, x, known); }, in);
}

template <class T>
std::vector<T> binary(Op op, std::span<const T> left, std::span<const T> right) {
  std::vector<T> y = padded(right);
  bool known = false;
  auto f = [&](auto x, size_t i) { return elementary(op, x, decltype(x){x.b, NativeArithmetic::load(&y[i])}, known); };
  return map(f, left);
}

}  // namespace

std::vector<float> evaluate(Op op, std::span<const float> x) { return unary(op, x); }
std::vector<double> evaluate(Op op, std::span<const double> x) { return unary(op, x); }
std::vector<float> evaluate(Op op, std::span<const float> x, std::span<const float> y) { return binary(op, x, y); }
std::vector<double> evaluate(Op op, std::span<const double> x, std::span<const double> y) { return binary(op, x, y); }

}  // namespace hologram::atlas::math
