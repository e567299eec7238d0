// tests/math/native.cpp: arithmetic of atlas::math::Num that computes, sixteen values at a time. The only file here that is
// compiled for the machine at hand (see libs.cmake), and without contraction.
#include "native.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "atlas/math/functions.h"

namespace hologram::atlas::math {
namespace {

constexpr size_t lanes = 16;

template <class T>
struct LanesOf {
  using type [[gnu::vector_size(lanes * sizeof(T))]] = T;
};
template <>
struct LanesOf<bool> : LanesOf<int32_t> {};  // 0 or -1
template <class T>
using Lanes = typename LanesOf<T>::type;

/// f of each lane, for what vectors have no operator.
template <class T, class F, class... Rest>
Lanes<T> each(F f, const Lanes<T>& x, const Rest&... rest) {
  Lanes<T> y;
  for (size_t k = 0; k < lanes; ++k) y[k] = f(x[k], rest[k]...);
  return y;
}

/// As ir/ops.def defines the operations.
struct NativeArithmetic {
  template <class T>
  using Value = Lanes<T>;

  template <class T>
  Lanes<T> constant(T c) {
    if constexpr (std::is_same_v<T, bool>)
      return Lanes<T>{} - int32_t{c};
    else
      return c - Lanes<T>{};
  }

  template <Op op, class T>
  Lanes<T> arithmetic(const Lanes<T>& x) {
    if constexpr (op == Op::neg) return -x;
    if constexpr (op == Op::abs) return Lanes<T>(Lanes<IntOf<T>>(x) & std::numeric_limits<IntOf<T>>::max());
    if constexpr (op == Op::sqrt) return each<T>([](T a) { return std::sqrt(a); }, x);
    if constexpr (op == Op::floor) return each<T>([](T a) { return std::floor(a); }, x);
    if constexpr (op == Op::round) return each<T>([](T a) { return std::nearbyint(a); }, x);
    if constexpr (op == Op::trunc) return each<T>([](T a) { return std::trunc(a); }, x);
  }
  template <Op op, class T>
  Lanes<T> arithmetic(const Lanes<T>& x, const Lanes<T>& y) {
    if constexpr (std::is_integral_v<T>) {
      using U = Lanes<std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>;
      if constexpr (op == Op::add) return Lanes<T>(U(x) + U(y));
      if constexpr (op == Op::sub) return Lanes<T>(U(x) - U(y));
      if constexpr (op == Op::mul) return Lanes<T>(U(x) * U(y));
      if constexpr (op == Op::shl) return Lanes<T>(U(x) << U(y));
      if constexpr (op == Op::shr) return x >> y;
      if constexpr (op == Op::bit_and) return x & y;
      if constexpr (op == Op::bit_or) return x | y;
      if constexpr (op == Op::bit_xor) return x ^ y;
    } else {
      if constexpr (op == Op::add) return x + y;
      if constexpr (op == Op::sub) return x - y;
      if constexpr (op == Op::mul) return x * y;
      if constexpr (op == Op::div) return x / y;
      if constexpr (op == Op::copysign) {
        using Int = Lanes<IntOf<T>>;
        constexpr auto sign = std::numeric_limits<IntOf<T>>::min();
        return Lanes<T>((Int(x) & ~sign) | (Int(y) & sign));
      }
    }
  }
  template <Op op, class T>
  Lanes<T> arithmetic(const Lanes<T>& x, const Lanes<T>& y, const Lanes<T>& z) {
    return each<T>([](T a, T b, T c) { return std::fma(a, b, c); }, x, y, z);
  }
  template <Op op, class T>
  Lanes<bool> compare(const Lanes<T>& x, const Lanes<T>& y) {
    const auto holds = op == Op::lt ? x < y : op == Op::le ? x <= y : op == Op::eq ? x == y : x != y;
    return __builtin_convertvector(holds, Lanes<bool>);
  }
  template <class T>
  Lanes<T> select(const Lanes<bool>& c, const Lanes<T>& x, const Lanes<T>& y) {
    return __builtin_convertvector(c, Lanes<IntOf<T>>) ? x : y;
  }
  template <class To, class From>
  Lanes<To> convert(const Lanes<From>& x) {
    return __builtin_convertvector(x, Lanes<To>);
  }
  template <class To, class From>
  Lanes<To> bits(const Lanes<From>& x) {
    return Lanes<To>(x);
  }
  template <class T, size_t n>
  Lanes<T> lookup(const Lanes<int32_t>& i, const std::array<T, n>& table) {
    Lanes<T> entries;
    for (size_t k = 0; k < lanes; ++k) entries[k] = table[k % n];
    return __builtin_shuffle(entries, i);
  }
};

/// A whole number of vectors: the last one is filled up with ones.
template <class T>
std::vector<T> padded(std::span<const T> in) {
  std::vector<T> v(in.begin(), in.end());
  while (v.size() % lanes != 0) v.push_back(T(1));
  return v;
}

template <class T>
Lanes<T> load(const T* from) {
  Lanes<T> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

template <class T, class Function>
std::vector<T> map(Function f, std::span<const T> in) {
  std::vector<T> x = padded(in), y(x.size());
  NativeArithmetic b;
  for (size_t i = 0; i < x.size(); i += lanes) {
    const Lanes<T> v = f(Num<NativeArithmetic, T>{&b, load(&x[i])}, i).v;
    std::memcpy(&y[i], &v, sizeof v);
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
  auto f = [&](auto x, size_t i) { return elementary(op, x, decltype(x){x.b, load(&y[i])}, known); };
  return map(f, left);
}

}  // namespace

std::vector<float> evaluate(Op op, std::span<const float> x) { return unary(op, x); }
std::vector<double> evaluate(Op op, std::span<const double> x) { return unary(op, x); }
std::vector<float> evaluate(Op op, std::span<const float> x, std::span<const float> y) { return binary(op, x, y); }
std::vector<double> evaluate(Op op, std::span<const double> x, std::span<const double> y) { return binary(op, x, y); }

}  // namespace hologram::atlas::math
