// tests/unit/scalar_test.cpp: exact scalar arithmetic against C++'s own.
#include "ir/scalar.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "ir/infer.h"

namespace hologram::ir {
namespace {

uint64_t eval(Op op, DType t, std::initializer_list<uint64_t> args, DType to = DType::f32, bool* error = nullptr) {
  std::vector<uint64_t> a(args);
  return eval_scalar(op, t, a, is_float(t) || info(op).kind == OpKind::cast ? to : t, error);
}

// --- integers: all pairs of 8-bit values

int shifted(int a, int b, bool left) {
  if (b < 0 || b >= 8) return !left && a < 0 ? -1 : 0;
  return left ? a << b : a >> b;
}

/// What each operation makes of bytes, before the result wraps.
const std::map<Op, int (*)(int, int)> native = {
    {Op::add, [](int a, int b) { return a + b; }},
    {Op::sub, [](int a, int b) { return a - b; }},
    {Op::mul, [](int a, int b) { return a * b; }},
    {Op::div, [](int a, int b) { return b == 0 ? 0 : a / b; }},
    {Op::rem, [](int a, int b) { return b == 0 ? 0 : a % b; }},
    {Op::min, [](int a, int b) { return std::min(a, b); }},
    {Op::minnum, [](int a, int b) { return std::min(a, b); }},
    {Op::max, [](int a, int b) { return std::max(a, b); }},
    {Op::maxnum, [](int a, int b) { return std::max(a, b); }},
    {Op::bit_and, [](int a, int b) { return a & b; }},
    {Op::bit_or, [](int a, int b) { return a | b; }},
    {Op::bit_xor, [](int a, int b) { return a ^ b; }},
    {Op::shl, [](int a, int b) { return shifted(a, b, true); }},
    {Op::shr, [](int a, int b) { return shifted(a, b, false); }},
    {Op::eq, [](int a, int b) { return int{a == b}; }},
    {Op::ne, [](int a, int b) { return int{a != b}; }},
    {Op::lt, [](int a, int b) { return int{a < b}; }},
    {Op::le, [](int a, int b) { return int{a <= b}; }},
    {Op::neg, [](int a, int) { return -a; }},
    {Op::abs, [](int a, int) { return a < 0 ? -a : a; }},
    {Op::sign, [](int a, int) { return (a > 0) - (a < 0); }},
    {Op::bit_not, [](int a, int) { return ~a; }},
};

template <class T>
void all_pairs(DType type) {
  for (int i = 0; i < num_ops; ++i) {
    Op op = static_cast<Op>(i);
    OpKind kind = info(op).kind;
    bool scalar = kind >= OpKind::unary && kind <= OpKind::compare;
    if (!scalar || !(info(op).flags & exact) || !accepts(op, type)) continue;
    for (int a = 0; a < 256; ++a)
      for (int b = 0; b < 256; ++b) {
        bool error = false;
        std::array<uint64_t, 2> args{static_cast<uint64_t>(a), static_cast<uint64_t>(b)};
        uint64_t got = eval_scalar(op, type, std::span(args.data(), static_cast<size_t>(info(op).arity)), type, &error);
        const int want = native.at(op)(static_cast<T>(a), static_cast<T>(b));
        ASSERT_EQ(got, static_cast<uint8_t>(want)) << name_of(op) << " " << a << " " << b;
        ASSERT_EQ(error, (op == Op::div || op == Op::rem) && b == 0);
      }
  }
}

TEST(Scalar, AllPairsOfUnsignedBytes) { all_pairs<uint8_t>(DType::u8); }
TEST(Scalar, AllPairsOfSignedBytes) { all_pairs<int8_t>(DType::i8); }

TEST(Scalar, TruthValues) {
  for (uint64_t a : {0u, 1u})
    for (uint64_t b : {0u, 1u}) {
      EXPECT_EQ(eval(Op::add, DType::b8, {a, b}), a | b);
      EXPECT_EQ(eval(Op::mul, DType::b8, {a, b}), a & b);
      EXPECT_EQ(eval(Op::bit_xor, DType::b8, {a, b}), a ^ b);
      EXPECT_EQ(eval(Op::lt, DType::b8, {a, b}), a < b ? 1u : 0u);
      EXPECT_EQ(eval(Op::bit_not, DType::b8, {a}), 1 - a);
    }
}

TEST(Scalar, WideIntegersWrapAndNeverTrap) {
  constexpr uint64_t least = uint64_t{1} << 63, minus_one = ~uint64_t{0};
  EXPECT_EQ(eval(Op::add, DType::i64, {least, minus_one}), least - 1);
  EXPECT_EQ(eval(Op::neg, DType::i64, {least}), least);
  EXPECT_EQ(eval(Op::abs, DType::i64, {least}), least);
  EXPECT_EQ(eval(Op::div, DType::i64, {least, minus_one}), least);
  EXPECT_EQ(eval(Op::rem, DType::i64, {least, minus_one}), 0u);
  EXPECT_EQ(eval(Op::div, DType::u64, {minus_one, 2}), minus_one >> 1);
  EXPECT_EQ(eval(Op::lt, DType::u64, {1, minus_one}), 1u);
  EXPECT_EQ(eval(Op::shr, DType::i64, {least, 64}), minus_one);
  EXPECT_EQ(eval(Op::shr, DType::u64, {least, 63}), 1u);
  EXPECT_EQ(eval(Op::shl, DType::i64, {1, minus_one}), 0u);
  EXPECT_EQ(eval(Op::mul, DType::i32, {0x80000000u, 0xffffffffu}), 0x80000000u);
  bool error = false;
  EXPECT_EQ(eval(Op::div, DType::i32, {5, 0}, DType::i32, &error), 0u);
  EXPECT_TRUE(error);
}

// --- floats

template <class F>
std::vector<F> interesting() {
  using L = std::numeric_limits<F>;
  std::vector<F> v = {F(0),
                      F(1),
                      F(0.5),
                      F(1.5),
                      F(2.5),
                      F(3),
                      F(1e10),
                      L::min(),
                      L::denorm_min(),
                      L::max(),
                      L::infinity(),
                      L::epsilon(),
                      F(1) + L::epsilon(),
                      F(0.49999997),
                      F(8388609.5),
                      F(4503599627370497.5)};
  std::mt19937 random(7);
  for (int i = 0; i < 40; ++i) v.push_back(std::ldexp(static_cast<F>(random()), static_cast<int>(random() % 80) - 70));
  for (size_t i = 0, n = v.size(); i < n; ++i) v.push_back(-v[i]);
  v.push_back(L::quiet_NaN());
  return v;
}

template <class F>
F lesser(F x, F y) {
  return std::isnan(x) ? y : std::isnan(y) ? x : x < y || (x == y && std::signbit(x)) ? x : y;
}
template <class F>
F larger(F x, F y) {
  return std::isnan(x) ? y : std::isnan(y) ? x : x > y || (x == y && std::signbit(y)) ? x : y;
}

template <class F>
const std::map<Op, F (*)(F, F, F)> native_float = {
    {Op::neg, [](F x, F, F) { return -x; }},
    {Op::abs, [](F x, F, F) { return std::fabs(x); }},
    {Op::sign, [](F x, F, F) { return x > 0   ? F(1)
                                      : x < 0 ? F(-1)
                                              : F(0); }},
    {Op::floor, [](F x, F, F) { return std::floor(x); }},
    {Op::ceil, [](F x, F, F) { return std::ceil(x); }},
    {Op::trunc, [](F x, F, F) { return std::trunc(x); }},
    {Op::round, [](F x, F, F) { return x - std::remainder(x, F(1)); }},  // remainder rounds the quotient to nearest even
    {Op::sqrt, [](F x, F, F) { return std::sqrt(x); }},
    {Op::add, [](F x, F y, F) { return x + y; }},
    {Op::sub, [](F x, F y, F) { return x - y; }},
    {Op::mul, [](F x, F y, F) { return x * y; }},
    {Op::div, [](F x, F y, F) { return x / y; }},
    {Op::rem, [](F x, F y, F) { return std::fmod(x, y); }},
    {Op::copysign, [](F x, F y, F) { return std::copysign(x, y); }},
    {Op::nextafter, [](F x, F y, F) { return std::nextafter(x, y); }},
    {Op::fma, [](F x, F y, F z) { return std::fma(x, y, z); }},
    {Op::minnum, [](F x, F y, F) { return lesser(x, y); }},
    {Op::maxnum, [](F x, F y, F) { return larger(x, y); }},
    {Op::min, [](F x, F y, F) { return std::isnan(x) || std::isnan(y) ? F(NAN) : lesser(x, y); }},
    {Op::max, [](F x, F y, F) { return std::isnan(x) || std::isnan(y) ? F(NAN) : larger(x, y); }},
};

template <class F, class U>
void float_grid(DType t) {
  std::vector<F> all = interesting<F>();
  for (int i = 0; i < num_ops; ++i) {
    Op op = static_cast<Op>(i);
    OpKind kind = info(op).kind;
    bool arithmetic = kind >= OpKind::unary && kind <= OpKind::ternary_float && kind != OpKind::select;
    if (!arithmetic || !(info(op).flags & exact) || !accepts(op, t)) continue;
    for (F x : all)
      for (F y : all) {
        F z = all[(static_cast<size_t>(std::bit_cast<U>(x) ^ std::bit_cast<U>(y)) * 7) % all.size()];
        std::array<uint64_t, 3> args{std::bit_cast<U>(x), std::bit_cast<U>(y), std::bit_cast<U>(z)};
        uint64_t got = eval_scalar(op, t, std::span(args.data(), static_cast<size_t>(info(op).arity)), t);
        if (kind == OpKind::compare) {
          bool want = op == Op::eq ? x == y : op == Op::ne ? x != y : op == Op::lt ? x < y : x <= y;
          ASSERT_EQ(got, want ? 1u : 0u) << name_of(op) << " " << x << " " << y;
          continue;
        }
        F want = native_float<F>.at(op)(x, y, z), have = std::bit_cast<F>(static_cast<U>(got));
        if (op == Op::round && !std::isnan(x)) {
          ASSERT_EQ(std::signbit(have), std::signbit(x));
        }
        bool same = op == Op::round ? have == want : got == std::bit_cast<U>(want);
        ASSERT_TRUE(same || (std::isnan(have) && std::isnan(want)) || (op == Op::round && std::isinf(x)))
            << name_of(op) << " " << x << " " << y << " gives " << have << ", expected " << want;
      }
  }
}

TEST(Scalar, Float32AgreesWithTheMachine) { float_grid<float, uint32_t>(DType::f32); }
TEST(Scalar, Float64AgreesWithTheMachine) { float_grid<double, uint64_t>(DType::f64); }

// The value of a half pattern from the definition of the format.
double half_value(uint16_t x, int exponent_bits, int mantissa_bits) {
  int bias = (1 << (exponent_bits - 1)) - 1, all = (1 << exponent_bits) - 1;
  int e = (x >> mantissa_bits) & all, m = x & ((1 << mantissa_bits) - 1);
  double sign = x >> 15 ? -1 : 1;
  if (e == all) return m ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  double fraction = std::ldexp(m, -mantissa_bits);
  return sign * (e ? std::ldexp(1 + fraction, e - bias) : std::ldexp(fraction, 1 - bias));
}

// Rounds by searching among all patterns' neighbours: slow and independent.
uint16_t nearest_half(double x, int exponent_bits, int mantissa_bits) {
  uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  uint16_t infinity = static_cast<uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
  double a = std::fabs(x);
  uint16_t low = 0, high = infinity;
  while (high - low > 1) {
    uint16_t mid = static_cast<uint16_t>((low + high) / 2);
    (half_value(mid, exponent_bits, mantissa_bits) <= a ? low : high) = mid;
  }
  double below = half_value(low, exponent_bits, mantissa_bits);
  double above = high == infinity ? 2 * below - half_value(static_cast<uint16_t>(low - 1), exponent_bits, mantissa_bits)
                                  : half_value(high, exponent_bits, mantissa_bits);
  bool up = a - below > above - a || (a - below == above - a && (low & 1));
  if (std::isinf(x)) up = true;
  return static_cast<uint16_t>(sign | (up ? high : low));
}

TEST(Scalar, HalvesWidenExactly) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    uint16_t x = static_cast<uint16_t>(i);
    double f16 = half_value(x, 5, 10), bf16 = half_value(x, 8, 7);
    if (!std::isnan(f16)) {
      ASSERT_EQ(f16_to_f32(x), f16) << i;
      ASSERT_EQ(f32_to_f16(f16_to_f32(x)), x) << i;
    } else {
      ASSERT_TRUE(std::isnan(f16_to_f32(x)) && std::isnan(f16_to_f32(f32_to_f16(f16_to_f32(x)))));
    }
    if (!std::isnan(bf16)) {
      ASSERT_EQ(bf16_to_f32(x), static_cast<float>(bf16)) << i;
      ASSERT_EQ(f32_to_bf16(bf16_to_f32(x)), x) << i;
    } else {
      ASSERT_TRUE(std::isnan(bf16_to_f32(x)) && std::isnan(bf16_to_f32(f32_to_bf16(bf16_to_f32(x)))));
    }
  }
}

