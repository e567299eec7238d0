// ir/scalar.cpp: exact scalar arithmetic on bit patterns.
#include "ir/scalar.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace hologram::ir {
namespace {

uint64_t mask_of(DType t) {
  int bits = 8 * size_of(t);
  return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}

// The top bit of a pattern in `t`.
uint64_t sign_bit(DType t) { return uint64_t{1} << (8 * size_of(t) - 1); }

template <class F>
F load(DType t, uint64_t bits) {
  switch (t) {
    case DType::f16:
      return static_cast<F>(f16_to_f32(static_cast<uint16_t>(bits)));
    case DType::bf16:
      return static_cast<F>(bf16_to_f32(static_cast<uint16_t>(bits)));
    case DType::f32:
      return static_cast<F>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    default:
      return static_cast<F>(std::bit_cast<double>(bits));
  }
}

uint64_t store(DType t, float x) {
  return t == DType::f16    ? f32_to_f16(x)
         : t == DType::bf16 ? f32_to_bf16(x)
                            : std::bit_cast<uint32_t>(x);
}
uint64_t store(DType, double x) { return std::bit_cast<uint64_t>(x); }

// --- floats

bool is_nan(DType t, uint64_t bits) { return std::isnan(load<double>(t, bits)); }

// The neighbour of x in the direction of y, on patterns of any float type.
uint64_t next_after(DType t, uint64_t x, uint64_t y) {
  if (is_nan(t, x)) return x;
  if (is_nan(t, y)) return y;
  double a = load<double>(t, x), b = load<double>(t, y);
  if (a == b) return y;
  if (a == 0) return (b < 0 ? sign_bit(t) : 0) | 1;
  return (a < b) == (a > 0) ? x + 1 : x - 1;
}

// IEEE 754-2019 minimum / maximum and minimumNumber / maximumNumber: -0 is less than +0.
template <class F>
F smaller(F x, F y) {
  if (x == y) return std::signbit(x) ? x : y;
  return x < y ? x : y;
}

template <class F>
F larger(F x, F y) {
  if (x == y) return std::signbit(x) ? y : x;
  return x > y ? x : y;
}

template <class F>
F float_arithmetic(Op op, F x, F y, F z) {
  switch (op) {
    case Op::sign:
      return static_cast<F>((x > 0) - (x < 0));
    case Op::floor:
      return std::floor(x);
    case Op::ceil:
      return std::ceil(x);
    case Op::trunc:
      return std::trunc(x);
    case Op::round:
      return std::nearbyint(x);  // the rounding mode is the default: ties to even
    case Op::sqrt:
      return std::sqrt(x);
    case Op::add:
      return x + y;
    case Op::sub:
      return x - y;
    case Op::mul:
      return x * y;
    case Op::div:
      return x / y;
    case Op::rem:
      return std::fmod(x, y);
    case Op::min:
      return std::isnan(x) ? x : std::isnan(y) ? y : smaller(x, y);
    case Op::max:
      return std::isnan(x) ? x : std::isnan(y) ? y : larger(x, y);
    case Op::minnum:
      return std::isnan(x) ? y : std::isnan(y) ? x : smaller(x, y);
    case Op::maxnum:
      return std::isnan(x) ? y : std::isnan(y) ? x : larger(x, y);
    case Op::fma:
      return std::fma(x, y, z);
    default:
      fail(ErrorCode::internal, "eval_scalar: {} is not defined on floats", name_of(op));
  }
}

template <class F>
bool float_compare(Op op, F x, F y) {
  return op == Op::eq ? x == y : op == Op::ne ? x != y : op == Op::lt ? x < y : x <= y;
}

template <class F>
uint64_t eval_float(Op op, DType t, std::span<const uint64_t> args) {
  uint64_t top = sign_bit(t);
  if (op == Op::neg) return args[0] ^ top;
  if (op == Op::abs) return args[0] & ~top;
  if (op == Op::copysign) return (args[0] & ~top) | (args[1] & top);
  if (op == Op::nextafter) return next_after(t, args[0], args[1]);
  F x = load<F>(t, args[0]);
  F y = args.size() > 1 ? load<F>(t, args[1]) : F(0);
  if (info(op).kind == OpKind::compare) return float_compare(op, x, y);
  return store(t, float_arithmetic(op, x, y, args.size() > 2 ? load<F>(t, args[2]) : F(0)));
}

// --- integers and truth values

int64_t shift_left(int64_t x, uint64_t by, int width) {
  return by < static_cast<uint64_t>(width) ? static_cast<int64_t>(static_cast<uint64_t>(x) << by)
                                           : 0;
}

// x is sign- or zero-extended to 64 bits as its type says.
int64_t shift_right(int64_t x, uint64_t by, int width, bool is_signed) {
  bool out = by >= static_cast<uint64_t>(width);
  if (is_signed) return x >> (out ? 63 : by);
  return out ? 0 : static_cast<int64_t>(static_cast<uint64_t>(x) >> by);
}

int64_t divide(Op op, int64_t x, int64_t y, bool is_signed, bool* error) {
  if (y == 0) {
    if (error) *error = true;
    return 0;
  }
  bool quotient = op == Op::div;
  if (!is_signed) {
    uint64_t a = static_cast<uint64_t>(x), b = static_cast<uint64_t>(y);
    return static_cast<int64_t>(quotient ? a / b : a % b);
  }
  if (y == -1) return quotient ? static_cast<int64_t>(0 - static_cast<uint64_t>(x)) : 0;
  return quotient ? x / y : x % y;
}

// x and y sign- or zero-extended; the caller keeps the low bits of the result.
int64_t integer_arithmetic(Op op, DType t, int64_t x, int64_t y, bool* error) {
  bool is_signed = is_signed_int(t);
  int width = 8 * size_of(t);
  uint64_t ux = static_cast<uint64_t>(x), uy = static_cast<uint64_t>(y);
  bool less = is_signed ? x < y : ux < uy;
  switch (op) {
    case Op::neg:
      return static_cast<int64_t>(0 - ux);
    case Op::abs:
      return is_signed && x < 0 ? static_cast<int64_t>(0 - ux) : x;
    case Op::sign:
      return is_signed ? (x > 0) - (x < 0) : x != 0;
    case Op::bit_not:
      return t == DType::b8 ? !x : ~x;
    case Op::add:
      return t == DType::b8 ? x | y : static_cast<int64_t>(ux + uy);
    case Op::sub:
      return static_cast<int64_t>(ux - uy);
    case Op::mul:
      return static_cast<int64_t>(ux * uy);
    case Op::div:
    case Op::rem:
      return divide(op, x, y, is_signed, error);
    case Op::min:
    case Op::minnum:
      return less ? x : y;
    case Op::max:
    case Op::maxnum:
      return less ? y : x;
    case Op::bit_and:
      return x & y;
    case Op::bit_or:
      return x | y;
    case Op::bit_xor:
      return x ^ y;
    case Op::shl:
      return shift_left(x, uy, width);
    case Op::shr:
      return shift_right(x, uy, width, is_signed);
    case Op::eq:
      return x == y;
    case Op::ne:
      return x != y;
    case Op::lt:
      return less;
    case Op::le:
      return less || x == y;
    default:
      fail(ErrorCode::internal, "eval_scalar: {} is not defined on integers", name_of(op));
  }
}

// --- conversions

// Truncation of a float to an integer type; out of range saturates and NaN gives 0.
uint64_t saturate(DType to, double x) {
  if (std::isnan(x)) return 0;
  x = std::trunc(x);
  int bits = 8 * size_of(to);
  if (is_unsigned_int(to)) {
    if (x <= 0) return 0;
    return x >= std::ldexp(1.0, bits) ? mask_of(to) : static_cast<uint64_t>(x);
  }
  double limit = std::ldexp(1.0, bits - 1);
  if (x >= limit) return mask_of(to) >> 1;
  if (x < -limit) return sign_bit(to);
  return static_cast<uint64_t>(static_cast<int64_t>(x)) & mask_of(to);
}

// Truncation to a signed type of 32 or 64 bits as x86's cvtt instructions do it.
int64_t truncate_x86(double x, int bits) {
  double limit = std::ldexp(1.0, bits - 1), t = std::trunc(x);
  if (!(t < limit && t >= -limit))
    return bits == 32 ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(t);
}

// What compilers emit for double → u64 on x86: two signed conversions around 2^63.
uint64_t truncate_x86_u64(double x) {
  constexpr double half = 9223372036854775808.0;
  if (x >= half) return static_cast<uint64_t>(truncate_x86(x - half, 64)) ^ (uint64_t{1} << 63);
  return static_cast<uint64_t>(truncate_x86(x, 64));
}

uint64_t wrap(DType to, double x) {
  if (to == DType::u64) return truncate_x86_u64(x);
  bool wide = to == DType::i64 || to == DType::u32 || to == DType::u8;
  return static_cast<uint64_t>(truncate_x86(x, wide ? 64 : 32)) & mask_of(to);
}

uint64_t convert(Op how, DType from, DType to, uint64_t bits) {
  if (is_float(from)) {
    double x = load<double>(from, bits);
    if (to == DType::b8) return x != 0;
    if (is_int(to)) return how == Op::cast ? saturate(to, x) : wrap(to, x);
    if (from == to) return bits;
    if (to == DType::f64) return store(to, x);
    return store(to, static_cast<float>(x));
  }
  if (to == DType::b8) return bits != 0;
  int64_t x = as_integer(from, bits);
  if (is_int(to)) return static_cast<uint64_t>(x) & mask_of(to);
  bool big = from == DType::u64;
  if (to == DType::f64) return store(to, big ? static_cast<double>(bits) : static_cast<double>(x));
  return store(to, big ? static_cast<float>(bits) : static_cast<float>(x));
}

}  // namespace

