// emulator/values.cpp: what instructions compute, lane by lane.
#include "emulator/values.h"

#include <bit>
#include <cmath>
#include <map>

namespace ptx {
namespace {

using i64 = int64_t;
using u64 = uint64_t;

template <class F>
bool each(uint32_t mask, F&& f) {
  for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
  return true;
}

u64 cut(u64 v, int bits) { return bits >= 64 ? v : v & ((u64{1} << bits) - 1); }
i64 signed_of(u64 v, int bits) {
  return bits >= 64 ? static_cast<i64>(v) : static_cast<i64>(v << (64 - bits)) >> (64 - bits);
}

float f32(u64 v) { return std::bit_cast<float>(static_cast<uint32_t>(v)); }
double f64(u64 v) { return std::bit_cast<double>(v); }
// Arithmetic gives one NaN.
u64 bits(float x) { return std::isnan(x) ? 0x7fffffffu : std::bit_cast<uint32_t>(x); }
u64 bits(double x) { return std::bit_cast<u64>(x); }
// 2^n, a normal number.
double power(int n) { return std::bit_cast<double>(static_cast<u64>(n + 1023) << 52); }

double half(u64 v) {
  const int sign = v >> 15 & 1, exponent = v >> 10 & 31, mantissa = v & 1023;
  double x = exponent == 31 ? (mantissa ? NAN : INFINITY)
             : exponent     ? (1024 + mantissa) * power(exponent - 25)
                            : mantissa * power(-24);
  return sign ? -x : x;
}
u64 half_bits(double x) {  // of an f32 or f64, rounded to nearest even
  if (std::isnan(x)) return 0x7fff;
  const u64 sign = std::signbit(x) ? 0x8000 : 0;
  const double a = std::fabs(x);
  if (a >= 65520) return sign | 0x7c00;
  if (a == 0) return sign;
  int e = 0;
  std::frexp(a, &e);
  const int unit = std::max(e - 11, -24);
  const auto m = static_cast<u64>(std::nearbyint(std::ldexp(a, -unit)));
  if (unit == -24) return sign | m;
  return sign | ((static_cast<u64>(unit + 24) << 10) + m);  // m from 1024 on: adds to the exponent
}

template <class F>
bool floats(const Instr& i, const u64* const* a, uint32_t on, u64* out, F&& f) {
  if (i.type.bits == 32)
    return each(on, [&](int l) { out[l] = bits(f(f32(a[0][l]), a[1] ? f32(a[1][l]) : 0.0f)); });
  if (i.type.bits == 64)
    return each(on, [&](int l) { out[l] = bits(f(f64(a[0][l]), a[1] ? f64(a[1][l]) : 0.0)); });
  return false;
}

// Only instructions that round to nearest and keep subnormal numbers are exact.
bool exact(const Instr& i) { return !i.has("ftz") && !i.has("approx") && !i.has("full"); }

template <class T>
T smaller(T x, T y, bool nan) {
  if (std::isnan(x) || std::isnan(y)) return nan ? NAN : std::isnan(x) ? y : x;
  if (x == y) return std::signbit(x) ? x : y;
  return x < y ? x : y;
}

// ex2.approx.ftz.f32 alone: subnormal numbers are 0, and the result may be two units of its last
// place off, which some are here.
bool power_of_two(const Instr& i, const u64* const* a, uint32_t on, u64* out) {
  if (!i.has("approx") || !i.has("ftz") || i.type.bits != 32) return false;
  return each(on, [&](int l) {
    const float x = f32(a[0][l]);
    float y = std::exp2(std::fpclassify(x) == FP_SUBNORMAL ? 0.0f : x);
    const u64 off = bits(x) * 0x9e3779b9u >> 20 & 3;  // by chance, but the same for equal numbers
    if (std::isnormal(y) && x != std::trunc(x)) y = f32(bits(y) + off - 2);
    out[l] = bits(std::fpclassify(y) == FP_SUBNORMAL ? 0.0f : y);
  });
}

bool arithmetic(const Instr& i, int code, const u64* const* a, uint32_t on, u64* out) {
  const int n = i.type.bits;
  const bool s = i.type.is_signed();
  if (i.type.is_float()) {
    if (code == code_ex2) return power_of_two(i, a, on, out);
    if (!exact(i)) return false;
    const bool rn = i.has("rn");
    switch (code) {
      case code_add:
        return rn && floats(i, a, on, out, [](auto x, auto y) { return x + y; });
      case code_sub:
        return rn && floats(i, a, on, out, [](auto x, auto y) { return x - y; });
      case code_mul:
        return rn && floats(i, a, on, out, [](auto x, auto y) { return x * y; });
      case code_div:
        return rn && floats(i, a, on, out, [](auto x, auto y) { return x / y; });
      case code_rcp:
        return rn && floats(i, a, on, out, [](auto x, auto) { return 1 / x; });
      case code_sqrt:
        return rn && floats(i, a, on, out, [](auto x, auto) { return std::sqrt(x); });
      case code_min:
      case code_max: {
        const bool nan = i.has("NaN"), least = code == code_min;
        if (nan && n == 64) return false;
        return floats(i, a, on, out, [=](auto x, auto y) {
          return least ? smaller(x, y, nan) : -smaller(-x, -y, nan);
        });
      }
      case code_neg:
        return each(on, [&](int l) { out[l] = a[0][l] ^ (u64{1} << (n - 1)); });
      case code_abs:
        return each(on, [&](int l) { out[l] = cut(a[0][l], n - 1); });
      default:
        return false;
    }
  }
  auto x = [&](int l) { return cut(a[0][l], n); };
  auto y = [&](int l) { return cut(a[1][l], n); };
  auto sx = [&](int l) { return signed_of(a[0][l], n); };
  auto sy = [&](int l) { return signed_of(a[1][l], n); };
  switch (code) {
    case code_add:
      return !i.has("cc") && each(on, [&](int l) { out[l] = x(l) + y(l); });
    case code_sub:
      return !i.has("cc") && each(on, [&](int l) { out[l] = x(l) - y(l); });
    case code_neg:
      return each(on, [&](int l) { out[l] = 0 - x(l); });
    case code_abs:
      return each(on, [&](int l) { out[l] = sx(l) < 0 ? 0 - x(l) : x(l); });
    case code_min:
      return each(on, [&](int l) {
        out[l] = s ? static_cast<u64>(std::min(sx(l), sy(l))) : std::min(x(l), y(l));
      });
    case code_max:
      return each(on, [&](int l) {
        out[l] = s ? static_cast<u64>(std::max(sx(l), sy(l))) : std::max(x(l), y(l));
      });
    case code_mul:
    case code_mad: {
      __extension__ using wide = __int128;
      const bool hi = i.has("hi"), grows = i.has("wide"), adds = code == code_mad;
      if (!hi && !grows && !i.has("lo")) return false;
      return each(on, [&](int l) {
        const wide p = s ? wide{sx(l)} * sy(l)
                         : static_cast<wide>(static_cast<unsigned __int128>(x(l)) * y(l));
        u64 r = static_cast<u64>(hi ? p >> n : p);
        if (adds) r += a[2][l];
        out[l] = grows ? r : cut(r, n);
      });
    }
    case code_div:
    case code_rem: {
      const bool quotient = code == code_div;
      return each(on, [&](int l) {  // by 0 nothing is promised
        if (y(l) == 0) {
          out[l] = cut(0xdeadbeefdeadbeef, n);
        } else if (s && sy(l) == -1) {
          out[l] = quotient ? 0 - x(l) : 0;
        } else if (s) {
          out[l] = static_cast<u64>(quotient ? sx(l) / sy(l) : sx(l) % sy(l));
        } else {
          out[l] = quotient ? x(l) / y(l) : x(l) % y(l);
        }
      });
    }
    default:
      return false;
  }
}

bool shifts(const Instr& i, int code, const u64* const* a, uint32_t on, u64* out) {
  const int n = i.type.bits;
  if (code == code_shf) {
    if (!i.has("wrap") || n != 32) return false;
    const bool left = i.has("l");
    return each(on, [&](int l) {
      const u64 both = cut(a[1][l], 32) << 32 | cut(a[0][l], 32);
      const int by = static_cast<int>(a[2][l] & 31);
      out[l] = left ? both << by >> 32 : both >> by;
    });
  }
  return each(on, [&](int l) {
    const u64 by = cut(a[1][l], 32);
    if (code == code_shl)
      out[l] = by >= static_cast<u64>(n) ? 0 : a[0][l] << by;
    else if (i.type.is_signed())
      out[l] =
          static_cast<u64>(signed_of(a[0][l], n) >> std::min<u64>(by, static_cast<u64>(n) - 1));
    else
      out[l] = by >= static_cast<u64>(n) ? 0 : cut(a[0][l], n) >> by;
  });
}

bool compare(const Instr& i, const u64* const* a, uint32_t on, u64* out) {
  static const std::map<std::string, int> relations = {
      {"eq", 2}, {"ne", 5}, {"lt", 1}, {"le", 3}, {"gt", 4}, {"ge", 6},
      {"lo", 1}, {"ls", 3}, {"hi", 4}, {"hs", 6}};  // bits: less 1, equal 2, greater 4; unordered 8
  std::string name = i.mods[0];
  int wanted = 0;
  if (i.type.is_float()) {
    if (!exact(i)) return false;
    if (name == "num")
      wanted = 7;
    else if (name == "nan")
      wanted = 8;
    else if (name.size() == 3 && name[2] == 'u')
      wanted = relations.at(name.substr(0, 2)) | 8;
    else
      wanted = relations.at(name);
  } else {
    wanted = relations.at(name);
  }
  const bool with_and = i.has("and"), with_or = i.has("or");
  if (i.has("xor")) return false;
  return each(on, [&](int l) {
    auto order = [](auto x, auto y) { return x < y ? 1 : x == y ? 2 : x > y ? 4 : 8; };
    int is = 0;
    if (i.type.is_float())
      is = i.type.bits == 32   ? order(f32(a[0][l]), f32(a[1][l]))
           : i.type.bits == 64 ? order(f64(a[0][l]), f64(a[1][l]))
                               : order(half(a[0][l]), half(a[1][l]));
    else if (i.type.is_signed())
      is = order(signed_of(a[0][l], i.type.bits), signed_of(a[1][l], i.type.bits));
    else
      is = order(cut(a[0][l], i.type.bits), cut(a[1][l], i.type.bits));
    bool r = (is & wanted) != 0;
    if (with_and) r = r && a[2][l];
    if (with_or) r = r || a[2][l];
    out[l] = r;
  });
}

double rounded(const Instr& i, double x) {
  return i.has("rni")   ? std::nearbyint(x)
         : i.has("rmi") ? std::floor(x)
         : i.has("rpi") ? std::ceil(x)
                        : std::trunc(x);
}

// Saturating; NaN as the manual says.
u64 to_integer(const Instr& i, double x) {
  const int n = i.type.bits;
  const bool s = i.type.is_signed();
  if (std::isnan(x)) return n == 64 || i.from.bits == 64 ? u64{1} << (n - 1) : 0;
  x = rounded(i, x);
  const double high = std::ldexp(1.0, s ? n - 1 : n), low = s ? -high : 0;
  if (x < low) return s ? u64{1} << (n - 1) : 0;
  if (x >= high) return s ? (u64{1} << (n - 1)) - 1 : cut(~u64{0}, n);
  return s ? static_cast<u64>(static_cast<i64>(x)) : static_cast<u64>(x);
}

// f32 to the nearest bfloat16, of two the even one.
u64 brain_bits(float x) {
  if (x != x) return 0x7fff;
  const auto b = std::bit_cast<uint32_t>(x);
  return (b + 0x7fff + (b >> 16 & 1)) >> 16;
}

// cvt.rn.bf16x2.f32 and cvt.rn.f16x2.f32: the first operand's result is the upper half.
bool convert_pair(const Instr& i, const u64* const* a, uint32_t on, u64* out) {
  if (!exact(i) || !i.has("rn") || i.has("sat") || i.has("relu") || i.type.bits != 32) return false;
  const bool brain = i.has("bf16x2");
  auto one = [&](u64 x) {
    return brain ? brain_bits(f32(x)) : u64{half_bits(static_cast<double>(f32(x)))};
  };
  return each(on, [&](int l) { out[l] = one(a[0][l]) << 16 | one(a[1][l]); });
}

bool convert(const Instr& i, const u64* const* a, uint32_t on, u64* out) {
  if (i.has("bf16x2") || i.has("f16x2")) return convert_pair(i, a, on, out);
  const Scalar to = i.type, from = i.from;
  if (!exact(i) || i.has("sat") || to.type == Type::bf || from.type == Type::bf) return false;
  const bool integral = i.has("rni") || i.has("rzi") || i.has("rmi") || i.has("rpi");
  if (from.is_float()) {
    const bool narrows = to.is_float() && to.bits < from.bits;
    if (!to.is_float() && !integral) return false;
    if (to.is_float() && narrows && !i.has("rn")) return false;
    return each(on, [&](int l) {
      const double x = from.bits == 64   ? f64(a[0][l])
                       : from.bits == 32 ? static_cast<double>(f32(a[0][l]))
                                         : half(a[0][l]);
      if (!to.is_float())
        out[l] = to_integer(i, x);
      else if (to.bits == 16)
        out[l] = half_bits(x);
      else if (to.bits == 32)
        out[l] = bits(static_cast<float>(integral ? rounded(i, x) : x));
      else
        out[l] = bits(integral ? rounded(i, x) : x);
    });
  }
  return each(on,
              [&](int l) {
                const bool s = from.is_signed();
                const i64 v = signed_of(a[0][l], from.bits);
                const u64 u = cut(a[0][l], from.bits);
                if (!to.is_float()) {  // wider registers get the sign of the destination's type
                  const u64 x = s ? static_cast<u64>(v) : u;
                  out[l] =
                      to.is_signed() ? static_cast<u64>(signed_of(x, to.bits)) : cut(x, to.bits);
                } else if (to.bits == 64)
                  out[l] = bits(s ? static_cast<double>(v) : static_cast<double>(u));
                else if (to.bits == 32)
                  out[l] = bits(s ? static_cast<float>(v) : static_cast<float>(u));
                else
                  out[l] = half_bits(s ? static_cast<double>(v) : static_cast<double>(u));
              }) &&
         (!to.is_float() || i.has("rn"));
}

bool pick_bytes(const u64* const* a, uint32_t on, u64* out) {
  return each(on, [&](int l) {
    const u64 both = cut(a[1][l], 32) << 32 | cut(a[0][l], 32);
    u64 r = 0;
    for (int k = 0; k < 4; ++k) {
      const u64 selector = a[2][l] >> (4 * k) & 15;
      u64 byte = both >> (8 * (selector & 7)) & 255;
      if (selector & 8) byte = byte & 128 ? 255 : 0;
      r |= byte << (8 * k);
    }
    out[l] = r;
  });
}

// Bits [at, at + length) of the second operand replaced by the first one's lowest.
bool insert(const Instr& i, const u64* const* a, uint32_t on, u64* out) {
  const int n = i.type.bits;
  return each(on, [&](int l) {
    const int at = static_cast<int>(a[2][l] & 255), length = static_cast<int>(a[3][l] & 255);
    u64 r = cut(a[1][l], n);
    for (int k = 0; k < length && at + k < n; ++k)
      r = (r & ~(u64{1} << (at + k))) | (a[0][l] >> k & 1) << (at + k);
    out[l] = r;
  });
}

bool extract(const Instr& i, const u64* const* a, uint32_t on, u64* out) {
  const int n = i.type.bits;
  return each(on, [&](int l) {
    const int at = static_cast<int>(a[1][l] & 255), length = static_cast<int>(a[2][l] & 255);
    u64 r = 0;
    const u64 x = cut(a[0][l], n);
    const int top = std::min(at + length - 1, n - 1);
    const bool sign = i.type.is_signed() && length > 0 && (x >> std::min(top, n - 1) & 1);
    for (int k = 0; k < n; ++k)
      r |= u64{(k < length && at + k < n) ? (x >> (at + k) & 1) != 0 : sign} << k;
    out[l] = r;
  });
}

}  // namespace

Code code_of(const Instr& i) {
  static const std::map<std::string, Code> codes = {{"bra", code_bra},
                                                    {"ret", code_ret},
                                                    {"exit", code_ret},
                                                    {"ld", code_ld},
                                                    {"st", code_st},
                                                    {"atom", code_atom},
                                                    {"red", code_red},
                                                    {"mov", code_mov},
                                                    {"cvta", code_cvta},
                                                    {"add", code_add},
                                                    {"sub", code_sub},
                                                    {"mul", code_mul},
                                                    {"mad", code_mad},
                                                    {"div", code_div},
                                                    {"rem", code_rem},
                                                    {"neg", code_neg},
                                                    {"abs", code_abs},
                                                    {"min", code_min},
                                                    {"max", code_max},
                                                    {"and", code_and},
                                                    {"or", code_or},
                                                    {"xor", code_xor},
                                                    {"not", code_not},
                                                    {"shl", code_shl},
                                                    {"shr", code_shr},
                                                    {"shf", code_shf},
                                                    {"prmt", code_prmt},
                                                    {"bfe", code_bfe},
                                                    {"bfi", code_bfi},
                                                    {"popc", code_popc},
                                                    {"clz", code_clz},
                                                    {"brev", code_brev},
                                                    {"setp", code_setp},
                                                    {"selp", code_selp},
                                                    {"cvt", code_cvt},
                                                    {"fma", code_fma},
                                                    {"sqrt", code_sqrt},
                                                    {"rcp", code_rcp},
                                                    {"ex2", code_ex2},
                                                    {"copysign", code_copysign},
                                                    {"shfl", code_warp},
                                                    {"vote", code_warp},
                                                    {"match", code_warp},
                                                    {"mma", code_mma},
                                                    {"ldmatrix", code_ldmatrix},
                                                    {"wgmma", code_wgmma},
                                                    {"mbarrier", code_mbarrier},
                                                    {"fence", code_fence},
                                                    {"setmaxnreg", code_setmaxnreg}};
  if (i.op == "cp" && i.has("bulk") && i.has("tensor")) return code_copy;
  if (i.op == "bar" || i.op == "barrier") return i.has("warp") ? code_warp : code_bar;
  if (i.op == "mov" && i.groups.size() == 2 && i.groups[0] > 1) return code_unpack;
  if (i.op == "mov" && i.groups.size() == 2 && i.groups[1] > 1) return code_pack;
  const auto it = codes.find(i.op);
  return it == codes.end() ? code_unknown : it->second;
}

double number_of(uint16_t bits, bool bf16) {
  return bf16 ? static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16))
              : half(bits);
}

