// atlas/math/brief.h: functions of bfloat16 numbers whose results are rounded to bfloat16.
#pragma once

#include "atlas/math/exp.h"

namespace hologram::atlas::math {

/// x Phi(x) = max(x, 0) - a 2^p(a), a = |x|; NaN at -inf, as for other types.
template <class B>
Num<B, float> brief_gelu(Num<B, float> x) {
  using F = Num<B, float>;
  using Fm = Format<float>;
  F a = at_most(abs(x), 13.625f);  // there 0 in bfloat16
  F p = horner(a, table::gelu_bf16);
  // 2^(64 + p), which is a normal number
  constexpr float magic = Fm::round_magic + (Fm::bias + 64);
  F t = p + magic;
  F r = p - (t - magic);
  F y = horner(r, table::exp2_bf16) * (a * from_bits<float>(to_bits(t) << Fm::fraction_bits));
  return fma(y, -0x1p-64f, select(x < 0.0f, x * 0.0f, x));
}

/// The value of a unary operation, off by at most 0.02 units of a bfloat16; false in `known` if
/// there is no such sequence.
template <class B>
Num<B, float> brief_elementary(Op op, Num<B, float> x, bool& known) {
  known = op == Op::gelu;
  return known ? brief_gelu(x) : x;
}

}  // namespace hologram::atlas::math
