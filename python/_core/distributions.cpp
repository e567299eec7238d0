// python/_core/distributions.cpp: the formulas of PyTorch's distributions, with its types and
// roundings.
#include "distributions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/for_each_isa.h"
#include "narrow.h"
#include "normal_numbers.h"

namespace hologram::python {
namespace {

// a b + c, rounded once: as compilers make it of PyTorch's formulas.
HOLOGRAM_INLINE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
HOLOGRAM_INLINE double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }

HOLOGRAM_INLINE uint64_t long_number(const uint32_t* words) {
  return uint64_t{words[0]} << 32 | words[1];
}
HOLOGRAM_INLINE double unit(const uint32_t* words) {
  return static_cast<double>(static_cast<int64_t>(long_number(words) & ((uint64_t{1} << 53) - 1))) *
         0x1p-53;
}
HOLOGRAM_INLINE float unit_of_word(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word & 0xffffffU)) * 0x1p-24F;
}

template <typename T>
HOLOGRAM_FOR_EACH_ISA void uniform(const Parameters& p, const uint32_t* words, void* memory,
                                   size_t n) {
  using W = Wide<T>;
  auto* out = static_cast<T*>(memory);
  const W low = static_cast<W>(p.a), range = static_cast<W>(p.b) - low;
  const T first = to<T>(p.a), last = to<T>(p.b);
  for (size_t i = 0; i < n; ++i) {
    W x;
    if constexpr (std::is_same_v<T, double>)
      x = unit(words + 2 * i);
    else
      x = unit_of_word(words[i]);
    const T value = to<T>(fused(x, range, low));
    out[i] = value == last ? first : value;  // rounded up to the bound, which is not among them
  }
}

template <typename T>
HOLOGRAM_FOR_EACH_ISA void convert(const float* from, T* out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = to<T>(from[i]);
}

template <typename T>
void normal(const Parameters& p, const uint32_t* words, void* memory, size_t n) {
  using W = Wide<T>;
  auto* out = static_cast<T*>(memory);
  constexpr Parameters ones{0, 1};
  if constexpr (!is_narrow<T>) {
    uniform<T>(ones, words, out, 16 * n);
    normal_of_uniform(out, n, static_cast<W>(p.a), static_cast<W>(p.b));
  } else {
    constexpr size_t most = 16;
    W numbers[16 * most];
    for (size_t some; n > 0; n -= some, words += 16 * some, out += 16 * some) {
      some = std::min(n, most);
      uniform<W>(ones, words, numbers, 16 * some);
      normal_of_uniform(numbers, some, static_cast<W>(p.a), static_cast<W>(p.b));
      convert(numbers, out, 16 * some);
    }
  }
}

template <typename T, bool log>
HOLOGRAM_INLINE T normal_number(double sample, const Parameters& p) {
  const double x = fused(sample, p.b, p.a);
  return to<T>(log ? std::exp(x) : x);
}

template <typename T, bool log>
void pairs(const Parameters& p, const uint32_t* words, void* memory, size_t n) {
  auto* out = static_cast<T*>(memory);
  for (; n > 0; --n, words += 4) {
    const NormalPair pair = normal_pair(unit(words), unit(words + 2));
    *out++ = normal_number<T, log>(pair.first, p);
    *out++ = normal_number<T, log>(pair.second, p);
  }
}

// 1 where a uniform number is below the probability that stands there, else 0.
template <typename T>
HOLOGRAM_FOR_EACH_ISA void chances(const Parameters&, const uint32_t* words, void* memory,
                                   size_t n) {
  auto* out = static_cast<T*>(memory);
  for (size_t i = 0; i < n; ++i) {
    bool below;
    if constexpr (std::is_same_v<T, double>)
      below = unit(words + 2 * i) < out[i];
    else
      below = unit_of_word(words[i]) < static_cast<float>(out[i]);
    out[i] = to<T>(below ? 1.0F : 0.0F);
  }
}