float tensor_sum(const double* products, int count, float c) {
  double largest = std::fabs(static_cast<double>(c)), special = 0;
  bool is_special = !std::isfinite(c);
  if (is_special) special = static_cast<double>(c);
  for (int k = 0; k < count; ++k) {
    if (!std::isfinite(products[k])) special += products[k], is_special = true;
    largest = std::max(largest, std::fabs(products[k]));
  }
  if (is_special) return static_cast<float>(special);
  if (largest == 0) return 0;
  int exponent = 0;
  std::frexp(largest, &exponent);  // largest < 2^exponent
  const int unit = exponent - 24 - 2;
  const double scale = power(-unit);
  auto cut = [&](double x) { return static_cast<int64_t>(x * scale); };  // less than 2^26
  int64_t units = cut(static_cast<double>(c));
  for (int k = 0; k < count; ++k) units += cut(products[k]);
  if (units == 0) return 0;
  const auto sum = static_cast<double>(units);
  std::frexp(sum, &exponent);
  const int last = std::max(exponent - 24, -149 - unit);
  return static_cast<float>(std::trunc(sum * power(-last)) * power(last + unit));
}

bool compute(const Instr& i, const uint64_t* const* a, uint32_t on, uint64_t* out) {
  const int n = i.type.bits;
  switch (i.code) {
    case code_pack: {
      const auto parts = static_cast<size_t>(i.groups[1]);
      return each(on, [&](int l) {
        out[l] = 0;
        for (size_t p = parts; p-- > 0;)
          out[l] =
              out[l] << (n / static_cast<int>(parts)) | cut(a[p][l], n / static_cast<int>(parts));
      });
    }
    case code_mov:
      return each(on, [&](int l) { out[l] = a[0][l]; });
    case code_cvta: {
      const u64 window = i.has("local")    ? local_window
                         : i.has("shared") ? shared_window
                         : i.has("param")  ? parameter_window
                                           : 0;
      if (i.has("to")) return each(on, [&](int l) { out[l] = a[0][l] & ~window; });
      return each(on, [&](int l) { out[l] = a[0][l] | window; });
    }
    case code_and:
      return each(on, [&](int l) { out[l] = a[0][l] & a[1][l]; });
    case code_or:
      return each(on, [&](int l) { out[l] = a[0][l] | a[1][l]; });
    case code_xor:
      return each(on, [&](int l) { out[l] = a[0][l] ^ a[1][l]; });
    case code_not:
      return each(on, [&](int l) { out[l] = n == 1 ? a[0][l] == 0 : ~a[0][l]; });
    case code_shl:
    case code_shr:
    case code_shf:
      return shifts(i, i.code, a, on, out);
    case code_prmt:
      return i.mods.size() == 1 && pick_bytes(a, on, out);
    case code_bfe:
      return extract(i, a, on, out);
    case code_bfi:
      return insert(i, a, on, out);
    case code_popc:
      return each(on, [&](int l) { out[l] = static_cast<u64>(std::popcount(cut(a[0][l], n))); });
    case code_clz:
      return each(on, [&](int l) {
        out[l] = static_cast<u64>(std::countl_zero(cut(a[0][l], n)) - (64 - n));
      });
    case code_brev:
      return each(on, [&](int l) {
        u64 r = 0;
        for (int k = 0; k < n; ++k) r |= (a[0][l] >> k & 1) << (n - 1 - k);
        out[l] = r;
      });
    case code_setp:
      return compare(i, a, on, out);
    case code_selp:
      return each(on, [&](int l) { out[l] = a[2][l] ? a[0][l] : a[1][l]; });
    case code_cvt:
      return convert(i, a, on, out);
    case code_fma:
      if (!exact(i) || !i.has("rn")) return false;
      if (n == 32)
        return each(
            on, [&](int l) { out[l] = bits(std::fmaf(f32(a[0][l]), f32(a[1][l]), f32(a[2][l]))); });
      return n == 64 && each(on, [&](int l) {
               out[l] = bits(std::fma(f64(a[0][l]), f64(a[1][l]), f64(a[2][l])));
             });
    case code_copysign:
      return each(on, [&](int l) {
        const u64 top = u64{1} << (n - 1);
        out[l] = (a[0][l] & top) | (a[1][l] & ~top);
      });
    default:
      return arithmetic(i, i.code, a, on, out);
  }
}

}  // namespace ptx
