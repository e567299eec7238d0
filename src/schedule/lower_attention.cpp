// schedule/lower_attention.cpp: attention.
#include "schedule/lowering.h"

#include <bit>
#include <limits>

namespace hologram::schedule {

using atlas::AxisKind;
using atlas::Val;
using ir::Op;
using ir::Value;

std::vector<Lowered> Lowering::attention() {
  Value a = c_.anchor, q = a->input(0), kk = a->input(1), v = a->input(2);
  Kernel k(storage_.slots);
  k.program.kind = atlas::BlockKind::attention;
  atlas::AttentionBlock& t = k.program.attention;
  // From batch…, query, value depth, key, depth to batch…, query, key, depth, value depth.
  std::vector<ClusterAxis> order = c_.axes;
  size_t b = order.size() - 4;
  ClusterAxis value_depth = order[b + 1];
  order.erase(order.begin() + static_cast<ptrdiff_t>(b) + 1);
  order.push_back(value_depth);
  for (const ClusterAxis& x : order)
    t.axes.push_back({x.row ? AxisKind::row : AxisKind::parallel, x.extent});
  t.batch_rank = static_cast<int>(b);
  t.operand_type = q->dtype;
  t.scale = std::bit_cast<double>(a->attrs.bits);
  t.causal = a->attrs.ints[0] != 0;
  t.reproducible = options_.reproducible;
  auto axis = [&](size_t i) { return Expr::axis(static_cast<int>(i), order[i].extent); };
  Index batch;
  for (size_t i = 0; i < b; ++i) batch.push_back(axis(i));
  Expr query = axis(b), key = axis(b + 1), depth = axis(b + 2), out_depth = axis(b + 3);
  auto with = [&](Index at, Value operand, const Expr& row, const Expr& column) {
    if (b > 0 && operand != q) {
      const Expr &heads = a->shape[b - 1], &kv_heads = operand->shape[b - 1];
      if (!(heads == kv_heads)) {
        auto group = heads.exact_div(kv_heads);
        check(group.has_value(), "attention lowering: head counts");
        at[b - 1] = floor_div(at[b - 1], *group);
      }
    }
    at.insert(at.end(), {row, column});
    return at;
  };
  auto operand = [&](atlas::Body& body, Value x, const Index& at) {
    Emitter e = emitter(k, body);
    end_with(body, e.value(x, at));
  };
  operand(t.q, q, with(batch, q, query, depth));
  operand(t.k, kk, with(batch, kk, key, depth));
  operand(t.v, v, with(batch, v, key, out_depth));
  auto cap = std::bit_cast<double>(a->attrs.ints[1]);
  if (cap > 0 || a->inputs.size() > 3) {
    Emitter e = emitter(k, t.score);
    atlas::BodyBuilder& w = e.builder();
    DType acc = compute_type(q->dtype);
    Val score = w.accumulator(0, acc);
    if (cap > 0) {
      Val c = w.number(acc, cap);
      score = w.mul(c, w.op(Op::tanh, w.div(score, c)));
    }
    if (a->inputs.size() > 3) {
      Value bias = a->input(3);
      Index full = batch, at;
      full.insert(full.end(), {query, key});
      size_t lead = full.size() - bias->shape.size();
      for (size_t i = 0; i < bias->shape.size(); ++i)
        at.push_back(bias->shape[i].is(1) ? Expr(0) : full[lead + i]);
      Val x = e.value(bias, at);
      score = bias->dtype == DType::b8
                  ? w.select(x, score, w.number(acc, -std::numeric_limits<double>::infinity()))
                  : w.add(score, e.convert(x, acc));
    }
    end_with(t.score, score);
  }
  epilogue(k, t.epilogue, compute_type(q->dtype), order);
  std::vector<Lowered> out;
  out.push_back(finish(k, cluster_name(c_)));
  return out;
}

}  // namespace hologram::schedule
