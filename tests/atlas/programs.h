// tests/atlas/programs.h: small programs that several tests use.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "atlas/builder.h"
#include "interp/interp.h"

namespace hologram::test {

using atlas::BodyBuilder;
using atlas::Program;
using atlas::Val;
using ir::Op;

inline Expr sym(int k) { return Expr::symbol(k); }

/// out[i] = op(in[i]…) over n elements.
inline Program elementwise(Op op, DType type, int operands, DType out, const Expr& n = sym(0)) {
  Program p;
  p.num_symbols = !n.is_const();
  for (int k = 0; k < operands; ++k) p.buffers.push_back({type, atlas::Access::read, n});
  p.buffers.push_back({out, atlas::Access::write, n});
  p.loop().axes = {{atlas::AxisKind::parallel, n}};
  p.loop().parallel_rank = 1;
  p.loop().lane_axis = 0;
  p.loop().stages.emplace_back();
  atlas::Stage& s = p.loop().stages.back();
  s.kind = atlas::StageKind::point;
  BodyBuilder b(s.body);
  Expr i = Expr::axis(0, n);
  std::vector<Val> args;
  for (int k = 0; k < operands; ++k) args.push_back(b.load(k, type, i));
  Val r = operands == 1 ? b.op(op, args[0]) : operands == 2 ? b.op(op, args[0], args[1]) : b.op(op, args[0], args[1], args[2]);
  b.store(operands, i, r);
  return p;
}

/// out[i] = reduction over j of in[i, j]; [s0, s1] -> [s0].
inline Program row_reduction(Op op, DType type, bool tree = false) {
  bool index = ir::info(op).kind == ir::OpKind::reduce_index;
  DType result = index ? DType::i64 : type;
  Program p;
  p.num_symbols = 2;
  p.buffers = {{type, atlas::Access::read, sym(0) * sym(1)}, {result, atlas::Access::write, sym(0)}};
  p.loop().axes = {{atlas::AxisKind::parallel, sym(0)}, {atlas::AxisKind::row, sym(1)}};
  p.loop().parallel_rank = 1;
  p.loop().lane_axis = 1;
  p.loop().stages.resize(2);
  Expr i = Expr::axis(0, sym(0)), j = Expr::axis(1, sym(1));
  atlas::Stage& row = p.loop().stages[0];
  row.kind = atlas::StageKind::row;
  BodyBuilder rb(row.body);
  Val x = rb.load(0, type, i * sym(1) + j);
  row.reductions.push_back({.op = op, .type = type, .value = x.id, .tree = tree});
  atlas::Stage& point = p.loop().stages[1];
  point.kind = atlas::StageKind::point;
  BodyBuilder pb(point.body);
  pb.store(1, i, pb.accumulator(0, result));
  return p;
}

/// out[b, m, n] = sum over k of x[b, m, k] * y[b, k, n]; sizes s0 = B, s1 = M, s2 = N, s3 = K.
inline Program batched_product(DType operand, DType acc, DType out) {
  Program p;
  p.num_symbols = 4;
  Expr B = sym(0), M = sym(1), N = sym(2), K = sym(3);
  p.buffers = {
      {operand, atlas::Access::read, B * M * K}, {operand, atlas::Access::read, B * K * N}, {out, atlas::Access::write, B * M * N}};
  atlas::ProductBlock& q = p.block.emplace<atlas::ProductBlock>();
  q.axes = {{atlas::AxisKind::parallel, B}, {atlas::AxisKind::parallel, M}, {atlas::AxisKind::parallel, N}, {atlas::AxisKind::row, K}};
  q.batch_rank = 1;
  q.operand_type = operand;
  q.acc_type = acc;
  q.reproducible = true;
  Expr b = Expr::axis(0, B), m = Expr::axis(1, M), n = Expr::axis(2, N), k = Expr::axis(3, K);
  BodyBuilder(q.lhs).load(0, operand, (b * M + m) * K + k);
  BodyBuilder(q.rhs).load(1, operand, (b * K + k) * N + n);
  BodyBuilder e(q.epilogue);
  e.store(2, (b * M + m) * N + n, e.cast(e.accumulator(0, acc), out));
  return p;
}

/// That product of float32 with its right operand packed in panels of 16 columns, which are finished in so many parts.
inline Program packed_product(int64_t parts = 1) {
  Program p = batched_product(DType::f32, DType::f32, DType::f32);
  p.product().packed_rhs = 1;
  p.product().panel_width = 16;
  p.buffers[1].extent = sym(0) * ceil_div(sym(2), 16) * Expr(parts) * sym(3) * Expr(16);
  if (parts == 1) return p;
  p.product().parts = static_cast<int>(parts);
  p.product().axes[2].extent = Expr(parts) * sym(2);
  p.product().axes.push_back({atlas::AxisKind::parallel, sym(2)});
  p.product().epilogue = {};
  BodyBuilder unit(p.product().epilogue);
  Expr b = Expr::axis(0, sym(0)), m = Expr::axis(1, sym(1)), n = Expr::axis(4, sym(2));
  Val last = unit.accumulator(static_cast<int>(parts) - 1, DType::f32);
  unit.store(2, (b * sym(1) + m) * sym(2) + n, unit.add(unit.accumulator(0, DType::f32), last));
  return p;
}

/// That product, of float32, and in buffer 3 the distance of each of its elements from the largest one of the row.
inline Program product_with_tail() {
  Program p = batched_product(DType::f32, DType::f32, DType::f32);
  p.buffers[2].access = atlas::Access::read_write;
  p.buffers.push_back({DType::f32, atlas::Access::write, p.buffers[2].extent});
  atlas::LoopBlock& tail = p.product().tail;
  tail.axes.assign(p.product().axes.begin(), p.product().axes.end() - 1);
  tail.axes.back().kind = atlas::AxisKind::row;
  tail.parallel_rank = tail.lane_axis = 2;
  tail.stages.resize(2);
  Expr at = (Expr::axis(0, sym(0)) * sym(1) + Expr::axis(1, sym(1))) * sym(2) + Expr::axis(2, sym(2));
  for (atlas::Stage& s : tail.stages) {
    s.kind = atlas::StageKind::row;
    BodyBuilder b(s.body);
    Val x = b.load(2, DType::f32, at);
    if (&s == &tail.stages.front())
      s.reductions.push_back({Op::reduce_max, DType::f32, x.id});
    else
      b.store(3, at, b.sub(b.accumulator(0, DType::f32), x));
  }
  return p;
}

/// One attention head per batch point: q [B, M, D], k [B, N, D], v [B, N, E], bias [M, N] added to the scores.
inline Program biased_attention(DType type, bool causal) {
  Program p;
  p.num_symbols = 5;
  DType acc = compute_type(type);
  Expr B = sym(0), M = sym(1), N = sym(2), D = sym(3), E = sym(4);
  p.buffers = {{type, atlas::Access::read, B * M * D},
               {type, atlas::Access::read, B * N * D},
               {type, atlas::Access::read, B * N * E},
               {acc, atlas::Access::read, M * N},
               {type, atlas::Access::write, B * M * E}};
  atlas::AttentionBlock& a = p.block.emplace<atlas::AttentionBlock>();
  for (const Expr& e : {B, M, N, D, E}) a.axes.push_back({atlas::AxisKind::parallel, e});
  a.batch_rank = 1;
  a.operand_type = type;
  a.scale = 0.125;
  a.causal = causal;
  Expr b = Expr::axis(0, B), m = Expr::axis(1, M), n = Expr::axis(2, N), d = Expr::axis(3, D), e = Expr::axis(4, E);
  BodyBuilder(a.q).load(0, type, (b * M + m) * D + d);
  BodyBuilder(a.k).load(1, type, (b * N + n) * D + d);
  BodyBuilder(a.v).load(2, type, (b * N + n) * E + e);
  BodyBuilder s(a.score);
  s.finish(s.add(s.accumulator(0, acc), s.load(3, acc, m * N + n)));
  BodyBuilder o(a.epilogue);
  o.store(4, (b * M + m) * E + e, o.cast(o.accumulator(0, acc), type));
  return p;
}

/// That, causal, which also stores the rows' log-sum-exp.
inline Program summing_attention(DType type) {
  Program p = biased_attention(type, true);
  DType acc = compute_type(type);
  p.buffers.push_back({acc, atlas::Access::write, sym(0) * sym(1)});
  BodyBuilder lse(p.attention().lse);
  lse.store(5, Expr::axis(0, sym(0)) * sym(1) + Expr::axis(1, sym(1)), lse.accumulator(0, acc));
  return p;
}

/// The gradients of one causal attention head per batch point, of capped scores.
inline Program attention_gradients(DType type) {
  Program p;
  p.num_symbols = 5;
  DType acc = compute_type(type);
  Expr B = sym(0), M = sym(1), N = sym(2), D = sym(3), E = sym(4);
  for (const Expr& size : {B * M * D, B * N * D, B * N * E, B * M * E}) p.buffers.push_back({type, atlas::Access::read, size});
  for (int k = 0; k < 2; ++k) p.buffers.push_back({acc, atlas::Access::read, B * M});
  for (const Expr& size : {B * M * D, B * N * D, B * N * E}) p.buffers.push_back({type, atlas::Access::write, size});
  atlas::AttentionGradBlock& a = p.block.emplace<atlas::AttentionGradBlock>();
  for (const Expr& e : {B, Expr(1), M, N, D, E}) a.axes.push_back({a.axes.empty() ? atlas::AxisKind::parallel : atlas::AxisKind::row, e});
  a.batch_rank = 1;
  a.operand_type = type;
  a.scale = 0.125;
  a.causal = true;
  Expr b = Expr::axis(0, B), m = Expr::axis(2, M), n = Expr::axis(3, N), d = Expr::axis(4, D), e = Expr::axis(5, E);
  const Expr at[] = {(b * M + m) * D + d, (b * N + n) * D + d, (b * N + n) * E + e, (b * M + m) * E + e, b * M + m, b * M + m};
  atlas::Body* operands[] = {&a.q, &a.k, &a.v, &a.g, &a.lse, &a.delta};
  for (int k = 0; k < 6; ++k) BodyBuilder(*operands[k]).load(k, k < 4 ? type : acc, at[k]);
  BodyBuilder s(a.score), w(a.slope);
  Val two = s.number(acc, 2);
  s.finish(s.mul(two, s.op(Op::tanh, s.div(s.accumulator(0, acc), two))));
  Val t = w.op(Op::tanh, w.div(w.accumulator(0, acc), w.number(acc, 2)));
  w.finish(w.sub(w.number(acc, 1), w.mul(t, t)));
  atlas::Body* results[] = {&a.dq, &a.dk, &a.dv};
  for (int k = 0; k < 3; ++k) {
    BodyBuilder o(*results[k]);
    o.store(6 + k, at[k], o.cast(o.accumulator(0, acc), type));
  }
  return p;
}

/// out[i, :] = the order of the s1 keys of row i, of which s2 are wanted from place `first` on.
inline Program row_order(DType type, bool descending, int first = 0) {
  Program p;
  p.num_symbols = 3;
  p.buffers = {{type, atlas::Access::read, sym(0) * sym(1)}, {DType::i64, atlas::Access::write, sym(0) * sym(2)}};
  atlas::SortBlock& b = p.block.emplace<atlas::SortBlock>();
  b.axes = {{atlas::AxisKind::parallel, sym(0)}, {atlas::AxisKind::row, sym(1)}, {atlas::AxisKind::parallel, sym(2)}};
  b.batch_rank = 1;
  b.key_type = type;
  b.descending = descending, b.first = first;
  Expr i = Expr::axis(0, sym(0)), j = Expr::axis(1, sym(1)), place = Expr::axis(2, sym(2));
  BodyBuilder(b.key).load(0, type, i * sym(1) + j);
  BodyBuilder e(b.epilogue);
  e.store(1, i * sym(2) + place, e.accumulator(0, DType::i64));
  return p;
}

/// out[b, at[b, j], :] = combine(out[b, at[b, j], :], in[b, j, :]) in the order of j, for [s0, s1]
/// indices into s2 places of `width`; what is stored if there is no `combine` is in[b, j, :].
inline Program scattered(DType type, std::optional<Op> combine, const Expr& width) {
  Program p;
  p.num_symbols = 4;
  p.buffers = {{DType::i64, atlas::Access::read, sym(0) * sym(1)},
               {type, atlas::Access::read, sym(0) * sym(1) * width},
               {type, atlas::Access::read_write, sym(0) * sym(2) * width}};
  atlas::LoopBlock& loop = p.loop();
  loop.axes = {{atlas::AxisKind::parallel, sym(0)}, {atlas::AxisKind::parallel, width}, {atlas::AxisKind::row, sym(1)}};
  loop.parallel_rank = 2;
  loop.lane_axis = 1;
  loop.stages.resize(1);
  loop.stages[0].kind = atlas::StageKind::serial_row;
  BodyBuilder b(loop.stages[0].body);
  const Expr i = Expr::axis(0, sym(0)), c = Expr::axis(1, width), j = Expr::axis(2, sym(1));
  const Val place = b.load(0, DType::i64, i * sym(1) + j);
  const Expr at = Expr::value(static_cast<int>(b.clamp_index(place, sym(2)).id), sym(2));
  const Expr to = (i * sym(2) + at) * width + c;
  const Val inside = b.lt(b.cast(place, DType::u64), b.cast(b.index(sym(2)), DType::u64));
  Val x = b.load(1, type, (i * sym(1) + j) * width + c);
  if (combine) {
    const DType wide = compute_type(type);
    x = b.cast(b.op(*combine, b.cast(b.load(2, type, to, inside), wide), b.cast(x, wide)), type);
  }
  b.store(2, to, x, inside);
  return p;
}

/// out[i, j] = reduction over [0, j] of in[i, :]; [s0, s1], in blocks.
inline Program row_scan(Op op, DType type) {
  Program p;
  p.num_symbols = 2;
  p.buffers = {{type, atlas::Access::read, sym(0) * sym(1)}, {type, atlas::Access::write, sym(0) * sym(1)}};
  p.loop().axes = {{atlas::AxisKind::parallel, sym(0)}, {atlas::AxisKind::row, sym(1)}};
  p.loop().parallel_rank = 1;
  p.loop().lane_axis = 1;
  p.loop().stages.resize(1);
  atlas::Stage& s = p.loop().stages[0];
  s.kind = atlas::StageKind::scan;
  s.running = {{op, type}};
  Expr at = Expr::axis(0, sym(0)) * sym(1) + Expr::axis(1, sym(1));
  BodyBuilder b(s.body);
  b.store(1, at, b.accumulate(op, 0, b.load(0, type, at)));
  return p;
}

/// Runs an expanded copy of `p` and returns the sticky bits.
inline int32_t run(Program p, std::vector<void*> bufs, std::vector<int64_t> syms = {}) {
  atlas::verify(p);
  atlas::expand_math(p);
  atlas::verify(p);
  std::atomic<int32_t> sticky = 0;
  interp::run(p, bufs.data(), syms.data(), &sticky);
  return sticky;
}

}  // namespace hologram::test
