// python/_core/narrow.h: floats of 16 bits as PyTorch's kernels round them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "base/error.h"
#include "base/for_each_isa.h"

namespace hologram::python {

// Types of 16 bits are made of a float each, and numbers that are given as doubles of the float
// nearest to them.
struct Bf16 {
  uint16_t bits;
  Bf16() = default;
  HOLOGRAM_INLINE explicit Bf16(float x) {
    const auto u = std::bit_cast<uint32_t>(x);
    bits = x != x ? uint16_t{0x7fc0} : static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  HOLOGRAM_INLINE explicit operator float() const {
    return std::bit_cast<float>(uint32_t{bits} << 16);
  }
  HOLOGRAM_INLINE bool operator==(Bf16 other) const {
    return static_cast<float>(*this) == static_cast<float>(other);
  }
};
// By integers: a compiler's own type calls functions of a newer libgcc than wheels may ask for.
struct F16 {
  uint16_t bits;
  F16() = default;
  HOLOGRAM_INLINE explicit F16(float x) {
    const auto u = std::bit_cast<uint32_t>(x);
    const uint32_t a = u & 0x7fffffffU;
    // Sums with 1/2, whose last place is a half's least number, round subnormal ones.
    const uint32_t small =
        std::bit_cast<uint32_t>(std::bit_cast<float>(a) + 0.5F) - std::bit_cast<uint32_t>(0.5F);
    const uint32_t normal = std::min((a - 0x38000000U + 0xfffU + ((a >> 13) & 1)) >> 13, 0x7c00U);
    const uint32_t finite = a < 0x38800000U ? small : normal;
    bits = static_cast<uint16_t>((u >> 16 & 0x8000U) | (x != x ? 0x7e00U : finite));
  }
  HOLOGRAM_INLINE explicit operator float() const {
    const uint32_t a = uint32_t{bits} & 0x7fffU, sign = uint32_t{bits} >> 15 << 31;
    const float small = std::bit_cast<float>((a << 13) + 0x38800000U) - 0x1p-14F;
    const uint32_t large = (a << 13) + (a < 0x7c00U ? 0x38000000U : 0x70000000U);
    return std::bit_cast<float>(sign | (a < 0x400U ? std::bit_cast<uint32_t>(small) : large));
  }
  HOLOGRAM_INLINE bool operator==(F16 other) const {
    return static_cast<float>(*this) == static_cast<float>(other);
  }
};

template <typename T>
constexpr bool is_narrow = std::is_same_v<T, Bf16> || std::is_same_v<T, F16>;
/// In which formulas compute.
template <typename T>
using Wide = std::conditional_t<is_narrow<T>, float, T>;

template <typename T, typename V>
HOLOGRAM_INLINE T to(V x) {
  if constexpr (is_narrow<T>)
    return T(static_cast<float>(x));
  else if constexpr (std::is_floating_point_v<V> && std::is_integral_v<T>)
    return static_cast<T>(static_cast<int64_t>(x));
  else
    return static_cast<T>(x);
}

/// f.operator()<T>() for the type of floats that `dtype` is.
template <typename F>
auto with_float(DType dtype, const char* what, F&& f) {
  switch (dtype) {
    case DType::f16:
      return f.template operator()<F16>();
    case DType::bf16:
      return f.template operator()<Bf16>();
    case DType::f32:
      return f.template operator()<float>();
    case DType::f64:
      return f.template operator()<double>();
    default:
      fail(ErrorCode::invalid_argument, "{}: no numbers of dtype {}", what, name_of(dtype));
  }
}

}  // namespace hologram::python
