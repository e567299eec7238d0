// atlas/math/functions.h: every elementary function of ir/ops.def by name.
#pragma once

#include "atlas/math/erf.h"
#include "atlas/math/gamma.h"

namespace hologram::atlas::math {

/// f in f64, for an argument of either type.
template <class B, class T, class Function, class... Rest>
Num<B, T> in_f64(Function f, Num<B, T> x, Rest... rest) {
  if constexpr (sizeof(T) == 8)
    return f(x, rest...);
  else
    return convert<float>(f(convert<double>(x), convert<double>(rest)...));
}

/// The value of a unary operation without Flag::exact; false in `known` if there is none of that
/// name.
template <class F>
F elementary(Op op, F x, bool& known) {
  [[maybe_unused]] constexpr bool precise = sizeof(ScalarOf<F>) == 8;
  known = true;
  switch (op) {
    case Op::rsqrt:
      return rsqrt(x);
    case Op::cbrt:
      return in_f64([](auto v) { return cbrt<precise>(v); }, x);
    case Op::exp:
      return exp(x);
    case Op::exp2:
      return exp2(x);
    case Op::expm1:
      return expm1(x);
    case Op::log:
      return log(x);
    case Op::log2:
      return log2(x);
    case Op::log10:
      return log10(x);
    case Op::log1p:
      return log1p(x);
    case Op::sin:
      return sin(x);
    case Op::cos:
      return cos(x);
    case Op::tan:
      return tan(x);
    case Op::asin:
      return in_f64([](auto v) { return asin<precise>(v); }, x);
    case Op::acos:
      return in_f64([](auto v) { return acos<precise>(v); }, x);
    case Op::atan:
      return in_f64([](auto v) { return atan<precise>(v); }, x);
    case Op::sinh:
      return in_f64([](auto v) { return sinh<precise>(v); }, x);
    case Op::cosh:
      return in_f64([](auto v) { return cosh<precise>(v); }, x);
    case Op::tanh:
      return tanh(x);
    case Op::asinh:
      return asinh(x);
    case Op::acosh:
      return acosh(x);
    case Op::atanh:
      return atanh(x);
    case Op::sigmoid:
      return sigmoid(x);
    case Op::erf:
      return erf(x);
    case Op::erfc:
      return in_f64([](auto v) { return erfc<precise>(v); }, x);
    case Op::erfinv:
      return erfinv(x);
    case Op::gelu:
      return gelu(x);
    case Op::lgamma:
      return in_f64([](auto v) { return lgamma(v); }, x);
    case Op::digamma:
      return in_f64([](auto v) { return digamma<precise>(v); }, x);
    default:
      known = false;
      return x;
  }
}

/// The same for binary operations.
template <class F>
F elementary(Op op, F x, F y, bool& known) {
  [[maybe_unused]] constexpr bool precise = sizeof(ScalarOf<F>) == 8;
  known = true;
  switch (op) {
    case Op::pow:
      return in_f64([](auto u, auto v) { return power<precise>(u, v); }, x, y);
    case Op::atan2:
      return in_f64([](auto u, auto v) { return atan2<precise>(u, v); }, x, y);
    default:
      known = false;
      return x;
  }
}

}  // namespace hologram::atlas::math
