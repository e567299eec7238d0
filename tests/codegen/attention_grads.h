// tests/codegen/attention_grads.h: programs of attention's gradients.
#pragma once

#include <cmath>
#include <ostream>
#include <vector>

#include "atlas/builder.h"

namespace hologram::test::attention_grads {

using atlas::Access;
using atlas::AxisKind;
using atlas::BodyBuilder;
using atlas::Val;

enum class Score { plain, bias, keep, window, cap };

struct Case {
  int64_t batch, members, queries, keys, depth, width;
  bool causal = false;
  Score score = Score::plain;
  DType dtype = DType::f32;
  bool symbolic = false;      // queries and keys
  bool heads_inside = false;  // [batch, sequence, heads, depth] in memory
  bool dq = true, dk = true, dv = true;
  bool reproducible = false;

  std::vector<int64_t> symbols() const { return symbolic ? std::vector{queries, keys} : std::vector<int64_t>{}; }
};

inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.batch << " batch " << c.members << " members " << c.queries << " queries " << c.keys << " keys " << c.depth << "->"
             << c.width << (c.causal ? " causal" : "") << " score " << static_cast<int>(c.score) << ' ' << name_of(c.dtype)
             << (c.symbolic ? " symbolic" : "") << (c.heads_inside ? " heads inside" : "") << ' ' << c.dq << c.dk << c.dv;
}

inline constexpr int lse_buffer = 4, bias_buffer = 6, dq_buffer = 7;
inline constexpr int64_t kv_heads = 2;

inline atlas::Program make_program(const Case& c) {
  Expr m = c.symbolic ? Expr::symbol(0) : Expr(c.queries), n = c.symbolic ? Expr::symbol(1) : Expr(c.keys);
  DType acc = compute_type(c.dtype);
  atlas::Program p;
  p.num_symbols = static_cast<int>(c.symbols().size());
  Expr rows = Expr(c.batch * kv_heads * c.members) * m, keys = Expr(c.batch * kv_heads) * n;
  p.buffers = {{c.dtype, Access::read, rows * c.depth},
               {c.dtype, Access::read, keys * c.depth},
               {c.dtype, Access::read, keys * c.width},
               {c.dtype, Access::read, rows * c.width},
               {acc, Access::read, rows},
               {acc, Access::read, rows},
               {c.score == Score::keep ? DType::b8 : acc, Access::read, Expr(c.batch) * m * n},
               {c.dtype, Access::write, rows * c.depth},
               {c.dtype, Access::write, keys * c.depth},
               {c.dtype, Access::write, keys * c.width}};
  atlas::AttentionGradBlock& a = p.block.emplace<atlas::AttentionGradBlock>();
  a.batch_rank = 2;
  for (const Expr& e : {Expr(c.batch), Expr(kv_heads), Expr(c.members), m, n, Expr(c.depth), Expr(c.width)})
    a.axes.push_back({a.axes.size() < 2 ? AxisKind::parallel : AxisKind::row, e});
  auto axis = [&](int k) { return Expr::axis(k, a.axes[static_cast<size_t>(k)].extent); };
  a.operand_type = c.dtype;
  a.scale = 1 / std::sqrt(static_cast<double>(c.depth));
  a.causal = c.causal;
  a.reproducible = c.reproducible;
  Expr b = axis(0), kv = axis(1), h = kv * c.members + axis(2), i = axis(3), j = axis(4);
  Expr heads(kv_heads * c.members);
  auto place = [&](const Expr& head, const Expr& s, const Expr& d, const Expr& count, const Expr& length, int64_t size) {
    return c.heads_inside ? ((b * length + s) * count + head) * size + d : ((b * count + head) * length + s) * size + d;
  };
  Expr q_at = place(h, i, axis(5), heads, m, c.depth), g_at = place(h, i, axis(6), heads, m, c.width);
  Expr k_at = place(kv, j, axis(5), kv_heads, n, c.depth), v_at = place(kv, j, axis(6), kv_heads, n, c.width);
  Expr row = (b * heads + h) * m + i;
  auto read = [](atlas::Body& body, int buffer, DType t, const Expr& at) {
    BodyBuilder w(body);
    w.finish(w.load(buffer, t, at));
  };
  read(a.q, 0, c.dtype, q_at);
  read(a.k, 1, c.dtype, k_at);
  read(a.v, 2, c.dtype, v_at);
  read(a.g, 3, c.dtype, g_at);
  read(a.lse, lse_buffer, acc, row);
  read(a.delta, 5, acc, row);
  auto write = [&](atlas::Body& body, int buffer, const Expr& at) {
    BodyBuilder w(body);
    w.store(buffer, at, w.cast(w.accumulator(0, acc), c.dtype));
  };
  if (c.dq) write(a.dq, 7, q_at);
  if (c.dk) write(a.dk, 8, k_at);
  if (c.dv) write(a.dv, 9, v_at);
  if (c.score == Score::plain) return p;
  BodyBuilder s(a.score);
  Val x = s.accumulator(0, acc), lowest = s.number(acc, -INFINITY);
  Expr bias = (b * m + i) * n + j;
  if (c.score == Score::bias) x = s.add(x, s.load(bias_buffer, acc, bias));
  if (c.score == Score::keep) x = s.select(s.load(bias_buffer, DType::b8, bias), x, lowest);
  if (c.score == Score::window)  // the 40 keys before and the 10 behind
    x = s.select(s.op(ir::Op::bit_and, s.le(s.index(j), s.index(i + Expr(10))), s.lt(s.index(i - Expr(40)), s.index(j))), x, lowest);
  if (c.score == Score::cap) {
    x = s.mul(s.number(acc, 2), s.op(ir::Op::tanh, s.div(x, s.number(acc, 2))));
    BodyBuilder w(a.slope);
    Val t = w.op(ir::Op::tanh, w.div(w.accumulator(0, acc), w.number(acc, 2)));
    w.finish(w.sub(w.number(acc, 1), w.mul(t, t)));
  }
  s.finish(x);
  return p;
}

}  // namespace hologram::test::attention_grads
