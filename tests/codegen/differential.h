// tests/codegen/differential.h: runs a program on the interpreter and on every instruction set and
// compares all bytes.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "atlas/builder.h"
#include "codegen/run_kernel.h"
#include "ir/scalar.h"

namespace hologram::test {

using atlas::Access;
using atlas::AxisKind;
using atlas::BodyBuilder;
using atlas::Val;

/// Bit patterns worth trying for a type: zeros, infinities, NaN, subnormals, extremes, halfway
/// cases.
inline std::vector<uint64_t> special_values(DType t) {
  std::vector<uint64_t> v;
  if (t == DType::b8) return {0, 1};
  if (is_float(t)) {
    double inf = std::numeric_limits<double>::infinity();
    for (double x : {0.0,           -0.0,
                     1.0,           -1.0,
                     0.5,           -0.5,
                     1.5,           2.5,
                     -2.5,          3.0,
                     0.1,           -7.3,
                     1e-3,          255.0,
                     256.5,         127.5,
                     -128.5,        65504.0,
                     65520.0,       32767.9,
                     -32769.0,      2147483648.0,
                     -2147483648.0, 4294967296.0,
                     9.3e18,        -9.3e18,
                     1.9e19,        1e30,
                     -1e30,         inf,
                     -inf,          std::nan(""),
                     1e-40,         -3e-45,
                     6e-8,          3e-8,
                     5.97e-8,       1.17549435e-38,
                     3.4028234e38,  1.00000012,
                     0.99999994,    1e300,
                     5e-324})
      v.push_back(ir::bits_of(t, x));
    return v;
  }
  uint64_t ones = ~uint64_t{0} >> (64 - 8 * size_of(t));
  for (uint64_t x :
       std::initializer_list<uint64_t>{0, 1, 2, 3, 7, 8, 31, 32, 63, 64, 100, ones, ones - 1,
                                       ones >> 1, (ones >> 1) + 1, (ones >> 1) - 1, ones - 6})
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

inline bool same(DType t, const char* x, const char* y) {
  auto size = static_cast<size_t>(size_of(t));
  if (std::memcmp(x, y, size) == 0) return true;
  if (!is_float(t)) return false;
  uint64_t a = 0, b = 0;
  std::memcpy(&a, x, size);
  std::memcpy(&b, y, size);
  return std::isnan(ir::as_double(t, a)) && std::isnan(ir::as_double(t, b));
}

struct Inputs {
  std::vector<int64_t> symbols;
  uint64_t seed = 1;
  int specials = 2;                ///< of 16 values
  std::vector<int64_t> chunks{0};  ///< units per call, 0: all
  std::vector<cpu::Isa> isas = runnable_isas();
  /// Overwrites buffer contents before the run (buffer number, memory, elements).
  std::function<void(int, char*, int64_t)> prepare;
  /// Of floats, relative to the larger of 1 and the interpreter's value; 0: the same bytes.
  double tolerance = 0;
  /// The program compiled, for the next call with it.
  std::map<cpu::Isa, std::unique_ptr<Compiled>>* kernels = nullptr;
};

inline bool close(DType t, const char* x, const char* y, double tolerance) {
  if (!is_float(t) || tolerance == 0) return false;
  uint64_t a = 0, b = 0;
  std::memcpy(&a, x, static_cast<size_t>(size_of(t)));
  std::memcpy(&b, y, static_cast<size_t>(size_of(t)));
  double got = ir::as_double(t, a), wanted = ir::as_double(t, b);
  return std::abs(got - wanted) <= tolerance * std::max(1.0, std::abs(wanted));
}

/// Expects the same bytes (NaN for NaN) and sticky errors from the interpreter and from every
/// instruction set.
inline void expect_same(atlas::Program p, const Inputs& inputs = {}) {
  atlas::verify(p);
  atlas::Program expanded = p;
  atlas::expand_math(expanded);
  std::mt19937_64 random(inputs.seed);
  std::vector<std::unique_ptr<Memory>> fresh, wanted;
  std::vector<size_t> numbers;
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    const atlas::Buffer& b = p.buffers[k];
    if (b.access == Access::scratch) continue;
    int64_t count = b.extent.eval(inputs.symbols);
    auto bytes = static_cast<size_t>(count * size_of(b.dtype));
    fresh.push_back(std::make_unique<Memory>(bytes));
    fill(fresh.back()->data(), b.dtype, count, random, inputs.specials);
    if (inputs.prepare) inputs.prepare(static_cast<int>(k), fresh.back()->data(), count);
    wanted.push_back(std::make_unique<Memory>(bytes));
    std::memcpy(wanted.back()->data(), fresh.back()->data(), bytes);
    numbers.push_back(k);
  }
  std::vector<void*> bufs;
  for (auto& m : wanted) bufs.push_back(m->data());
  std::atomic<int32_t> sticky{0};
  interp::run(expanded, bufs.data(), inputs.symbols.data(), &sticky);

  for (cpu::Isa isa : inputs.isas) {
    SCOPED_TRACE(name_of(isa));
    std::unique_ptr<Compiled> own;
    std::unique_ptr<Compiled>& made = inputs.kernels ? (*inputs.kernels)[isa] : own;
    if (!made) made = std::make_unique<Compiled>(p, cpu::generic_target(isa));
    const Compiled& kernel = *made;
    for (int64_t chunk : inputs.chunks) {
      SCOPED_TRACE(chunk);
      std::vector<std::unique_ptr<Memory>> got;
      bufs.clear();
      for (auto& m : fresh) {
        got.push_back(std::make_unique<Memory>(m->size()));
        std::memcpy(got.back()->data(), m->data(), m->size());
        bufs.push_back(got.back()->data());
      }
      int32_t errors = 0;
      ASSERT_EQ(kernel.run(bufs, inputs.symbols, chunk, &errors), 0);
      EXPECT_EQ(errors, sticky.load());
      for (size_t n = 0; n < got.size(); ++n) {
        EXPECT_TRUE(got[n]->intact()) << "buffer " << numbers[n] << " overrun";
        DType t = p.buffers[numbers[n]].dtype;
        auto size = static_cast<size_t>(size_of(t));
        int bad = 0;
        for (size_t i = 0; i * size < got[n]->size() && bad < 3; ++i) {
          const char *x = got[n]->data() + i * size, *y = wanted[n]->data() + i * size;
          if (same(t, x, y) || close(t, x, y, inputs.tolerance)) continue;
          uint64_t a = 0, b = 0;
          std::memcpy(&a, x, size);
          std::memcpy(&b, y, size);
          ADD_FAILURE() << "buffer " << numbers[n] << " element " << i << ": got "
                        << ir::as_double(t, a) << " (" << std::hex << a << "), interpreter "
                        << ir::as_double(t, b) << " (" << b << ")";
          ++bad;
        }
        if (bad) return;
      }
    }
  }
}

/// Axes of a loop block: `parallel` extents, then `rows`.
inline std::vector<Expr> add_axes(atlas::LoopBlock& b, const std::vector<Expr>& parallel,
                                  const std::vector<Expr>& rows) {
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

}  // namespace hologram::test
