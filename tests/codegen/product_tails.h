// tests/codegen/product_tails.h: programs of a product and what follows its rows.
#pragma once

#include <ostream>

#include "atlas/builder.h"

namespace hologram::test::product_tails {

using atlas::Access;
using atlas::AxisKind;
using atlas::BodyBuilder;
using atlas::StageKind;
using atlas::Val;
using ir::Op;

enum class Follows { layer_norm, softmax, running_sum, largest };

struct Case {
  int64_t m, n, k;
  int64_t batch = 0;  // 0: no batch axis
  DType operand = DType::f32, acc = DType::f32, kept = DType::f32;
  bool lhs_transposed = false, rhs_transposed = false, packed = true, symbolic = false, reproducible = false, in_place = false;
  Follows follows = Follows::layer_norm;
};

inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.m << 'x' << c.n << 'x' << c.k << " batch " << c.batch << ' ' << name_of(c.operand) << "->" << name_of(c.acc) << "->"
             << name_of(c.kept) << (c.lhs_transposed ? " lhs^T" : "") << (c.rhs_transposed ? " rhs^T" : "") << (c.packed ? " packed" : "")
             << (c.symbolic ? " symbolic" : "") << (c.reproducible ? " reproducible" : "") << (c.in_place ? " in place" : "") << " tail "
             << static_cast<int>(c.follows);
}

inline constexpr int lhs_buffer = 0, rhs_buffer = 1, bias_buffer = 2, residual_buffer = 3, kept_buffer = 4, out_buffer = 5,
                     scratch_buffer = 6;

struct Axes {
  Expr batch, m, n, k, ib, im, in;
};

inline atlas::Stage& stage(atlas::Program& p, StageKind kind) {
  p.nest().stages.push_back({kind, {}, {}, {}});
  return p.nest().stages.back();
}

// The mean of the row, that of its squared distances from it, and its elements normalised.
inline void add_layer_norm(atlas::Program& p, const Case& c, const Expr& at, const Axes& a, int out) {
  DType t = compute_type(c.kept);
  for (int n = 0; n < 3; ++n) {
    atlas::Stage& s = stage(p, StageKind::row);
    BodyBuilder b(s.body);
    Val x = b.cast(b.load(kept_buffer, c.kept, at), t);
    Val size = b.cast(b.index(a.n), t);
    if (n > 0) x = b.sub(x, b.div(b.accumulator(0, t), size));
    if (n == 1) x = b.mul(x, x);
    if (n < 2) {
      s.reductions.push_back({Op::reduce_sum, t, x.id});
      continue;
    }
    Val variance = b.div(b.accumulator(1, t), size);
    x = b.mul(x, b.op(Op::rsqrt, b.add(variance, b.number(t, 1e-5))));
    x = b.mul(x, b.load(bias_buffer, c.acc, a.in));
    b.store(out, at, b.cast(x, c.kept));
  }
}

inline void add_softmax(atlas::Program& p, const Case& c, const Expr& at, const Axes& a, int out) {
  DType t = compute_type(c.kept);
  atlas::Stage& first = stage(p, StageKind::row);
  BodyBuilder b(first.body);
  first.reductions.push_back({Op::reduce_max, t, b.cast(b.load(kept_buffer, c.kept, at), t).id});
  atlas::Stage& second = stage(p, StageKind::row);
  BodyBuilder e(second.body);
  Val x = e.op(Op::exp, e.sub(e.cast(e.load(kept_buffer, c.kept, at), t), e.accumulator(0, t)));
  e.store(scratch_buffer, a.in, x);
  second.reductions.push_back({Op::reduce_sum, t, x.id});
  atlas::Stage& third = stage(p, StageKind::row);
  BodyBuilder d(third.body);
  d.store(out, at, d.cast(d.div(d.load(scratch_buffer, t, a.in), d.accumulator(1, t)), c.kept));
}

inline void add_running_sum(atlas::Program& p, const Case& c, const Expr& at, int out) {
  DType t = compute_type(c.kept);
  atlas::Stage& s = stage(p, StageKind::scan);
  s.running.emplace_back(Op::reduce_sum, t);
  BodyBuilder b(s.body);
  b.store(out, at, b.cast(b.accumulate(Op::reduce_sum, 0, b.cast(b.load(kept_buffer, c.kept, at), t)), c.kept));
}