uint64_t eval_scalar(Op op, DType type, std::span<const uint64_t> args, DType to, bool* error) {
  OpKind kind = info(op).kind;
  if (op == Op::select) return args[0] ? args[1] : args[2];
  if (op == Op::bitcast) return args[0];
  if (kind == OpKind::cast) return convert(op, type, to, args[0]);
  if (type == DType::f64) return eval_float<double>(op, type, args);
  if (is_float(type)) return eval_float<float>(op, type, args);
  int64_t x = as_integer(type, args[0]), y = args.size() > 1 ? as_integer(type, args[1]) : 0;
  uint64_t r = static_cast<uint64_t>(integer_arithmetic(op, type, x, y, error));
  return r & mask_of(kind == OpKind::compare ? DType::b8 : type);
}

uint64_t bits_of(DType type, double value) {
  if (type == DType::b8) return value != 0;
  if (type == DType::f64) return store(type, value);
  if (is_float(type)) return store(type, static_cast<float>(value));
  return saturate(type, std::nearbyint(value));
}

uint64_t bits_of_integer(DType type, int64_t value) {
  if (type == DType::b8) return value != 0;
  if (is_float(type)) return convert(Op::cast, DType::i64, type, static_cast<uint64_t>(value));
  if (type == DType::u64) return value < 0 ? 0 : static_cast<uint64_t>(value);
  if (type == DType::i64) return static_cast<uint64_t>(value);
  int64_t high = static_cast<int64_t>(mask_of(type) >> is_signed_int(type));
  int64_t low = is_signed_int(type) ? -high - 1 : 0;
  return static_cast<uint64_t>(value < low ? low : value > high ? high : value) & mask_of(type);
}

