// tests/codegen/products.h: programs of one product.
#pragma once

#include <ostream>

#include "atlas/builder.h"

namespace hologram::test::products {

using atlas::Access;
using atlas::AxisKind;
using atlas::BodyBuilder;
using atlas::Val;

enum class Tail { store, bias, gelu_residual, narrow };

// One product: its shape, how the operands lie in memory, and what comes before and after.
struct Case {
  int64_t m, n, k;
  int64_t batch = 0;  // 0: no batch axis
  DType operand = DType::f32;
  DType acc = DType::f32;
  bool lhs_transposed = false, rhs_transposed = false, packed = false, prologue = false, symbolic = false, known_rows = false,
       reproducible = false,
       mixed = false;  // the right operand has the other type of bytes
  Tail tail = Tail::store;
  int64_t parts = 1;  // of the n columns
  // Windows: runs of so many values of k, of which the first `outside` of the first row are 3 (0: nothing asks).
  int64_t run = 0, outside = 1;
};

inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.m << 'x' << c.n << 'x' << c.k << " batch " << c.batch << ' ' << name_of(c.operand) << "->" << name_of(c.acc)
             << (c.lhs_transposed ? " lhs^T" : "") << (c.rhs_transposed ? " rhs^T" : "") << (c.packed ? " packed" : "")
             << (c.prologue ? " prologue" : "") << (c.symbolic ? " symbolic" : "") << (c.known_rows ? " but for rows" : "")
             << (c.reproducible ? " reproducible" : "") << (c.mixed ? " mixed" : "") << " tail " << static_cast<int>(c.tail) << " parts "
             << c.parts << " run " << c.run;
}

inline constexpr int lhs_buffer = 0, rhs_buffer = 1, bias_buffer = 2, residual_buffer = 3, out_buffer = 4;

inline DType rhs_type(const Case& c) {
  if (!c.mixed) return c.operand;
  return c.operand == DType::i8 ? DType::u8 : DType::i8;
}

inline DType out_type(const Case& c) { return c.tail == Tail::narrow ? DType::bf16 : c.acc; }

inline atlas::Program make_program(const Case& c, int panel, int group = 1) {
  Expr m = c.symbolic && !c.known_rows ? Expr::symbol(0) : Expr(c.m), part = c.symbolic ? Expr::symbol(1) : Expr(c.n / c.parts),
       n = part * Expr(c.parts), k = c.symbolic ? Expr::symbol(2) : Expr(c.k);
  atlas::Program p;
  p.num_symbols = c.symbolic ? 3 : 0;
  Expr batch = c.batch ? Expr(c.batch) : Expr(1);
  Expr panels = ceil_div(part, panel) * Expr(c.parts);
  p.buffers = {{c.operand, Access::read, batch * m * k},
               {rhs_type(c), Access::read, c.packed ? batch * panels * ceil_div(k, group) * Expr(panel * group) : batch * k * n},
               {c.acc, Access::read, n},
               {c.acc, Access::read, batch * m * part},
               {out_type(c), Access::write, batch * m * part}};
  atlas::ProductBlock& b = p.block.emplace<atlas::ProductBlock>();
  if (c.batch) b.axes.push_back({AxisKind::parallel, batch});
  b.batch_rank = c.batch ? 1 : 0;
  b.axes.push_back({AxisKind::parallel, m});
  b.axes.push_back({AxisKind::parallel, n});
  b.axes.push_back({AxisKind::row, k});
  b.operand_type = c.operand;
  b.mixed = c.mixed;
  b.reproducible = c.reproducible;
  b.acc_type = c.acc;
  int r = b.batch_rank;
  Expr ib = c.batch ? Expr::axis(0, batch) : Expr(0);
  Expr im = Expr::axis(r, m), in = Expr::axis(r + 1, n), ik = Expr::axis(r + 2, k);
  BodyBuilder lhs(b.lhs);
  Expr at_lhs = c.lhs_transposed ? ik * m + im : im * k + ik;
  Val inside;
  if (c.run) {
    const Expr run(c.run), number = floor_div(ik, run);
    at_lhs = (im + number * m) * run + mod(ik, run);
    if (c.outside) inside = lhs.op(ir::Op::le, lhs.constant(DType::i64, static_cast<uint64_t>(c.outside)), lhs.index(im * k + number));
  }
  Val x = lhs.load(lhs_buffer, c.operand, ib * m * k + at_lhs, inside);
  if (c.run && c.outside) x = lhs.select(inside, x, lhs.constant(c.operand, is_float(c.operand) ? 0x4040 : 3));
  if (c.prologue) {
    DType t = compute_type(c.operand);
    Val wide = lhs.cast(x, t);
    wide = lhs.add(wide, wide);
    x = lhs.cast(wide, c.operand);
  }
  lhs.finish(x);
  if (c.packed) {
    b.packed_rhs = rhs_buffer;
    b.panel_width = panel;
    b.panel_group = group;
  } else {
    BodyBuilder rhs(b.rhs);
    rhs.finish(rhs.load(rhs_buffer, rhs_type(c), ib * k * n + (c.rhs_transposed ? in * k + ik : ik * n + in)));
  }
  BodyBuilder e(b.epilogue);
  Val v = e.accumulator(0, c.acc);
  if (c.parts > 1) {
    b.parts = static_cast<int>(c.parts);
    b.axes.push_back({AxisKind::parallel, part});
    in = Expr::axis(r + 3, part);
    for (int q = 1; q < b.parts; ++q) v = e.add(e.mul(v, e.load(bias_buffer, c.acc, Expr(q) * part + in)), e.accumulator(q, c.acc));
  }
  Expr at = ib * m * part + im * part + in;
  if (c.tail != Tail::store) v = e.add(v, e.load(bias_buffer, c.acc, in));
  if (c.tail == Tail::gelu_residual) {
    v = e.op(ir::Op::gelu, v);
    v = e.add(v, e.load(residual_buffer, c.acc, at));
  }
  v = e.cast(v, out_type(c));
  e.store(out_buffer, at, v);
  atlas::expand_math(p);
  return p;
}

}  // namespace hologram::test::products