TEST(Scalar, HalvesRoundToNearestEven) {
  std::mt19937 random(3);
  for (int i = 0; i < 200000; ++i) {
    uint32_t bits = static_cast<uint32_t>(random());
    if (i % 2) bits = (bits & 0x80000000u) | ((95u + (bits >> 3) % 52u) << 23) | (bits & 0x7fffffu);  // f16's range
    if (i % 3 == 0) bits &= 0xfffff000u;                                                              // ties
    float x = std::bit_cast<float>(bits);
    if (std::isnan(x)) continue;
    ASSERT_EQ(f32_to_f16(x), nearest_half(x, 5, 10)) << x;
    ASSERT_EQ(f32_to_bf16(x), nearest_half(x, 8, 7)) << x;
  }
}

TEST(Scalar, HalfArithmeticRoundsOnce) {
  std::mt19937 random(5);
  for (DType t : {DType::f16, DType::bf16})
    for (int i = 0; i < 100000; ++i) {
      uint64_t x = random() & 0xffff, y = random() & 0xffff;
      double a = as_double(t, x), b = as_double(t, y);
      for (auto [op, exact_result] : {std::pair(Op::add, a + b), std::pair(Op::mul, a * b), std::pair(Op::div, a / b)}) {
        uint64_t want = t == DType::f16 ? nearest_half(exact_result, 5, 10) : nearest_half(exact_result, 8, 7);
        uint64_t got = eval(op, t, {x, y}, t);
        // A bfloat16 result below float32's normal range is rounded twice, as PyTorch rounds it.
        bool tiny = std::fabs(exact_result) < 1.2e-38;
        if (std::isnan(exact_result) || tiny) continue;
        ASSERT_EQ(got, want) << name_of(op) << " " << a << " " << b;
      }
    }
}

