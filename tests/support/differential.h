// tests/support/differential.h: programs whose outcome everywhere must be the interpreter's, with data that try it.
#pragma once

#include "atlas/builder.h"
#include "ir/scalar.h"
#include "schedule/machine.h"
#include "support/test.h"

namespace hologram::test {

using atlas::Access;
using atlas::AxisKind;
using atlas::BodyBuilder;
using atlas::Val;

/// Bit patterns worth trying for a type: zeros, infinities, NaN, subnormals, extremes, halfway cases.
inline std::vector<uint64_t> special_values(DType t) {
  std::vector<uint64_t> v;
  if (t == DType::b8) return {0, 1};
  if (is_float(t)) {
    double inf = std::numeric_limits<double>::infinity();
    auto add = [&](auto... x) { (v.push_back(ir::bits_of(t, x)), ...); };
    add(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 0.1, -7.3, 1e-3, 255.0, 256.5, 127.5, -128.5, 65504.0, 65520.0, 32767.9,
        -32769.0, 2147483648.0, -2147483648.0, 4294967296.0, 9.3e18, -9.3e18, 1.9e19, 1e30, -1e30, inf, -inf, std::nan(""), 1e-40, -3e-45,
        6e-8, 3e-8, 5.97e-8, 1.17549435e-38, 3.4028234e38, 1.00000012, 0.99999994, 1e300, 5e-324);
    v.push_back(~uint64_t{0} >> (65 - 8 * size_of(t)));  // NaN of all bits
    return v;
  }
  uint64_t ones = ~uint64_t{0} >> (64 - 8 * size_of(t));
  for (uint64_t x : std::initializer_list<uint64_t>{0, 1, 2, 3, 7, 8, 31, 32, 63, 64, 100, ones, ones - 1, ones >> 1, (ones >> 1) + 1,
                                                    (ones >> 1) - 1, ones - 6})
    v.push_back(x & ones);
  return v;
}

/// Fills memory of `t`: random numbers, sprinkled with special values (`specials` of 16).
inline void fill(char* to, DType t, int64_t count, std::mt19937_64& random, int specials) {
  auto list = special_values(t);
  auto size = static_cast<size_t>(size_of(t));
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = random();
    if (static_cast<int>(bits % 16) < specials)
      bits = list[(bits >> 8) % list.size()];
    else if (is_float(t))
      bits = ir::bits_of(t, std::normal_distribution<double>(0, 2)(random));
    else
      bits = t == DType::b8 ? bits >> 63 : bits >> 20;
    std::memcpy(to + static_cast<size_t>(i) * size, &bits, size);
  }
}

/// The bits of the element that lies there, and its value.
inline uint64_t bits_at(DType t, const char* place) {
  uint64_t bits = 0;
  std::memcpy(&bits, place, static_cast<size_t>(size_of(t)));
  return bits;
}
inline double number_at(DType t, const char* place) { return ir::as_double(t, bits_at(t, place)); }

inline bool same(DType t, const char* x, const char* y) {
  return bits_at(t, x) == bits_at(t, y) || (is_float(t) && std::isnan(number_at(t, x)) && std::isnan(number_at(t, y)));
}

struct Inputs {
  std::vector<int64_t> symbols = {};
  uint64_t seed = 1;
  int specials = 2;                ///< of 16 values
  std::vector<int64_t> chunks{0};  ///< units per call where the test makes the calls, 0: all
  /// Overwrites buffer contents before the run (buffer number, memory, elements).
  std::function<void(int, char*, int64_t)> prepare = {};
  /// Of floats, relative to the larger of 1 and the interpreter's value; 0: the same bytes.
  double tolerance = 0;
  bool nan_for_infinity = false;  ///< NaN is as good where the interpreter has an infinity
};

inline bool close(DType t, const char* x, const char* y, double tolerance) {
  if (!is_float(t) || tolerance == 0) return false;
  const double got = number_at(t, x), wanted = number_at(t, y);
  return std::abs(got - wanted) <= tolerance * std::max(1.0, std::abs(wanted));
}

/// Expects elements of a type to be those wanted, NaN for NaN; tells of the first three others.
inline bool expect_elements(DType t, const char* got, const char* wanted, size_t bytes, double tolerance, size_t buffer,
                            bool nan_for_infinity = false) {
  const auto size = static_cast<size_t>(size_of(t));
  int bad = 0;
  for (size_t i = 0; i * size < bytes && bad < 3; ++i) {
    const char *x = got + i * size, *y = wanted + i * size;
    if (same(t, x, y) || close(t, x, y, tolerance)) continue;
    if (nan_for_infinity && is_float(t) && std::isnan(number_at(t, x)) && std::isinf(number_at(t, y))) continue;
    ADD_FAILURE() << "buffer " << buffer << " element " << i << ": got " << number_at(t, x) << " (" << std::hex << bits_at(t, x)
                  << "), interpreter " << number_at(t, y) << " (" << bits_at(t, y) << ")";
    ++bad;
  }
  return bad == 0;
}

/// Expects the same bytes (NaN for NaN) and sticky errors from the interpreter and from what the group that this is linked into tries:
/// tests/codegen every instruction set, tests/conformance every backend.
void expect_same(const atlas::Program& p, const Inputs& inputs = {});

/// A program as a machine's planner would have it, with panels as wide as its own.
using ProgramFor = std::function<atlas::Program(const schedule::Machine&)>;
/// expect_same() for the machine of each of those, with its own program.
void expect_same_on_each(const ProgramFor& program, const Inputs& inputs = {});

/// Axes of a loop block: `parallel` extents, then `rows`.
inline std::vector<Expr> add_axes(atlas::LoopBlock& b, const std::vector<Expr>& parallel, const std::vector<Expr>& rows) {
  std::vector<Expr> i;
  for (const Expr& e : parallel) {
    i.push_back(Expr::axis(static_cast<int>(b.axes.size()), e));
    b.axes.push_back({AxisKind::parallel, e});
  }
  b.parallel_rank = static_cast<int>(b.axes.size());
  for (const Expr& e : rows) {
    i.push_back(Expr::axis(static_cast<int>(b.axes.size()), e));
    b.axes.push_back({AxisKind::row, e});
  }
  return i;
}

/// A loop over points alone, with lanes along the last axis, whose body is to be built.
struct Points {
  atlas::Program p;
  std::vector<Expr> i;

  explicit Points(const std::vector<Expr>& extents, int symbols = 0) {
    p.num_symbols = symbols;
    p.loop().stages.push_back({atlas::StageKind::point, {}, {}, {}});
    i = add_axes(p.loop(), extents, {});
    p.loop().lane_axis = static_cast<int>(extents.size()) - 1;
  }
  BodyBuilder body() { return BodyBuilder(p.loop().stages[0].body); }
};

}  // namespace hologram::test
