// atlas/math/functions.h: every function of ir/ops.def by its operation.
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

#define HOLOGRAM_EVALUATE_narrow(name, ...) name(__VA_ARGS__)
#define HOLOGRAM_EVALUATE_wide(name, ...) \
  in_f64([](auto... v) { return name<precise>(v...); }, __VA_ARGS__)

/// The value of a unary operation without Flag::exact; false in `known` if there is none of that
/// name.
template <class F>
F elementary(Op op, F x, bool& known) {
  [[maybe_unused]] constexpr bool precise = sizeof(ScalarOf<F>) == 8;
  known = true;
  switch (op) {
#define HOLOGRAM_CASE_unary_float(name, width) \
  case Op::name:                               \
    return HOLOGRAM_EVALUATE_##width(name, x);
#define HOLOGRAM_CASE_binary_float(name, width)
#define HOLOGRAM_FUNCTION(name, kind, arity, flags, width, ulp32, ulp64, doc) \
  HOLOGRAM_CASE_##kind(name, width)
#include "ir/ops.def"
#undef HOLOGRAM_CASE_unary_float
#undef HOLOGRAM_CASE_binary_float
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
#define HOLOGRAM_CASE_unary_float(name, width)
#define HOLOGRAM_CASE_binary_float(name, width) \
  case Op::name:                                \
    return HOLOGRAM_EVALUATE_##width(name, x, y);
#define HOLOGRAM_FUNCTION(name, kind, arity, flags, width, ulp32, ulp64, doc) \
  HOLOGRAM_CASE_##kind(name, width)
#include "ir/ops.def"
#undef HOLOGRAM_CASE_unary_float
#undef HOLOGRAM_CASE_binary_float
    default:
      known = false;
      return x;
  }
}

#undef HOLOGRAM_EVALUATE_narrow
#undef HOLOGRAM_EVALUATE_wide

}  // namespace hologram::atlas::math
