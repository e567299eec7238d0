// tests/codegen/product_tails.h: programs of a product and what follows its rows.
#pragma once

#include <ostream>

#include "codegen/products.h"

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

using products::bias_buffer, products::residual_buffer;
inline constexpr int kept_buffer = 4, out_buffer = 5, scratch_buffer = 6;

struct Axes {
  Expr m, n, ib, im, in;
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
  atlas::Program p = products::make_program({.m = c.m,
                                             .n = c.n,
                                             .k = c.k,
                                             .batch = c.batch,
                                             .operand = c.operand,
                                             .acc = c.acc,
                                             .lhs_transposed = c.lhs_transposed,
                                             .rhs_transposed = c.rhs_transposed,
                                             .packed = c.packed,
                                             .symbolic = c.symbolic,
                                             .reproducible = c.reproducible},
                                            panel, group);
  atlas::ProductBlock& b = p.product();
  const int r = b.batch_rank;
  auto axis = [&](int k) { return Expr::axis(k, b.axes[static_cast<size_t>(k)].extent); };
  const Axes a{b.axes[static_cast<size_t>(r)].extent, b.axes[static_cast<size_t>(r) + 1].extent, r ? axis(0) : Expr(0), axis(r),
               axis(r + 1)};
  p.buffers[kept_buffer].dtype = c.kept;
  p.buffers.push_back(p.buffers[kept_buffer]);
  p.buffers[kept_buffer].access = Access::read_write;
  if (c.follows == Follows::softmax) p.buffers.push_back({compute_type(c.kept), Access::scratch, a.n});
  Expr at = (a.ib * a.m + a.im) * a.n + a.in;
  b.epilogue = {};
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