TEST(Scalar, NextAfterWalksEveryHalf) {
  for (uint32_t i = 0; i < 0x7c00; ++i) {
    EXPECT_EQ(eval(Op::nextafter, DType::f16, {i, 0x7c00}, DType::f16), i + 1);
    EXPECT_EQ(eval(Op::nextafter, DType::f16, {i + 1, 0xfc00}, DType::f16), i);
  }
  EXPECT_EQ(eval(Op::nextafter, DType::f16, {0, 0xfc00}, DType::f16), 0x8001u);
  EXPECT_EQ(eval(Op::nextafter, DType::f32, {0x80000000u, 0x3f800000u}), 1u);
}

// --- conversions

TEST(Scalar, CastSaturates) {
  auto cast = [](double x, DType to) { return as_integer(to, eval(Op::cast, DType::f64, {bits_of(DType::f64, x)}, to)); };
  EXPECT_EQ(cast(1e30, DType::i32), 2147483647);
  EXPECT_EQ(cast(-1e30, DType::i32), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(cast(NAN, DType::i32), 0);
  EXPECT_EQ(cast(-1.9, DType::u8), 0);
  EXPECT_EQ(cast(255.9, DType::u8), 255);
  EXPECT_EQ(cast(256, DType::u8), 255);
  EXPECT_EQ(cast(-128.9, DType::i8), -128);
  EXPECT_EQ(cast(9.3e18, DType::i64), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(static_cast<uint64_t>(cast(1.9e19, DType::u64)), ~uint64_t{0});
  EXPECT_EQ(eval(Op::cast, DType::f32, {0x7fc00000u}, DType::b8), 1u) << "NaN is not zero";
  EXPECT_EQ(eval(Op::cast, DType::f32, {0x80000000u}, DType::b8), 0u);
  EXPECT_EQ(eval(Op::cast, DType::i32, {0xffffffffu}, DType::u8), 255u) << "integers wrap";
  EXPECT_EQ(eval(Op::cast, DType::i8, {0xff}, DType::i64), ~uint64_t{0});
}

// Measured on PyTorch 2.15, x86-64: torch.tensor(x, dtype=torch.float64).to(dtype).
TEST(Scalar, CastWrapIsWhatPyTorchDoes) {
  struct Row {
    double x;
    int64_t u8, i8, i16, i32, i64, u16;
    uint64_t u64;
  };
  constexpr int64_t m32 = std::numeric_limits<int32_t>::min(), m64 = std::numeric_limits<int64_t>::min();
  constexpr uint64_t top = uint64_t{1} << 63;
  const Row rows[] = {
      {-1.9, 255, -1, -1, -1, -1, 65535, ~uint64_t{0}},
      {300, 44, 44, 300, 300, 300, 300, 300},
      {-129, 127, 127, -129, -129, -129, 65407, static_cast<uint64_t>(-129)},
      {65537, 1, 1, 1, 65537, 65537, 1, 65537},
      {2147483648.0, 0, 0, 0, m32, 2147483648, 0, 2147483648u},
      {4294967295.0, 255, 0, 0, m32, 4294967295, 0, 4294967295u},
      {4294967303.0, 7, 0, 0, m32, 4294967303, 0, 4294967303u},
      {1e19, 0, 0, 0, m32, m64, 0, 10000000000000000000u},
      {2e19, 0, 0, 0, m32, m64, 0, 0},
      {-1e30, 0, 0, 0, m32, m64, 0, top},
      {std::numeric_limits<double>::infinity(), 0, 0, 0, m32, m64, 0, 0},
      {NAN, 0, 0, 0, m32, m64, 0, top},
  };
  for (const Row& r : rows) {
    auto wrap = [&](DType to) { return as_integer(to, eval(Op::cast_wrap, DType::f64, {bits_of(DType::f64, r.x)}, to)); };
    EXPECT_EQ(wrap(DType::u8), r.u8) << r.x;
    EXPECT_EQ(wrap(DType::i8), r.i8) << r.x;
    EXPECT_EQ(wrap(DType::i16), r.i16) << r.x;
    EXPECT_EQ(wrap(DType::i32), r.i32) << r.x;
    EXPECT_EQ(wrap(DType::i64), r.i64) << r.x;
    EXPECT_EQ(wrap(DType::u16), r.u16) << r.x;
    EXPECT_EQ(static_cast<uint64_t>(wrap(DType::u64)), r.u64) << r.x;
  }
}

TEST(Scalar, ConversionsToHalvesGoThroughFloat32) {
  // Measured on PyTorch 2.15: both round to 1, though the nearest float16 is larger.
  EXPECT_EQ(bits_of(DType::f16, 1 + 0x1p-11 + 0x1p-30), 0x3c00u);
  EXPECT_EQ(eval(Op::cast, DType::f64, {bits_of(DType::f64, 1 + 0x1p-8 + 0x1p-30)}, DType::bf16), 0x3f80u);
  EXPECT_EQ(as_double(DType::bf16, eval(Op::cast, DType::i64, {(1 << 24) + (1 << 16) + 1}, DType::bf16)), 16777216.0);
}

TEST(Scalar, IntegersOfNumbersSaturateAndRound) {
  EXPECT_EQ(as_integer(DType::i8, bits_of(DType::i8, 2.5)), 2);
  EXPECT_EQ(as_integer(DType::i8, bits_of(DType::i8, 1000)), 127);
  EXPECT_EQ(as_integer(DType::i8, bits_of_integer(DType::i8, -1000)), -128);
  EXPECT_EQ(bits_of_integer(DType::u16, -1), 0u);
  EXPECT_EQ(bits_of_integer(DType::u64, -1), 0u);
  EXPECT_EQ(as_double(DType::f32, bits_of_integer(DType::f32, 16777217)), 16777216.0);
}

}  // namespace
}  // namespace hologram::ir
