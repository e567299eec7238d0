// tests/backend_cuda/factors.h: a product of floats, its factors as they lie in memory, and what it has to give.
#pragma once

#include <fmt/format.h>

#include "backend_cuda/cuda_test.h"
#include "support/wrong.h"

namespace hologram::test {

struct Factors {
  std::string type = "f32";
  bool by_columns[2] = {false, false};
  int64_t m, depth, n;
  int64_t maps = 0;         ///< of tensors, two where warpgroups compute it
  std::string rows = "s0";  ///< as the program has them
  int precision = 0;
  bool reproducible = false;
  std::vector<float> left = {}, right = {};  ///< by rows, in numbers that the type holds

  float& x(int64_t i, int64_t k) { return left[static_cast<size_t>(i * depth + k)]; }
  float& y(int64_t k, int64_t j) { return right[static_cast<size_t>(k * n + j)]; }

  template <class F>
  void fill(F&& number) {
    left.resize(static_cast<size_t>(m * depth));
    right.resize(static_cast<size_t>(depth * n));
    for (auto* factor : {&left, &right})
      for (float& x : *factor) x = number();
  }
  /// Integers whose sums every order of adding gives exactly: of ten bits where two terms hold them, or small ones.
  void fill_with_integers() {
    const int64_t range = type == "f32" ? 1021 : 9;
    int64_t number = 0;
    fill([&] { return static_cast<float>((611 * ++number) % range - range / 2); });
  }

  /// A factor as it lies, behind `shift` elements.
  std::vector<std::byte> laid(bool of_right, size_t shift = 0) const {
    const std::vector<float>& from = of_right ? right : left;
    const int64_t count = of_right ? depth : m, columns = of_right ? n : depth;
    const DType t = *dtype_from_name(type);
    const auto size = static_cast<size_t>(size_of(t));
    std::vector<std::byte> out((from.size() + shift) * size);
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        const float x = from[static_cast<size_t>(i * columns + j)];
        const uint64_t bits = is_float(t) ? ir::bits_of(t, static_cast<double>(x)) : ir::bits_of_integer(t, static_cast<int64_t>(x));
        const auto at = static_cast<size_t>(by_columns[of_right] ? j * count + i : i * columns + j);
        std::memcpy(&out[(at + shift) * size], &bits, size);
      }
    return out;
  }

  std::string text() const {
    return fmt::format("{} {} x {} x {}, {} {}, {} rows, precision {}", type, m, depth, n, by_columns[0], by_columns[1], rows, precision);
  }
  atlas::Program program() const { return float_product(type.c_str(), by_columns[0], by_columns[1], rows, reproducible, precision); }
  std::vector<float> run(Runtime& runtime) const {
    SCOPED_TRACE(text());
    std::vector<std::byte> first = laid(false), second = laid(true);
    std::vector<float> out(static_cast<size_t>(m * n), -1);
    const Bytes buffers[] = {first, second, std::as_writable_bytes(std::span(out))};
    const Counted counted("maps");
    run_program(runtime, program(), buffers, std::array{m, depth, n});
    counted.expect(maps);
    return out;
  }

  /// Of each result: the sum, those of |x||y| and of |x| + |y|.
  struct Sums {
    std::vector<double> value, size, operands;
  };
  Sums sums() {
    Sums s;
    for (auto* of : {&s.value, &s.size, &s.operands}) of->resize(static_cast<size_t>(m * n));
    for (int64_t i = 0; i < m; ++i)
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t j = 0; j < n; ++j) {
          const double a = x(i, k), b = y(k, j);
          const auto at = static_cast<size_t>(i * n + j);
          s.value[at] += a * b, s.size[at] += std::fabs(a * b), s.operands[at] += std::fabs(a) + std::fabs(b);
        }
    return s;
  }
  /// A result as chains of 384 multiply-adds give it.
  float chain(int64_t i, int64_t j) {
    float sum = 0;
    for (int64_t begin = 0; begin < depth; begin += 384) {
      float chain = 0;
      for (int64_t k = begin; k < std::min(begin + 384, depth); ++k) chain = std::fma(x(i, k), y(k, j), chain);
      sum = begin == 0 ? chain : sum + chain;
    }
    return sum;
  }
};

/// Integers, exactly. A GPU has many more multiprocessors than the emulator: so many times the rows and columns by warpgroups.
inline void expect_exact(Runtime& runtime, Factors f) {
  if (f.maps && !small_device()) f.m *= 8, f.n *= 8;
  f.fill_with_integers();
  const std::vector<double> wanted = f.sums().value;
  for (const double sum : wanted) ASSERT_LT(std::fabs(sum), 0x1p24);
  EXPECT_EQ(wrong_places(f.run(runtime), wanted, f.m, f.n), "") << f.text();
}

/// docs/numerics.md: what products by terms lose, in units of 2^-24 times the sum of |x||y| (2^-15
/// and 2^-7 of fewer terms), and what they may.
struct TermErrors {
  const char* name;
  float (*of)(std::mt19937&, float, int precision);  ///< of a normal number
  double most, mean;                                 ///< units
  double least = 0;                                  ///< of `most`
  int left_exponent = 0;
};
inline void expect_term_errors(Runtime& runtime, Factors f, const TermErrors& c) {
  SCOPED_TRACE(c.name);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  f.fill([&] { return c.of(random, normal(random), f.precision); });
  for (float& x : f.left) x = std::ldexp(x, c.left_exponent);
  const std::vector<float> out = f.run(runtime);
  const Factors::Sums sums = f.sums();
  const double unit = f.precision == 0 ? 0x1p-24 : f.precision == 1 ? 0x1p-15 : 0x1p-7;
  const auto depth = static_cast<double>(f.depth);
  double most = 0, all = 0;
  for (size_t e = 0; e < out.size(); ++e) {
    const double error = std::fabs(out[e] - sums.value[e]);
    EXPECT_LE(error, (f.precision ? unit : 0) * sums.size[e] + (35 + std::ceil(depth / 384)) * 0x1p-24 * sums.size[e] +
                         0x1p-134 * sums.operands[e] + (depth + 12) * 0x1p-149)
        << f.text();
    most = std::max(most, error / (unit * sums.size[e]));
    all += error / (unit * sums.size[e]);
  }
  EXPECT_LE(most, c.most) << f.text();
  EXPECT_GT(most, c.least) << f.text();
  EXPECT_LE(all / static_cast<double>(out.size()), c.mean) << f.text();
}

constexpr double any_error = std::numeric_limits<double>::infinity();
inline float as_drawn(std::mt19937&, float x, int) { return x; }
inline float of_one_sign(std::mt19937&, float x, int) { return std::fabs(x); }
inline float graded(std::mt19937& random, float x, int) { return std::ldexp(x, static_cast<int>(random() % 40) - 20); }

}  // namespace hologram::test
