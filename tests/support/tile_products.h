// tests/support/tile_products.h: products as a machine with AMX tiles has them, and their packed right operands.
#pragma once

#include <bit>
#include <cstring>
#include <ostream>

#include "atlas/tile_math.h"
#include "codegen/products.h"

namespace hologram::test::tile_products {

using atlas::Access;

/// m × n sums over k; `terms` as ProductBlock has it.
struct Case {
  int64_t m, n, k;
  int64_t batch = 1;
  DType operand = DType::bf16;
  int terms = 1;  // 0: bytes
  bool lhs_transposed = false, prologue = false, symbolic = false;
  int64_t parts = 1;    // of the columns
  bool window = false;  // runs of 8 values of k, m * 8 apart
  bool mixed = false;   // the right operand has the other type of bytes
  bool words = false;   // and is packed as words
};

inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.m << 'x' << c.n << 'x' << c.k << " batch " << c.batch << ' ' << name_of(c.operand) << " terms " << c.terms
             << (c.lhs_transposed ? " lhs^T" : "") << (c.prologue ? " prologue" : "") << (c.window ? " window" : "")
             << (c.symbolic ? " symbolic" : "") << (c.mixed ? " mixed" : "") << " parts " << c.parts;
}

using products::lhs_buffer, products::rhs_buffer;
inline constexpr int packed_buffer = products::residual_buffer;  // which nothing else reads

inline constexpr int width = 32;  // of a panel

inline int64_t panels_of(const Case& c) { return (c.n / c.parts + width - 1) / width * c.parts; }

inline int64_t packed_words(const Case& c) {
  int64_t panels = panels_of(c);
  int64_t rows = c.terms ? (c.k + 31) / 32 * 16 * c.terms : (c.k + 3) / 4;
  return c.batch * panels * rows * width;
}

inline atlas::Program make_program(const Case& c) {
  atlas::Program p = products::make_program({.m = c.m,
                                             .n = c.n,
                                             .k = c.k,
                                             .batch = c.batch,
                                             .operand = c.operand,
                                             .acc = c.terms ? DType::f32 : DType::i32,
                                             .lhs_transposed = c.lhs_transposed,
                                             .prologue = c.prologue,
                                             .symbolic = c.symbolic,
                                             .mixed = c.mixed,
                                             .tail = products::Tail::bias,
                                             .parts = c.parts,
                                             .run = c.window ? 8 : 0,
                                             .outside = 0},
                                            1);
  atlas::ProductBlock& b = p.product();
  const Expr part = c.symbolic ? Expr::symbol(1) : Expr(c.n / c.parts), k = b.axes[3].extent;
  const Expr rows = c.terms ? ceil_div(k, 32) * Expr(16 * c.terms) : ceil_div(k, 4) * Expr(c.words ? 1 : 4);
  p.buffers[packed_buffer] = {c.terms || c.words ? DType::u32 : p.buffers[rhs_buffer].dtype, Access::read,
                              Expr(c.batch) * ceil_div(part, width) * Expr(c.parts) * rows * Expr(width)};
  b.terms = c.terms;
  b.packed_rhs = packed_buffer;
  b.panel_width = width;
  b.panel_group = c.terms ? 2 : 4;
  atlas::verify(p);
  return p;
}

inline std::vector<int64_t> symbols_of(const Case& c) { return c.symbolic ? std::vector{c.m, c.n / c.parts, c.k} : std::vector<int64_t>{}; }

/// The right operand at `rhs` as atlas::ProductBlock lays it out: packed_words(c) words.
inline void pack(const Case& c, const char* rhs, char* packed) {
  int64_t part = c.n / c.parts, steps = (c.k + 31) / 32, groups = (c.k + 3) / 4;
  const auto size = static_cast<size_t>(size_of(c.operand));
  std::memset(packed, 0, static_cast<size_t>(packed_words(c)) * 4);
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t k = 0; k < c.k; ++k)
      for (int64_t n = 0; n < c.n; ++n) {
        uint64_t bits = 0;
        std::memcpy(&bits, rhs + static_cast<size_t>((b * c.k + k) * c.n + n) * size, size);
        int64_t panel = b * panels_of(c) + n % part / width * c.parts + n / part;
        int64_t column = n % part % width;
        if (c.terms == 0) {
          int64_t at = ((panel * groups + k / 4) * width + column) * 4 + 3 - k % 4;
          packed[at] = static_cast<char>(bits);
          continue;
        }
        float x =
            c.operand == DType::f32 ? std::bit_cast<float>(static_cast<uint32_t>(bits)) : atlas::widen_bf16(static_cast<uint16_t>(bits));
        auto terms = atlas::terms_of(x, c.terms);
        for (int t = 0; t < c.terms; ++t) {
          int64_t row = ((panel * steps + k / 32) * c.terms + t) * 16 + k % 32 / 2;
          std::memcpy(packed + ((row * width + column) * 2 + k % 2) * 2, &terms[static_cast<size_t>(t)], 2);
        }
      }
}

}  // namespace hologram::test::tile_products
