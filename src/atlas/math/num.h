// atlas/math/num.h: operands of the elementary functions: the same text builds a body or evaluates
// numbers.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "ir/op.h"

namespace hologram::atlas::math {

using ir::Op;

/// The element type that a C++ type stands for.
template <class T>
inline constexpr DType dtype_of = DType::host;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<bool> = DType::b8;

/// A value of C++ type T (float, double, int32_t, int64_t, bool) in the arithmetic of B. B offers
/// Value<T>, constant, arithmetic<op, T>, compare<op, T>, select<T>, convert<To, From>, bits<To,
/// From> and lookup<T>; BodyArithmetic (math.cpp) appends to a body, the tests have one that
/// computes.
template <class B, class T>
struct Num {
  using Arithmetic = B;
  using Scalar = T;
  B* b = nullptr;
  typename B::template Value<T> v{};

  Num of(T c) const { return {b, b->template constant<T>(c)}; }
};

template <class F>
using ScalarOf = typename F::Scalar;
template <class T>
using Plain = std::type_identity_t<T>;  // keeps a constant from taking part in deduction

/// Integers as wide as T.
template <class T>
using IntOf = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;

template <Op op, class B, class T, class... Rest>
Num<B, T> apply(Num<B, T> x, Rest... rest) {
  return {x.b, x.b->template arithmetic<op, T>(x.v, rest.v...)};
}
template <Op op, class B, class T>
Num<B, bool> test(Num<B, T> x, Num<B, T> y) {
  return {x.b, x.b->template compare<op, T>(x.v, y.v)};
}

#define HOLOGRAM_BINARY(sign, op)                \
  template <class B, class T>                    \
  auto operator sign(Num<B, T> x, Num<B, T> y) { \
    return apply<Op::op>(x, y);                  \
  }                                              \
  template <class B, class T>                    \
  auto operator sign(Num<B, T> x, Plain<T> y) {  \
    return apply<Op::op>(x, x.of(y));            \
  }                                              \
  template <class B, class T>                    \
  auto operator sign(Plain<T> x, Num<B, T> y) {  \
    return apply<Op::op>(y.of(x), y);            \
  }
HOLOGRAM_BINARY(+, add)
HOLOGRAM_BINARY(-, sub)
HOLOGRAM_BINARY(*, mul)
HOLOGRAM_BINARY(/, div)
HOLOGRAM_BINARY(&, bit_and)
HOLOGRAM_BINARY(|, bit_or)
HOLOGRAM_BINARY(^, bit_xor)
HOLOGRAM_BINARY(<<, shl)
HOLOGRAM_BINARY(>>, shr)
#undef HOLOGRAM_BINARY

#define HOLOGRAM_COMPARE(sign, op)               \
  template <class B, class T>                    \
  auto operator sign(Num<B, T> x, Num<B, T> y) { \
    return test<Op::op>(x, y);                   \
  }                                              \
  template <class B, class T>                    \
  auto operator sign(Num<B, T> x, Plain<T> y) {  \
    return test<Op::op>(x, x.of(y));             \
  }
HOLOGRAM_COMPARE(<, lt)
HOLOGRAM_COMPARE(<=, le)
HOLOGRAM_COMPARE(==, eq)
HOLOGRAM_COMPARE(!=, ne)
#undef HOLOGRAM_COMPARE
template <class B, class T>
auto operator>(Num<B, T> x, Plain<T> y) {
  return test<Op::lt>(x.of(y), x);
}
template <class B, class T>
auto operator>=(Num<B, T> x, Plain<T> y) {
  return test<Op::le>(x.of(y), x);
}

template <class B, class T>
Num<B, T> operator-(Num<B, T> x) {
  return apply<Op::neg>(x);
}
template <class B, class T>
Num<B, T> abs(Num<B, T> x) {
  return apply<Op::abs>(x);
}
template <class B, class T>
Num<B, T> sqrt(Num<B, T> x) {
  return apply<Op::sqrt>(x);
}
template <class B, class T>
Num<B, T> floor(Num<B, T> x) {
  return apply<Op::floor>(x);
}
template <class B, class T>
Num<B, T> round(Num<B, T> x) {
  return apply<Op::round>(x);
}
template <class B, class T>
Num<B, T> trunc(Num<B, T> x) {
  return apply<Op::trunc>(x);
}
template <class B, class T>
Num<B, T> copysign(Num<B, T> x, Num<B, T> y) {
  return apply<Op::copysign>(x, y);
}

/// x * y + z, rounded once.
template <class B, class T>
Num<B, T> fma(Num<B, T> x, Num<B, T> y, Num<B, T> z) {
  return apply<Op::fma>(x, y, z);
}
template <class B, class T>
Num<B, T> fma(Num<B, T> x, Plain<T> y, Num<B, T> z) {
  return fma(x, x.of(y), z);
}
template <class B, class T>
Num<B, T> fma(Num<B, T> x, Num<B, T> y, Plain<T> z) {
  return fma(x, y, x.of(z));
}
template <class B, class T>
Num<B, T> fma(Num<B, T> x, Plain<T> y, Plain<T> z) {
  return fma(x, x.of(y), x.of(z));
}

template <class B, class T>
Num<B, T> select(Num<B, bool> c, Num<B, T> x, Num<B, T> y) {
  return {c.b, c.b->template select<T>(c.v, x.v, y.v)};
}
template <class B, class T>
Num<B, T> select(Num<B, bool> c, Plain<T> x, Num<B, T> y) {
  return select(c, y.of(x), y);
}
template <class B, class T>
Num<B, T> select(Num<B, bool> c, Num<B, T> x, Plain<T> y) {
  return select(c, x, x.of(y));
}
/// c ? x : y of constants in the type of `like`.
template <class B, class T>
Num<B, T> choose(Num<B, bool> c, Num<B, T> like, Plain<T> x, Plain<T> y) {
  return select(c, like.of(x), like.of(y));
}

/// A number in another type: exact or rounded to nearest.
template <class To, class B, class From>
Num<B, To> convert(Num<B, From> x) {
  return {x.b, x.b->template convert<To, From>(x.v)};
}
/// The same bits as an integer, and back.
template <class B, class T>
Num<B, IntOf<T>> to_bits(Num<B, T> x) {
  return {x.b, x.b->template bits<IntOf<T>, T>(x.v)};
}
template <class T, class B>
Num<B, T> from_bits(Num<B, IntOf<T>> x) {
  return {x.b, x.b->template bits<T, IntOf<T>>(x.v)};
}

/// table[i mod its size].
template <class B, class T, size_t n>
Num<B, T> lookup(Num<B, int32_t> i, const std::array<T, n>& table) {
  static_assert(sizeof(T) == 4 && n <= 16 && (n & (n - 1)) == 0);
  return {i.b, i.b->template lookup<T>(i.v, table)};
}

/// x confined to [lo, hi]; NaN stays. The order of the operands is that of the x86 instructions.
template <class B, class T>
Num<B, T> at_least(Num<B, T> x, Plain<T> lo) {
  return select(x < lo, lo, x);
}
template <class B, class T>
Num<B, T> at_most(Num<B, T> x, Plain<T> hi) {
  return select(x > hi, hi, x);
}

/// c[0] + c[1] x + c[2] x^2 + … by Horner's rule: the fewest operations and roundings, one long
/// chain.
template <class B, class T, size_t N>
Num<B, T> horner(Num<B, T> x, const std::array<T, N>& c) {
  Num<B, T> y = fma(x, c[N - 1], c[N - 2]);
  for (size_t i = N - 2; i-- > 0;) y = fma(y, x, c[i]);
  return y;
}

/// The same with shorter chains: Horner's rule in x^2 on pairs of terms, for more than eight in x^4
/// on fours.
template <class B, class T, size_t N>
Num<B, T> polynomial(Num<B, T> x, const std::array<T, N>& c) {
  constexpr size_t step = N > 8 ? 4 : 2;
  Num<B, T> square = x * x, power = step == 4 ? square * square : square;
  auto pair = [&](size_t i) { return i + 1 < N ? fma(x, c[i + 1], c[i]) : x.of(c[i]); };
  auto block = [&](size_t i) {
    if (step == 2 || i + 2 >= N) return pair(i);
    return fma(pair(i + 2), square, pair(i));
  };
  size_t i = (N - 1) / step * step;
  Num<B, T> y = block(i);
  while (i > 0) {
    i -= step;
    y = fma(y, power, block(i));
  }
  return y;
}

/// The same but for the first `low` terms, which Horner's rule adds last: what is rounded before
/// counts little where these are the large ones.
template <size_t low, class B, class T, size_t N>
Num<B, T> polynomial_below(Num<B, T> x, const std::array<T, N>& c) {
  std::array<T, N - low> high;
  for (size_t i = low; i < N; ++i) high[i - low] = c[i];
  Num<B, T> y = polynomial(x, high);
  for (size_t i = low; i-- > 0;) y = fma(y, x, c[i]);
  return y;
}

/// An unevaluated sum hi + lo with |lo| at most half a unit in the last place of hi.
template <class F>
struct Double {
  F hi, lo;
};

/// a + b exactly, for |a| >= |b| or a = 0.
template <class F>
Double<F> fast_sum(F a, F b) {
  F s = a + b;
  return {s, b - (s - a)};
}
/// a + b exactly.
template <class F>
Double<F> exact_sum(F a, F b) {
  F s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
/// a * b exactly.
template <class F>
Double<F> exact_product(F a, F b) {
  F p = a * b;
  return {p, fma(a, b, -p)};
}
template <class F>
Double<F> operator*(Double<F> a, Double<F> b) {
  Double<F> p = exact_product(a.hi, b.hi);
  return fast_sum(p.hi, p.lo + fma(a.hi, b.lo, a.lo * b.hi));
}
template <class F>
Double<F> operator+(Double<F> a, Double<F> b) {
  Double<F> s = exact_sum(a.hi, b.hi);
  return fast_sum(s.hi, s.lo + (a.lo + b.lo));
}

}  // namespace hologram::atlas::math
