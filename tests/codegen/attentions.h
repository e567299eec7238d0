// tests/codegen/attentions.h: programs of attention.
#pragma once

#include <cmath>
#include <ostream>
#include <vector>

#include "atlas/builder.h"

namespace hologram::test::attentions {

using atlas::Access;
using atlas::AxisKind;
using atlas::BodyBuilder;
using atlas::Val;

enum class Score { plain, key_bias, full_bias, keep_mask };

struct Case {
  int64_t batch, heads, kv_heads, queries, keys, depth, values;
  bool causal = false;
  Score score = Score::plain;
  DType dtype = DType::f32;
  bool symbolic = false;       // queries and keys
  bool heads_inside = false;   // [batch, sequence, heads, depth] in memory
  bool symbolic_keys = false;  // keys alone: a cache

  std::vector<int64_t> symbols() const {
    if (symbolic) return {queries, keys};
    return symbolic_keys ? std::vector{keys} : std::vector<int64_t>{};
  }
};

inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.batch << 'x' << c.heads << '/' << c.kv_heads << ' ' << c.queries << " queries " << c.keys << " keys " << c.depth << "->"
             << c.values << (c.causal ? " causal" : "") << " score " << static_cast<int>(c.score) << ' ' << name_of(c.dtype)
             << (c.symbolic ? " symbolic" : "") << (c.symbolic_keys ? " symbolic keys" : "") << (c.heads_inside ? " heads inside" : "");
}

inline constexpr int q_buffer = 0, k_buffer = 1, v_buffer = 2, bias_buffer = 3, out_buffer = 4;

inline Expr offset(bool inside, Expr b, Expr h, Expr s, Expr d, const Expr& heads, const Expr& sequence, const Expr& depth) {
  return inside ? ((b * sequence + s) * heads + h) * depth + d : ((b * heads + h) * sequence + s) * depth + d;
}

inline atlas::Program make_program(const Case& c) {
  Expr m = c.symbolic ? Expr::symbol(0) : Expr(c.queries), n = c.symbolic        ? Expr::symbol(1)
                                                               : c.symbolic_keys ? Expr::symbol(0)
                                                                                 : Expr(c.keys);
  atlas::Program p;
  p.num_symbols = static_cast<int>(c.symbols().size());
  Expr bh(c.batch * c.heads), bkv(c.batch * c.kv_heads);
  DType bias = c.score == Score::keep_mask ? DType::b8 : DType::f32;
  p.buffers = {{c.dtype, Access::read, bh * m * c.depth},
               {c.dtype, Access::read, bkv * n * c.depth},
               {c.dtype, Access::read, bkv * n * c.values},
               {bias, Access::read, Expr(c.batch) * m * n},
               {c.dtype, Access::write, bh * m * c.values}};
  atlas::AttentionBlock& a = p.block.emplace<atlas::AttentionBlock>();
  a.batch_rank = 2;
  a.axes = {{AxisKind::parallel, c.batch}, {AxisKind::parallel, c.heads}, {AxisKind::parallel, m}, {AxisKind::row, n},
            {AxisKind::row, c.depth},      {AxisKind::parallel, c.values}};
  a.operand_type = c.dtype;
  a.scale = 1 / std::sqrt(static_cast<double>(c.depth));
  a.causal = c.causal;
  Expr b = Expr::axis(0, c.batch), h = Expr::axis(1, c.heads), i = Expr::axis(2, m), j = Expr::axis(3, n), d = Expr::axis(4, c.depth),
       e = Expr::axis(5, c.values);
  Expr kv = floor_div(h, c.heads / c.kv_heads);
  BodyBuilder q(a.q), k(a.k), v(a.v);
  bool in = c.heads_inside;
  q.finish(q.load(q_buffer, c.dtype, offset(in, b, h, i, d, c.heads, m, c.depth)));
  k.finish(k.load(k_buffer, c.dtype, offset(in, b, kv, j, d, c.kv_heads, n, c.depth)));
  v.finish(v.load(v_buffer, c.dtype, offset(in, b, kv, j, e, c.kv_heads, n, c.values)));
  if (c.score != Score::plain) {
    BodyBuilder s(a.score);
    Val x = s.accumulator(0, DType::f32);
    if (c.score == Score::key_bias) x = s.add(x, s.load(bias_buffer, DType::f32, b * m * n + j));
    if (c.score == Score::full_bias) x = s.add(x, s.load(bias_buffer, DType::f32, (b * m + i) * n + j));
    if (c.score == Score::keep_mask) x = s.select(s.load(bias_buffer, DType::b8, (b * m + i) * n + j), x, s.number(DType::f32, -INFINITY));
    s.finish(x);
  }
  BodyBuilder out(a.epilogue);
  Val y = out.accumulator(0, DType::f32);
  out.store(out_buffer, offset(in, b, h, i, e, c.heads, m, c.values), out.cast(y, c.dtype));
  atlas::expand_math(p);
  return p;
}

/// What a case leaves open.
struct More {
  bool log_sums = false;  // also stores the rows' log-sum-exp
  bool reproducible = false;
  bool keys_turned = false;  // keys and values lie along the keys in memory
  int64_t window = 0;        // keys before the query's own that are seen, and three behind it
  double cap = 0;
};

inline atlas::Program attention(const Case& c, const More& more = {}) {
  atlas::Program p = make_program(c);
  atlas::AttentionBlock& a = p.attention();
  a.reproducible = more.reproducible;
  const DType type = compute_type(c.dtype);
  auto axis = [&](int n) { return Expr::axis(n, a.axes[static_cast<size_t>(n)].extent); };
  const Expr b = axis(0), h = axis(1), i = axis(2), j = axis(3);
  const Expr m = a.axes[2].extent, n = a.axes[3].extent;
  if (more.keys_turned) {
    const Expr head = b * c.kv_heads + floor_div(h, c.heads / c.kv_heads);
    a.k = a.v = {};
    BodyBuilder k(a.k), v(a.v);
    k.finish(k.load(k_buffer, c.dtype, (head * c.depth + axis(4)) * n + j));
    v.finish(v.load(v_buffer, c.dtype, (head * c.values + axis(5)) * n + j));
  }
  if (c.dtype == DType::f64) {
    a.epilogue = {};
    BodyBuilder out(a.epilogue);
    const Expr to = ((b * c.heads + h) * m + i) * c.values + axis(5);
    out.store(out_buffer, to, out.accumulator(0, type));
  }
  if (more.window > 0 || more.cap > 0) {
    BodyBuilder s(a.score);
    Val x = s.accumulator(0, type);
    if (more.cap > 0) {
      const Val cap = s.number(type, more.cap);
      x = s.mul(cap, s.op(ir::Op::tanh, s.div(x, cap)));
    }
    if (more.window > 0)
      x = s.select(s.op(ir::Op::bit_and, s.le(s.index(j), s.index(i + Expr(3))), s.lt(s.index(i - Expr(more.window)), s.index(j))), x,
                   s.number(type, -INFINITY));
    s.finish(x);
  }
  if (more.log_sums) {
    p.buffers.push_back({type, Access::write, Expr(c.batch * c.heads) * m});
    BodyBuilder w(a.lse);
    w.store(out_buffer + 1, (b * c.heads + h) * m + i, w.accumulator(0, type));
  }
  atlas::expand_math(p);
  return p;
}

}  // namespace hologram::test::attentions
