// schedule/lower/winograd.cpp: weights of products by Winograd's F(2x2, 3x3), and their way back.
//
// The threshold for the centre, (m11 - m12) - (m21 - m22), is 2^-22 of the sum of these four's
// absolute values, plus 2^-147: twice what the roundings of M may make of a 0. An edge's middle is
// one difference, a corner itself.
#include <array>
#include <limits>

#include "schedule/lower/weights.h"

namespace hologram::schedule {

using atlas::Val;
using ir::Op;
using ir::Value;

// A filter is the 3 x 3 taps of a column and a channel. Where the sum of |taps| is below 2^126, its
// 16 numbers are M = G w G^T, of which the taps are read back:
//   rows 0 and 2 are M's rows 0 and 3, row 1 is M's row 1 minus row 2; columns likewise;
//   the centre counts as 0 where it is not larger than what the roundings of M may leave of a 0.
// So a tap of 0 comes back as 0, and none with another sign. Other filters (NaN, infinities, what M
// or a difference might overflow with) are kept as they are: M's (1, 1) is NaN, for which each sum
// of the column is computed again; the centre is in place (2, 2), the other taps where those of the
// corners and edges that M is read back from begin.

Packed pack_winograd(const Context& cx, Value rhs, int width) {
  Expr n = rhs->shape[1];
  auto channels = rhs->shape[0].exact_div(9);
  check(channels.has_value(), "winograd packing: the depth");
  Shape shape{ceil_div(n, Expr(width)), Expr(16), *channels, Expr(width)};
  int slot = cx.storage.temporary(DType::f32, shape, "pack");
  const Shape points{shape[0], shape[2], shape[3]};
  Lowered kernel = cx.map_loop("pack", points, [&](Emitter& e, const Index& at) {
    Expr column = at[0] * Expr(width) + at[2];
    atlas::BodyBuilder& b = e.builder();
    Val guard = e.within(column, n, {});
    std::array<std::array<Val, 3>, 3> raw, g;
    Val magnitude;
    for (size_t u = 0; u < 3; ++u)
      for (size_t v = 0; v < 3; ++v) {
        Expr row = Expr(static_cast<int64_t>(3 * u + v)) * *channels + at[1];
        Val x = raw[u][v] =
            or_zero(e, guard, e.convert(e.value(rhs, {row, column}, guard), DType::f32));
        g[u][v] = e.convert(x, DType::f64);
        Val size = b.op(Op::abs, x);
        magnitude = u + v == 0 ? size : b.add(magnitude, size);
      }
    Val transforms = b.lt(magnitude, b.number(DType::f32, 0x1p126));
    // g0, (g0 + g1 + g2) / 2, (g0 - g1 + g2) / 2, g2
    auto four = [&](const std::array<Val, 3>& x) {
      Val half = b.number(DType::f64, 0.5), outer = b.mul(b.add(x[0], x[2]), half),
          inner = b.mul(x[1], half);
      return std::array{x[0], b.add(outer, inner), b.sub(outer, inner), x[2]};
    };
    std::array<std::array<Val, 4>, 3> t;
    for (size_t v = 0; v < 3; ++v) t[v] = four({g[0][v], g[1][v], g[2][v]});
    for (size_t i = 0; i < 4; ++i) {
      auto row = four({t[0][i], t[1][i], t[2][i]});
      for (size_t j = 0; j < 4; ++j) {
        Val value = e.convert(row[j], DType::f32);
        if (i == 1 && j == 1)
          value = b.select(transforms, value,
                           b.number(DType::f32, std::numeric_limits<double>::quiet_NaN()));
        else if (i == 2 && j == 2)
          value = b.select(transforms, value, raw[1][1]);
        else if (i != 2 && j != 2)
          value = b.select(transforms, value, raw[i - i / 2][j - j / 2]);
        e.store(slot, {at[0], Expr(static_cast<int64_t>(4 * i + j)), at[1], at[2]}, value);
      }
    }
  });
  return {std::move(kernel), slot};
}

Val unpack_winograd(Emitter& e, int slot, const Index& at, const Expr& channels, int width) {
  atlas::BodyBuilder& b = e.builder();
  const Expr tap = floor_div(at[0], channels), u = floor_div(tap, 3), v = mod(tap, 3);
  const Expr panel = floor_div(at[1], Expr(width));
  auto read = [&](const Expr& i, const Expr& j) {
    return e.read(slot, {panel, Expr(4) * i + j, mod(at[0], channels), at[1] - panel * width});
  };
  auto is = [&](const Expr& x, int64_t value) {
    return b.eq(b.index(x), b.integer(DType::i64, value));
  };
  // Rows and columns of G: 0 and 2 of a filter's stand by themselves in 0 and 3, 1 is the
  // difference of 1 and 2.
  const Expr row = u + floor_div(u, 2), column = v + floor_div(v, 2);
  Val corner = read(row, column), right = read(row, 2), below = read(2, column), far = read(2, 2);
  Val middle = is(v, 1), centre = is(tap, 4);
  Val above = b.select(middle, b.sub(corner, right), corner);
  Val under = b.select(middle, b.sub(below, far), below);
  Val x = b.select(is(u, 1), b.sub(above, under), above);
  // What four roundings may make of a 0.
  auto size = [&](Val y) { return b.op(Op::abs, y); };
  Val sizes = b.add(b.add(size(corner), size(right)), b.add(size(below), size(far)));
  Val error = b.fma(sizes, b.number(DType::f32, 0x1p-22), b.number(DType::f32, 0x1p-147));
  Val lost = b.op(Op::bit_and, centre, b.le(size(x), error));
  x = b.select(lost, b.number(DType::f32, 0), x);
  Val mark = read(1, 1);
  return b.select(b.ne(mark, mark), b.select(centre, far, corner), x);
}

}  // namespace hologram::schedule