template <typename T, double (*formula)(double, const Parameters&)>
void of_units(const Parameters& p, const uint32_t* words, void* memory, size_t n) {
  auto* out = static_cast<T*>(memory);
  for (size_t i = 0; i < n; ++i) out[i] = to<T>(formula(unit(words + 2 * i), p));
}

double cauchy(double u, const Parameters& p) {
  return fused(p.b, std::tan(std::numbers::pi * (u - 0.5)), p.a);
}
double exponential(double u, const Parameters& p) { return -1.0 / p.a * std::log1p(-u); }
double geometric(double u, const Parameters& p) {
  return std::ceil(std::log(u) / std::log1p(-p.a));
}

// Remainders of numbers of 32 bits by two multiplications: Lemire, Kaser, Kurz, "Faster remainder
// by direct computation" (2019).
template <typename T>
void integers(const Parameters& p, const uint32_t* words, void* memory, size_t n) {
  auto* out = static_cast<T*>(memory);
  const bool as_is = p.modulus == 0 || p.modulus >> 32 != 0;
  const uint64_t inverse = as_is ? 0 : ~uint64_t{0} / p.modulus + 1;
  for (size_t i = 0; i < n; ++i) {
    uint64_t rest = words[i];
    if (!as_is)
      rest =
          static_cast<uint64_t>((static_cast<unsigned __int128>(inverse * rest) * p.modulus) >> 64);
    out[i] = to<T>(static_cast<int64_t>(rest + static_cast<uint64_t>(p.base)));
  }
}

template <typename T>
void long_integers(const Parameters& p, const uint32_t* words, void* memory, size_t n) {
  auto* out = static_cast<T*>(memory);
  for (size_t i = 0; i < n; ++i) {
    uint64_t rest = long_number(words + 2 * i);
    if (p.modulus != 0) rest %= p.modulus;
    out[i] = to<T>(static_cast<int64_t>(rest + static_cast<uint64_t>(p.base)));
  }
}

template <typename T>
Maker of_type(std::string_view kind) {
  constexpr bool wide = std::is_same_v<T, double>;
  if constexpr (std::is_floating_point_v<T> || is_narrow<T>) {
    if (kind == "uniform") return {wide ? 2U : 1U, 1, false, uniform<T>};
    if (kind == "chances") return {wide ? 2U : 1U, 1, false, chances<T>};
    if (kind == "normal") return {wide ? 32U : 16U, 16, true, normal<T>};
    if (kind == "pairs") return {4, 2, true, pairs<T, false>};
    if (kind == "log_normal") return {4, 2, true, pairs<T, true>};
    if (kind == "cauchy") return {2, 1, true, of_units<T, cauchy>};
    if (kind == "exponential") return {2, 1, true, of_units<T, exponential>};
  }
  if (kind == "geometric") return {2, 1, true, of_units<T, geometric>};
  if (kind == "integers") return {1, 1, false, integers<T>};
  if (kind == "long_integers") return {2, 1, false, long_integers<T>};
  return {};
}

template <typename F>
auto with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::b8:
      return f.template operator()<bool>();
    case DType::u8:
      return f.template operator()<uint8_t>();
    case DType::i8:
      return f.template operator()<int8_t>();
    case DType::i16:
      return f.template operator()<int16_t>();
    case DType::i32:
      return f.template operator()<int32_t>();
    case DType::i64:
      return f.template operator()<int64_t>();
    default:
      return with_float(dtype, "draw", f);
  }
}

}  // namespace

Maker maker_of(std::string_view kind, DType dtype) {
  const Maker found = with_type(dtype, [&]<typename T>() { return of_type<T>(kind); });
  if (!found.make)
    fail(ErrorCode::invalid_argument, "draw: no kind \"{}\" of dtype {}", kind, name_of(dtype));
  return found;
}

void put_normal(double sample, const Parameters& p, bool log, DType dtype, void* out) {
  with_type(dtype, [&]<typename T>() {
    *static_cast<T*>(out) =
        log ? normal_number<T, true>(sample, p) : normal_number<T, false>(sample, p);
  });
}

double unit_number(const uint32_t* words) { return unit(words); }

}  // namespace hologram::python
