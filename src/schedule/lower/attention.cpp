// schedule/lower/attention.cpp: attention and its gradients.

#include <algorithm>
#include <bit>
#include <limits>

#include "schedule/lower/kinds.h"

namespace hologram::schedule {

using atlas::AxisKind;
using atlas::Val;
using ir::Op;
using ir::Value;

namespace {

// From the scaled score to the one of the softmax: capped, with the bias.
void score(const Context& cx, ProgramBuilder& k, atlas::Body& body, DType type, double cap,
           Value bias, const Index& scores) {
  if (cap <= 0 && !bias) return;
  Emitter e = cx.emitter(k, body);
  atlas::BodyBuilder& w = e.builder();
  Val score = w.accumulator(0, type);
  if (cap > 0) {
    Val c = w.number(type, cap);
    score = w.mul(c, w.op(Op::tanh, w.div(score, c)));
  }
  if (bias) {
    Index at;
    size_t lead = scores.size() - bias->shape.size();
    for (size_t i = 0; i < bias->shape.size(); ++i)
      at.push_back(bias->shape[i].is(1) ? Expr(0) : scores[lead + i]);
    Val x = e.value(bias, at);
    score = bias->dtype == DType::b8
                ? w.select(x, score, w.number(type, -std::numeric_limits<double>::infinity()))
                : w.add(score, e.convert(x, type));
  }
  end_with(body, score);
}

// Stores of the log-sum-exp, where the cluster has it.
void log_sum(const Context& cx, ProgramBuilder& k, atlas::Body& body, DType type,
             const std::vector<ClusterAxis>& order) {
  Emitter e = cx.emitter(k, body);
  for (const Member& m : cx.cluster.members)
    if (m.node->is(Op::attention_lse))
      for (int slot : cx.storage.stores_of(m.node))
        e.store(slot, cx.placed(m.index, order), e.builder().accumulator(0, type));
}

// They decide bits, so they are no machine's.
constexpr int64_t split_heads = 8, split_keys = 512, split_queries = 4;

// Into how many parts the keys of a few queries are split where there are few heads: a number of
// the sizes alone, so that bits do not depend on threads.
int64_t key_splits(const Cluster& c) {
  Value a = c.anchor;
  const Shape &q = a->input(0)->shape, &k = a->input(1)->shape;
  const Expr &queries = q[q.size() - 2], &keys = k[k.size() - 2];
  Expr heads = numel(Shape(k.begin(), k.end() - 2));
  bool known = queries.is_const() && keys.is_const() && heads.is_const();
  bool only =
      std::ranges::none_of(c.members, [](auto& m) { return m.node->is(Op::attention_lse); });
  if (!known || !only || a->attrs.ints[0] != 0) return 1;
  if (queries.constant_value() < 1 || queries.constant_value() > split_queries) return 1;
  int64_t n = 1;
  while (n * heads.constant_value() < split_heads && heads.constant_value() > 0 &&
         keys.constant_value() > 0 && keys.constant_value() % (split_keys * n) == 0)
    n *= 2;
  return n;
}

// Joins parts of the keys: out and log_sum are slots [parts, batch…, query(, value depth)]. With
// the largest log-sum-exp M, the result is sum(e^(lse - M) * out) / sum(e^(lse - M)).
Lowered join_parts(const Context& cx, int out, int log_sum, DType type, int64_t parts,
                   const std::vector<ClusterAxis>& axes) {
  ProgramBuilder k(cx.storage.slots);
  atlas::LoopBlock& loop = k.program.loop();
  Index at;
  for (const ClusterAxis& x : axes) {
    at.push_back(Expr::axis(static_cast<int>(loop.axes.size()), x.extent));
    loop.axes.push_back({AxisKind::parallel, x.extent});
  }
  loop.parallel_rank = static_cast<int>(axes.size());
  at.insert(at.begin(), Expr::axis(loop.parallel_rank, Expr(parts)));
  loop.axes.push_back({AxisKind::row, Expr(parts)});
  Index row(at.begin(), at.end() - 1);
  atlas::Stage most{atlas::StageKind::row, {}, {}, {}}, sums = most;
  {
    Emitter e = cx.emitter(k, most.body);
    most.reductions.push_back(
        {.op = Op::reduce_max, .type = type, .value = e.read(log_sum, row).id});
  }
  {
    Emitter e = cx.emitter(k, sums.body);
    atlas::BodyBuilder& w = e.builder();
    Val largest = w.accumulator(0, type), zero = w.number(type, 0);
    Val lowest = w.number(type, -std::numeric_limits<double>::infinity());
    largest = w.select(w.eq(largest, lowest), zero, largest);
    Val weight = w.op(Op::exp, w.sub(e.read(log_sum, row), largest));
    Val part = w.mul(weight, e.read(out, at));
    for (Val v : {weight, part})
      sums.reductions.push_back({.op = Op::reduce_sum, .type = type, .value = v.id});
  }
  atlas::Stage point{atlas::StageKind::point, {}, {}, {}};
  Emitter* self = nullptr;
  Emitter e = cx.emitter(k, point.body, [&](Value v, const Index&) -> std::optional<Val> {
    if (v != cx.cluster.anchor) return std::nullopt;
    atlas::BodyBuilder& w = self->builder();
    Val sum = w.accumulator(1, type), zero = w.number(type, 0);
    Val mean = w.select(w.eq(sum, zero), zero, w.div(w.accumulator(2, type), sum));
    return self->convert(mean, v->dtype);
  });
  self = &e;
  for (const Member& m : cx.cluster.members)
    for (int slot : cx.storage.stores_of(m.node)) {
      Index to = cx.placed(m.index, axes);
      e.store(slot, to, e.value(m.node, to));
    }
  loop.stages = {std::move(most), std::move(sums), std::move(point)};
  simplify_axes(loop, *cx.options.machine);
  return finish(k, "attention parts");
}

}  // namespace

Kernels lower_attention(const Context& cx) {
  Value a = cx.cluster.anchor, q = a->input(0), kk = a->input(1), v = a->input(2);
  ProgramBuilder k(cx.storage.slots);
  atlas::AttentionBlock& t = k.program.block.emplace<atlas::AttentionBlock>();
  // From batch…, query, value depth, key, depth to batch…, query, key, depth, value depth.
  std::vector<ClusterAxis> order = cx.cluster.axes;
  size_t b = order.size() - 4;
  ClusterAxis value_depth = order[b + 1];
  order.erase(order.begin() + static_cast<ptrdiff_t>(b) + 1);
  order.push_back(value_depth);
  // Parts of the keys are one more batch axis, the first one.
  int64_t parts = key_splits(cx.cluster);
  if (parts > 1) {
    order.insert(order.begin(), ClusterAxis{-1, Expr(parts), false});
    Expr& keys = order[++b + 1].extent;
    keys = *keys.exact_div(Expr(parts));
  }
  for (const ClusterAxis& x : order)
    t.axes.push_back({x.row ? AxisKind::row : AxisKind::parallel, x.extent});
  t.batch_rank = static_cast<int>(b);
  t.operand_type = q->dtype;
  t.scale = std::bit_cast<double>(a->attrs.bits);
  t.causal = a->attrs.ints[0] != 0;
  t.reproducible = cx.options.reproducible;
  auto axis = [&](size_t i) { return Expr::axis(static_cast<int>(i), order[i].extent); };
  Index batch;
  for (size_t i = parts > 1; i < b; ++i) batch.push_back(axis(i));
  Expr query = axis(b), key = axis(b + 1), depth = axis(b + 2), out_depth = axis(b + 3);
  if (parts > 1) key = axis(0) * order[b + 1].extent + key;
  auto with = [&](Index at, Value operand, const Expr& row, const Expr& column) {
    if (size_t h = at.size(); h > 0 && operand != q) {
      const Expr &heads = a->input(0)->shape[h - 1], &kv_heads = operand->shape[h - 1];
      if (!(heads == kv_heads)) {
        auto group = heads.exact_div(kv_heads);
        check(group.has_value(), "attention lowering: head counts");
        at[h - 1] = floor_div(at[h - 1], *group);
      }
    }
    at.insert(at.end(), {row, column});
    return at;
  };
  auto operand = [&](atlas::Body& body, Value x, const Index& at) {
    Emitter e = cx.emitter(k, body);
    end_with(body, e.value(x, at));
  };
  operand(t.q, q, with(batch, q, query, depth));
  operand(t.k, kk, with(batch, kk, key, depth));
  operand(t.v, v, with(batch, v, key, out_depth));
  Index scores = batch;
  scores.insert(scores.end(), {query, key});
  score(cx, k, t.score, compute_type(q->dtype), std::bit_cast<double>(a->attrs.ints[1]),
        a->inputs.size() > 3 ? a->input(3) : nullptr, scores);
  DType type = compute_type(q->dtype);
  std::vector<Lowered> out;
  if (parts == 1) {
    cx.epilogue(k, t.epilogue, type, order);
    log_sum(cx, k, t.lse, type, order);
    out.push_back(finish(k, cluster_name(cx.cluster)));
    return out;
  }
  Index row = batch;
  row.insert(row.begin(), axis(0));
  row.push_back(query);
  Shape shape;
  for (const Expr& d : a->shape) shape.push_back(d);
  shape.insert(shape.begin(), Expr(parts));
  int values = cx.storage.temporary(type, shape, "parts");
  shape.pop_back();
  int sums = cx.storage.temporary(type, shape, "sums");
  {
    Emitter e = cx.emitter(k, t.lse);
    e.store(sums, row, e.builder().accumulator(0, type));
  }
  row.push_back(out_depth);
  Emitter e = cx.emitter(k, t.epilogue);
  e.store(values, row, e.builder().accumulator(0, type));
  out.push_back(finish(k, "attention"));
  std::vector<ClusterAxis> axes(cx.cluster.axes.begin(), cx.cluster.axes.end() - 2);
  out.push_back(join_parts(cx, values, sums, type, parts, axes));
  return out;
}

Kernels lower_attention_grad(const Context& cx) {
  Value a = cx.cluster.anchor, q = a->input(0), kk = a->input(1), v = a->input(2), bias = nullptr;
  if (a->inputs.size() > 6) bias = a->input(6);
  ProgramBuilder k(cx.storage.slots);
  atlas::AttentionGradBlock& t = k.program.block.emplace<atlas::AttentionGradBlock>();
  size_t b = q->shape.size() - 2, h = b - 1;
  auto members = q->shape[h].exact_div(kk->shape[h]);
  check(members.has_value(), "attention lowering: head counts");
  auto axis = [&](AxisKind kind, const Expr& extent) {
    t.axes.push_back({kind, extent});
    return Expr::axis(static_cast<int>(t.axes.size()) - 1, extent);
  };
  Index kv;
  for (size_t i = 0; i < b; ++i) kv.push_back(axis(AxisKind::parallel, kk->shape[i]));
  Expr member = axis(AxisKind::row, *members), query = axis(AxisKind::row, q->shape[b]);
  Expr key = axis(AxisKind::row, kk->shape[b]), depth = axis(AxisKind::row, q->shape[b + 1]);
  Expr width = axis(AxisKind::row, v->shape[b + 1]);
  Index rows = kv;
  rows[h] = members->is(1) ? kv[h] : kv[h] * *members + member;
  rows.push_back(query);
  auto with = [](Index at, std::initializer_list<Expr> more) {
    at.insert(at.end(), more);
    return at;
  };
  t.batch_rank = static_cast<int>(b);
  t.operand_type = q->dtype;
  t.scale = std::bit_cast<double>(a->attrs.bits);
  t.causal = a->attrs.ints[1] != 0;
  t.reproducible = cx.options.reproducible;
  const std::pair<atlas::Body*, Index> operands[] = {{&t.q, with(rows, {depth})},
                                                     {&t.k, with(kv, {key, depth})},
                                                     {&t.v, with(kv, {key, width})},
                                                     {&t.g, with(rows, {width})},
                                                     {&t.lse, rows},
                                                     {&t.delta, rows}};
  for (size_t i = 0; i < std::size(operands); ++i) {
    Emitter e = cx.emitter(k, *operands[i].first);
    end_with(*operands[i].first, e.value(a->input(i), operands[i].second));
  }
  DType type = compute_type(q->dtype);
  auto cap = std::bit_cast<double>(a->attrs.ints[2]);
  score(cx, k, t.score, type, cap, bias, with(rows, {key}));
  if (cap > 0) {
    atlas::BodyBuilder w(t.slope);
    Val tanh = w.op(Op::tanh, w.div(w.accumulator(0, type), w.number(type, cap)));
    w.finish(w.sub(w.number(type, 1), w.mul(tanh, tanh)));
  }
  atlas::Body* results[] = {&t.dq, &t.dk, &t.dv};
  const Index places[] = {operands[0].second, operands[1].second, operands[2].second};
  for (const Member& m : cx.cluster.members) {
    auto i = static_cast<size_t>(m.node->attrs.ints[0]);
    Emitter e = cx.emitter(k, *results[i]);
    for (int slot : cx.storage.stores_of(m.node))
      e.store(slot, places[i], e.convert(e.builder().accumulator(0, type), m.node->dtype));
  }
  std::vector<Lowered> out;
  out.push_back(finish(k, cluster_name(cx.cluster)));
  return out;
}

}  // namespace hologram::schedule
