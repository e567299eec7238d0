// atlas/math/brief.h: functions of bfloat16 numbers whose results are rounded to bfloat16.
//
// gelu of a bfloat16: P(-a) = e^p(a), p by 16 pieces of degree 2 that the exponent and three bits
// of a + 5 choose; 2^(k/16) comes from a table, so that the rest of the exponential is 1 + r. sin
// and cos of one: x times 2/pi in pieces of 16 bits, chosen by the exponent, whose products are
// exact.
#pragma once

#include "atlas/math/exp.h"

namespace hologram::atlas::math {

/// x Phi(x) = max(x, 0) - a e^p(a), a = |x|, p by pieces; e^p is 2^(k / 16) (1 + r), 2^64 times as
/// large until the sum. NaN at -inf, as for other types.
template <class B>
Num<B, float> brief_gelu(Num<B, float> x) {
  using F = Num<B, float>;
  F a = at_most(abs(x), 13.625f);  // there 0 in bfloat16
  auto piece = to_bits(a + 5.0f) >> 20;
  F p = lookup(piece, table::gelu_bf16_2);
  p = fma(p, a, lookup(piece, table::gelu_bf16_1));
  p = fma(p, a, lookup(piece, table::gelu_bf16_0));
  constexpr float magic = 0x1.8p19f;  // the low bits of t are 16 n
  F t = fma(p, Format<float>::log2e, magic);
  F r = fma(t - magic, -0x1.62e43p-1f, p);
  auto sixteenths = to_bits(t);
  F y = a * from_bits<float>(lookup(sixteenths, table::power_sixteenth) + (sixteenths << 19));
  return fma(fma(y, r, y), -0x1p-64f, select(x < 0.0f, x * 0.0f, x));
}

/// sin of x and `offset` quarter turns. The products with the first two pieces of 2/pi are exact:
/// whole quarters drop out of them, and what is left has at most 31 bits.
template <class B>
Num<B, float> brief_sine(Num<B, float> x, int offset) {
  using F = Num<B, float>;
  F a = abs(x);
  auto window = to_bits(at_least(a, 2.0f)) >> 26;
  F scaled = x * 0x1p-40f;
  F first = scaled * lookup(window, table::quarters_bf16_0);
  F second = scaled * lookup(window, table::quarters_bf16_1);
  F n = round(first);
  F left = first - n;
  F m = round(left + second);
  F r = fma(scaled, lookup(window, table::quarters_bf16_2), (left - m) + second);
  auto quarters = to_bits((n + m) + Format<float>::round_magic);
  if (offset != 0) quarters = quarters + offset;
  F z = r * r;
  F sine = horner(z, table::sin_quarter_bf16) * r, cosine = horner(z, table::cos_quarter_bf16);
  F y = select((quarters & 1) != quarters.of(0), cosine, sine);
  y = from_bits<float>(to_bits(y) ^ ((quarters & 2) << 30));
  return offset != 0 ? y : select(a < 0x1p-7f, x, y);
}

/// The value of a unary operation, off by at most 0.02 units of a bfloat16 (gelu: 0.06); false in
/// `known` if there is no such sequence.
template <class B>
Num<B, float> brief_elementary(Op op, Num<B, float> x, bool& known) {
  known = true;
  switch (op) {
    case Op::gelu:
      return brief_gelu(x);
    case Op::sin:
      return brief_sine(x, 0);
    case Op::cos:
      return brief_sine(x, 1);
    default:
      known = false;
      return x;
  }
}

}  // namespace hologram::atlas::math