// The place of the row's largest element, stored into all of the result's first column.
inline void add_largest(atlas::Program& p, const Case& c, const Expr& at, const Axes& a, int out) {
  DType t = compute_type(c.kept);
  atlas::Stage& s = stage(p, StageKind::row);
  BodyBuilder b(s.body);
  s.reductions.push_back({Op::reduce_argmax, t, b.cast(b.load(kept_buffer, c.kept, at), t).id});
  BodyBuilder e(stage(p, StageKind::point).body);
  Val place = e.cast(e.cast(e.accumulator(0, DType::i64), t), c.kept);
  e.store(out, (a.ib * a.m + a.im) * a.n, place);
}

// epilogue: + bias (and a residual where the type is the sums'), stored; then what follows.
inline atlas::Program make_program(const Case& c, int panel, int group) {
  Axes a;
  a.batch = c.batch ? Expr(c.batch) : Expr(1);
  a.m = c.symbolic ? Expr::symbol(0) : Expr(c.m);
  a.n = c.symbolic ? Expr::symbol(1) : Expr(c.n);
  a.k = c.symbolic ? Expr::symbol(2) : Expr(c.k);
  atlas::Program p;
  p.num_symbols = c.symbolic ? 3 : 0;
  Expr packed = a.batch * ceil_div(a.n, panel) * ceil_div(a.k, group) * Expr(panel * group);
  p.buffers = {{c.operand, Access::read, a.batch * a.m * a.k},
               {c.operand, Access::read, c.packed ? packed : a.batch * a.k * a.n},
               {c.acc, Access::read, a.n},
               {c.acc, Access::read, a.batch * a.m * a.n},
               {c.kept, Access::read_write, a.batch * a.m * a.n},
               {c.kept, Access::write, a.batch * a.m * a.n}};
  if (c.follows == Follows::softmax) p.buffers.push_back({compute_type(c.kept), Access::scratch, a.n});
  atlas::ProductBlock& b = p.block.emplace<atlas::ProductBlock>();
  if (c.batch) b.axes.push_back({AxisKind::parallel, a.batch});
  b.batch_rank = c.batch ? 1 : 0;
  b.axes.push_back({AxisKind::parallel, a.m});
  b.axes.push_back({AxisKind::parallel, a.n});
  b.axes.push_back({AxisKind::row, a.k});
  b.operand_type = c.operand;
  b.reproducible = c.reproducible;
  b.acc_type = c.acc;
  int r = b.batch_rank;
  a.ib = c.batch ? Expr::axis(0, a.batch) : Expr(0);
  a.im = Expr::axis(r, a.m);
  a.in = Expr::axis(r + 1, a.n);
  Expr ik = Expr::axis(r + 2, a.k);
  BodyBuilder lhs(b.lhs);
  lhs.load(lhs_buffer, c.operand, a.ib * a.m * a.k + (c.lhs_transposed ? ik * a.m + a.im : a.im * a.k + ik));
  if (c.packed) {
    b.packed_rhs = rhs_buffer;
    b.panel_width = panel;
    b.panel_group = group;
  } else {
    BodyBuilder(b.rhs).load(rhs_buffer, c.operand, a.ib * a.k * a.n + (c.rhs_transposed ? a.in * a.k + ik : ik * a.n + a.in));
  }
  Expr at = (a.ib * a.m + a.im) * a.n + a.in;
  BodyBuilder e(b.epilogue);
  Val v = e.add(e.accumulator(0, c.acc), e.load(bias_buffer, c.acc, a.in));
  v = e.add(v, e.load(residual_buffer, c.acc, at));
  e.store(kept_buffer, at, e.cast(v, c.kept));

  atlas::LoopBlock& loop = p.nest();
  loop.axes.assign(b.axes.begin(), b.axes.end() - 1);
  loop.axes.back().kind = AxisKind::row;
  loop.parallel_rank = r + 1;
  loop.lane_axis = r + 1;
  int out = c.in_place ? kept_buffer : out_buffer;
  if (c.follows == Follows::layer_norm) add_layer_norm(p, c, at, a, out);
  if (c.follows == Follows::softmax) add_softmax(p, c, at, a, out);
  if (c.follows == Follows::running_sum) add_running_sum(p, c, at, out_buffer);
  if (c.follows == Follows::largest) add_largest(p, c, at, a, out_buffer);
  return p;
}

}  // namespace hologram::test::product_tails