double as_double(DType type, uint64_t bits) {
  if (is_float(type)) return load<double>(type, bits);
  if (type == DType::u64) return static_cast<double>(bits);
  return static_cast<double>(as_integer(type, bits));
}

int64_t as_integer(DType type, uint64_t bits) {
  if (is_float(type)) return static_cast<int64_t>(saturate(DType::i64, load<double>(type, bits)));
  uint64_t top = is_signed_int(type) ? sign_bit(type) : 0;
  return static_cast<int64_t>((bits ^ top) - top);
}

uint16_t f32_to_bf16(float x) {
  uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

uint16_t f32_to_f16(float x) {
  uint32_t u = std::bit_cast<uint32_t>(x), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((a >> 13) & 0x1ffu));
  if (a >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to 65536 or more
  if (a >= 0x38800000u) {                                              // normal: at least 2^-14
    uint32_t rounded = a + 0xfffu + ((a >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
  if (a < 0x33000000u) return static_cast<uint16_t>(sign);  // below 2^-25
  uint32_t shift = 126u - (a >> 23), mantissa = (a & 0x7fffffu) | 0x800000u;
  uint32_t q = mantissa >> shift, rest = mantissa & ((1u << shift) - 1u), half = 1u << (shift - 1u);
  return static_cast<uint16_t>(sign | (q + (rest > half || (rest == half && (q & 1u)) ? 1u : 0u)));
}

uint64_t identity_of(Op reduce, DType type) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  switch (reduce) {
    case Op::reduce_sum:
      return 0;
    case Op::reduce_prod:
      return bits_of_integer(type, 1);
    case Op::reduce_max:
      return type == DType::b8 ? 0 : bits_of(type, -infinity);
    case Op::reduce_min:
      return type == DType::b8 ? 1 : bits_of(type, infinity);
    default:
      return 0;
  }
}

float bf16_to_f32(uint16_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }

float f16_to_f32(uint16_t x) {
  uint32_t sign = (x & 0x8000u) << 16, exponent = (x >> 10) & 0x1fu, mantissa = x & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  float tiny = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(tiny));
}

}  // namespace hologram::ir
