// atlas/tile_math.h: the arithmetic of tile products: sums of bfloat16 products as AMX defines
// them.
//
// A product with `terms` writes each operand x as t0 + t1 + …, where t(i) is a bfloat16 nearest
// to what t(0) … t(i - 1) leave of x. For each block of 512 values of k, a sum starts at +0; for
// each 32 of them (beyond K: zeros) and each pair of terms in tile_pairs(terms) it grows by one
// tile product: the sum of two chains of 16 fused multiply-adds from +0, one over the even values
// of k and one over the odd ones. This arithmetic rounds to nearest even, takes subnormal numbers
// for 0 and gives 0 instead of them. The blocks' sums are added in ascending order by ordinary
// additions; K = 0 gives +0.
//
// Operands of f32 hold values with which that would go wrong, so an element of the result is the
// chain of a product without terms unless its row and its column are `narrow` (nothing can overflow
// or become subnormal), or both are at least `wide` (every term is exact) and the sum's magnitude
// is in [least_wide_sum, infinity).
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace hologram::atlas {

inline constexpr int64_t tile_k_block = 512, tile_step = 32;

/// Which term of the left operand meets which of the right one.
struct TermPair {
  int lhs, rhs;
};

/// The products for so many terms, in the order in which they are added. Neighbours share an
/// operand, and the largest comes last.
inline std::span<const TermPair> tile_pairs(int terms) {
  static constexpr TermPair one[] = {{0, 0}};
  static constexpr TermPair two[] = {{1, 0}, {0, 0}, {0, 1}};
  static constexpr TermPair three[] = {{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}};
  if (terms == 1) return one;
  if (terms == 2) return two;
  return three;
}

/// How far the numbers of a row or column may be trusted to terms.
enum class Magnitudes : uint8_t { any, wide, narrow };

/// Bounds on the first term's magnitude, as bits of a bfloat16 without its sign; 0 is in all
/// ranges.
inline constexpr int bf16_exponent(int e) { return (127 + e) << 7; }
inline constexpr int narrow_least = bf16_exponent(-39), narrow_end = bf16_exponent(40);
inline constexpr int wide_least = bf16_exponent(-102), wide_end = bf16_exponent(127);
inline constexpr float least_wide_sum = 0x1p-90f;

inline Magnitudes magnitudes_of(uint16_t first_term) {
  int q = first_term & 0x7fff;
  if (q == 0 || (q >= narrow_least && q < narrow_end)) return Magnitudes::narrow;
  return q >= wide_least && q < wide_end ? Magnitudes::wide : Magnitudes::any;
}

inline float widen_bf16(uint16_t x) { return std::bit_cast<float>(uint32_t{x} << 16); }

/// The `count` terms of x, behind them zeros. The first one is 0 only if x is; of a NaN or infinity
/// the others mean nothing. Halfway numbers are rounded away from 0 where another term has the
/// rest, by the last of one or two to even; a third term is exact.
inline std::array<uint16_t, 3> terms_of(float x, int count) {
  std::array<uint16_t, 3> terms{};
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    auto bits = std::bit_cast<uint32_t>(x);
    if (i < 2) bits += i + 1 < static_cast<size_t>(count) ? 0x8000 : 0x7fff + (bits >> 16 & 1);
    terms[i] = static_cast<uint16_t>(bits >> 16);
    if (i == 0 && x != 0 && (terms[0] & 0x7fff) == 0) terms[0] |= 1;
    x -= widen_bf16(terms[i]);
  }
  return terms;
}

inline float flush_subnormal(float x) {
  return std::abs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
}

/// x * y + z in the arithmetic of tiles. What is below 2^-126 when it is rounded with any exponent
/// is 0, even if 2^-126 is the nearest float.
inline float tile_fma(float x, float y, float z) {
  x = flush_subnormal(x);
  y = flush_subnormal(y);
  z = flush_subnormal(z);
  float r = std::fma(x, y, z);
  if (std::abs(r) == 0x1p-126f) {
    float& small = std::abs(x) < std::abs(y) ? x : y;
    small *= 0x1p60f;
    if (std::abs(std::fma(x, y, z * 0x1p60f)) < 0x1p-66f) return std::copysign(0.0f, r);
  }
  return flush_subnormal(r);
}

inline float tile_add(float x, float y) {
  return flush_subnormal(flush_subnormal(x) + flush_subnormal(y));
}

}  // namespace hologram::atlas
