// backend/cpu/attention/grad.cpp: gradients of attention from the log-sum-exp of its scores.
//
// A unit visits tiles of 48 queries and 128 keys, keys outside: scores = q k^T and g v^T into two
// tiles, from them the probabilities p and the scores' gradients s, then dv += p^T g, dk += s^T q
// and dq += s k. All three sums run over their terms one by one in ascending order, whatever the
// tiles and whichever of them the unit has. Operands are copied into blocks of memory, so that any
// strides, types and sizes take one path.
//
// Scores are never in memory beyond a tile; its lanes run along keys, and p and s take their place.
// The keys' sums of a block are finished before the next block begins (where heads share keys:
// behind the last head), the queries' stay in scratch memory of the size of dq. k and v are copied
// as columns, k, q and g as rows. Blocks that a causal mask or a band hides are not visited.
#include "backend/cpu/attention/grad_emitter.h"

#include "codegen/nest.h"

namespace hologram::cpu {

GradEmitter::GradEmitter(CpuFunction& kernel, const AttentionGradPlan& plan)
    : ScoreBlocks(kernel, plan.tile, plan.type),
      a_(kernel.program.attention_grad()),
      plan_(plan),
      member_axis_(a_.batch_rank),
      query_axis_(member_axis_ + 1),
      key_axis_(member_axis_ + 2),
      depth_axis_(member_axis_ + 3),
      width_axis_(member_axis_ + 4),
      exp_(exp_of_difference(k_.target, type_)) {}

void GradEmitter::run() {
  if (plan_.units.is(0)) return k_.finish();
  prepare();
  if (plan_.on_tiles) emit_tile_config(k_, tiles_.config);
  emit_loop(k_.root(), k_.begin, k_.end, k_.i64(1), true,
            [&](Scope& scope, Value* unit) { emit_unit(scope, unit); });
  k_.root().seek();
  if (plan_.on_tiles) emit_tile_release(k_);
  k_.finish();
}

void GradEmitter::prepare() {
  size_.members = number(plan_.members);
  size_.queries = number(plan_.queries);
  size_.keys = number(plan_.keys);
  size_.depth = number(plan_.depth);
  size_.width = number(plan_.width);
  size_.parts = number(plan_.parts);
  k_.root().seek();
  size_.depth_panels = div(add(size_.depth, t_.panel - 1), k_.i64(t_.panel));
  size_.width_panels = div(add(size_.width, t_.panel - 1), k_.i64(t_.panel));
  size_.q_row = add(mul(size_.depth_panels, t_.panel), t_.lanes);
  size_.g_row = add(mul(size_.width_panels, t_.panel), t_.lanes);
  // Tiles of unknown sizes compute whole blocks.
  size_.dq_rows = plan_.share == GradShare::queries ? k_.i64(plan_.share_block)
                                                    : add(size_.queries, plan_.query_block);
  bool block = complete_by_block() || plan_.share == GradShare::keys;
  size_.dk_rows = block ? static_cast<Value*>(k_.i64(key_block)) : add(size_.keys, key_block);
  Value *depths = mul(size_.depth_panels, t_.panel), *widths = mul(size_.width_panels, t_.panel);
  Regions regions = plan_.on_tiles ? tile_regions() : register_regions();
  if (wants_dq()) regions.emplace_back(&scratch_.dq, mul(depths, size_.dq_rows));
  if (wants_dk()) regions.emplace_back(&scratch_.dk, mul(depths, size_.dk_rows));
  if (wants_dv()) regions.emplace_back(&scratch_.dv, mul(widths, size_.dk_rows));
  place_regions(regions);
  int64_t rows = plan_.query_block + t_.lanes;
  scratch_.lse = k_.slot(k_.type_of(type_), "lse", rows);
  scratch_.delta = k_.slot(k_.type_of(type_), "delta", rows);
  scratch_.ones = k_.slot(k_.type_of(type_), "ones", key_block);
  scratch_.square = k_.slot(k_.type_of(type_), "square", int64_t{t_.lanes} * t_.lanes);
  fill(k_.root(), scratch_.ones, k_.i64(key_block), llvm::ConstantFP::get(vector(), 1.0));
  k_.root().seek();
}

auto GradEmitter::register_regions() -> Regions {
  return {{&scratch_.kt, mul(size_.depth, key_block)},
          {&scratch_.vt, mul(size_.width, key_block)},
          {&scratch_.k_rows, mul(size_.q_row, key_block)},
          {&scratch_.q, mul(size_.q_row, plan_.query_block)},
          {&scratch_.g, mul(size_.g_row, plan_.query_block)},
          {&scratch_.p, k_.i64(plan_.query_block * key_block)},
          {&scratch_.s, k_.i64(plan_.query_block * key_block)}};
}

void GradEmitter::emit_unit(Scope& scope, Value* unit) {
  scope.seek();
  Value* batch = div(unit, size_.parts);
  Value* part = mul(sub(unit, mul(batch, size_.parts)), plan_.share_block);
  set_batch_axes(scope, a_.axes, a_.batch_rank, batch);
  scope.seek();
  unit_.first_key = unit_.first_query = k_.i64(0);
  unit_.end_key = size_.keys;
  unit_.end_query = size_.queries;
  if (plan_.share == GradShare::keys) {
    unit_.first_key = part;
    unit_.end_key = least(size_.keys, add(part, plan_.share_block));
  } else if (plan_.share == GradShare::queries) {
    unit_.first_query = part;
    unit_.end_query = least(size_.queries, add(part, plan_.share_block));
  }
  if (!complete_by_block()) clear_keys(scope);
  emit_loop(scope, k_.i64(0), size_.members, k_.i64(1), true,
            [&](Scope& s, Value* member) { emit_member(s, member); });
  if (!complete_by_block()) store_keys(scope, unit_.first_key, sub(unit_.end_key, unit_.first_key));
}

void GradEmitter::emit_member(Scope& scope, Value* member) {
  scope.seek();
  scope.set_axis(member_axis_, member);
  if (wants_dq())
    fill(scope, scratch_.dq, mul(mul(size_.depth_panels, t_.panel), size_.dq_rows), zero(vector()));
  emit_loop(scope, unit_.first_key, unit_.end_key, k_.i64(key_block), false,
            [&](Scope& s, Value* key) {
              s.seek();
              keys_.begin = key;
              keys_.count = one_of(plan_.key_counts, sub(size_.keys, key), key_block);
              emit_keys(s);
            });
  if (wants_dq())
    store_rows(scope, a_.dq, scratch_.dq, size_.dq_rows, query_axis_, unit_.first_query,
               sub(unit_.end_query, unit_.first_query), depth_axis_, size_.depth);
}

Value* GradEmitter::one_of(const std::vector<int64_t>& counts, Value* left, int64_t block) {
  return counts.size() == 1 ? static_cast<Value*>(k_.i64(counts[0])) : least(left, k_.i64(block));
}

void GradEmitter::clear_keys(Scope& scope) {
  scope.seek();
  Value* row = mul(size_.dk_rows, t_.panel);
  if (wants_dk()) fill(scope, scratch_.dk, mul(size_.depth_panels, row), zero(vector()));
  scope.seek();
  if (wants_dv()) fill(scope, scratch_.dv, mul(size_.width_panels, row), zero(vector()));
  scope.seek();
}

void GradEmitter::store_keys(Scope& scope, Value* first, Value* count) {
  if (wants_dk())
    store_rows(scope, a_.dk, scratch_.dk, size_.dk_rows, key_axis_, first, count, depth_axis_,
               size_.depth);
  if (wants_dv())
    store_rows(scope, a_.dv, scratch_.dv, size_.dk_rows, key_axis_, first, count, width_axis_,
               size_.width);
}

void GradEmitter::store_rows(Scope& scope, const atlas::Body& body, Value* from, Value* rows,
                             int row_axis, Value* first, Value* count, int column_axis,
                             Value* columns) {
  for_vectors(scope, columns, t_.lanes, [&](Scope& s, Value* offset, Value* mask) {
    s.seek();
    s.set_axis(column_axis, offset);
    s.set_lanes(column_axis, t_.lanes, mask);
    Value* panel = k_.ir.CreateUDiv(offset, k_.i64(t_.panel));
    Value* column = sub(offset, mul(panel, t_.panel));
    Value* base = at(from, add(mul(mul(panel, rows), t_.panel), column));
    emit_loop(s, k_.i64(0), count, k_.i64(1), false, [&](Scope& row, Value* r) {
      row.seek();
      row.set_axis(row_axis, add(first, r));
      row.set_accumulator(0, {load(at(base, mul(r, t_.panel))), true});
      emit_body(row, body);
    });
  });
  scope.seek();
}

void GradEmitter::copy_rows(Scope& scope, const atlas::Body& body, int row_axis, Value* begin,
                            Value* count, int column_axis, Value* columns, Value* out,
                            Value* stride) {
  emit_loop(scope, k_.i64(0), count, k_.i64(1), true, [&](Scope& s, Value* i) {
    s.seek();
    s.set_axis(row_axis, add(begin, i));
    operand(body).gather(s, {column_axis, k_.i64(0), columns}, at(out, mul(i, stride)));
  });
  scope.seek();
}

void GradEmitter::copy_columns(Scope& scope, const atlas::Body& body, int column_axis,
                               Value* columns, Value* out) {
  bool along_keys = first_stride(body, key_axis_) == 1 && first_stride(body, column_axis) != 1;
  emit_loop(scope, k_.i64(0), keys_.count, k_.i64(t_.panel), true, [&](Scope& s, Value* first) {
    s.seek();
    Run keys{key_axis_, add(keys_.begin, first), least(sub(keys_.count, first), k_.i64(t_.panel))};
    Value* to = at(out, mul(first, columns));
    if (!along_keys)
      return operand(body).transpose(s, keys, {column_axis, k_.i64(0), columns}, scratch_.square,
                                     to, t_.panel);
    emit_loop(s, k_.i64(0), columns, k_.i64(1), false, [&](Scope& inner, Value* i) {
      inner.seek();
      inner.set_axis(column_axis, i);
      operand(body).gather(inner, keys, at(to, mul(i, t_.panel)));
    });
  });
  scope.seek();
}

void GradEmitter::copy_keys(Scope& scope) {
  copy_columns(scope, a_.k, depth_axis_, size_.depth, scratch_.kt);
  copy_columns(scope, a_.v, width_axis_, size_.width, scratch_.vt);
  if (wants_dq())
    copy_rows(scope, a_.k, key_axis_, keys_.begin, keys_.count, depth_axis_, size_.depth,
              scratch_.k_rows, size_.q_row);
}

void GradEmitter::emit_keys(Scope& scope) {
  plan_.on_tiles ? copy_keys_to_tiles(scope) : copy_keys(scope);
  if (complete_by_block()) clear_keys(scope);
  Value *first = unit_.first_query, *end = unit_.end_query;
  visible_queries(scope, first, end);
  emit_loop(scope, first, end, k_.i64(plan_.query_block), false, [&](Scope& s, Value* query) {
    s.seek();
    queries_.begin = query;
    queries_.count = one_of(plan_.query_counts, sub(size_.queries, query), plan_.query_block);
    plan_.on_tiles ? emit_score_block(s) : emit_tile(s);
  });
  if (complete_by_block()) store_keys(scope, keys_.begin, keys_.count);
}

void GradEmitter::visible_queries(Scope& scope, Value*& first, Value*& end) {
  Value* from = first;
  scope.seek();
  Value* last_key = add(keys_.begin, sub(keys_.count, k_.i64(1)));
  if (a_.causal) first = most(first, keys_.begin);
  if (const auto& bound = plan_.bounds.last) {  // key <= query + offset, or key <= offset
    Value* offset = number(bound->offset);
    scope.seek();
    if (bound->by_query)
      first = most(first, sub(keys_.begin, offset));
    else
      end = k_.ir.CreateSelect(k_.ir.CreateICmpSGT(keys_.begin, offset), from, end);
  }
  if (const auto& bound = plan_.bounds.first) {
    Value* offset = number(bound->offset);
    scope.seek();
    if (bound->by_query)
      end = least(end, add(sub(last_key, offset), 1));
    else
      end = k_.ir.CreateSelect(k_.ir.CreateICmpSLT(last_key, offset), from, end);
  }
  Value* block = k_.i64(plan_.query_block);
  first = add(from, mul(div(sub(first, from), block), block));
}

void GradEmitter::gather_numbers(Scope& scope) {
  Run queries{query_axis_, queries_.begin, queries_.count};
  Operand{a_.lse, type_, type_, t_.lanes}.gather(scope, queries, scratch_.lse);
  Operand{a_.delta, type_, type_, t_.lanes}.gather(scope, queries, scratch_.delta);
}

void GradEmitter::emit_tile(Scope& scope) {
  copy_rows(scope, a_.q, query_axis_, queries_.begin, queries_.count, depth_axis_, size_.depth,
            scratch_.q, size_.q_row);
  copy_rows(scope, a_.g, query_axis_, queries_.begin, queries_.count, width_axis_, size_.width,
            scratch_.g, size_.g_row);
  gather_numbers(scope);
  scope.seek();
  Value *rows = queries_.count, *keys = keys_.count;
  std::vector<int64_t> row_counts = plan_.query_counts, key_counts = plan_.key_counts;
  if (row_counts.empty()) {
    rows = k_.i64(plan_.query_block);
    row_counts = {plan_.query_block};
  }
  if (key_counts.empty()) {
    keys = k_.i64(key_block);
    key_counts = {key_block};
  }
  auto scores = [&](Use use, Value* a, Value* row, Value* b, Value* depth, Value* out) {
    emit_loop(scope, k_.i64(0), keys_.count, k_.i64(t_.panel), true, [&](Scope& s, Value* key) {
      s.seek();
      multiply(s, use, rows, row_counts, 0, {a, row, k_.i64(1)},
               {at(b, mul(key, depth)), k_.i64(t_.panel), k_.i64(0), 1, type_}, depth,
               {at(out, key), key_block});
    });
  };
  scores(use_scores, scratch_.q, size_.q_row, scratch_.kt, size_.depth, scratch_.p);
  scores(use_values, scratch_.g, size_.g_row, scratch_.vt, size_.width, scratch_.s);
  emit_loop(scope, k_.i64(0), queries_.count, k_.i64(1), true,
            [&](Scope& s, Value* i) { score_row(s, i); });
  auto sums = [&](Use use, Value* count, const std::vector<int64_t>& counts, const Matrix& a,
                  Value* b, Value* row, Value* depth, Value* columns, Value* out, Value* height,
                  Value* first) {
    for_panels(scope, columns, [&](Scope& s, Value* panel, int vectors) {
      s.seek();
      multiply_add(s, use, count, counts, a,
                   {at(b, mul(panel, t_.panel)), row, k_.i64(0), 1, type_, vectors}, depth,
                   {at(out, mul(add(mul(panel, height), first), t_.panel))}, scratch_.ones);
    });
  };
  scope.seek();
  Value* first = complete_by_block() ? k_.i64(0) : sub(keys_.begin, unit_.first_key);
  Matrix p{scratch_.p, k_.i64(1), k_.i64(key_block)}, st{scratch_.s, k_.i64(1), k_.i64(key_block)};
  Matrix s{scratch_.s, k_.i64(key_block), k_.i64(1)};
  if (wants_dv())
    sums(use_dv, keys, key_counts, p, scratch_.g, size_.g_row, queries_.count, size_.width,
         scratch_.dv, size_.dk_rows, first);
  if (wants_dk())
    sums(use_dk, keys, key_counts, st, scratch_.q, size_.q_row, queries_.count, size_.depth,
         scratch_.dk, size_.dk_rows, first);
  scope.seek();
  if (wants_dq())
    sums(use_dq, rows, row_counts, s, scratch_.k_rows, size_.q_row, keys_.count, size_.depth,
         scratch_.dq, size_.dq_rows, sub(queries_.begin, unit_.first_query));
}

void GradEmitter::score_row(Scope& scope, Value* i) {
  scope.seek();
  Value* query = add(queries_.begin, i);
  scope.set_axis(query_axis_, query);
  llvm::Type* type = k_.type_of(type_);
  Value* lse = load_one(at(scratch_.lse, i));
  // So that exp(score - lse) is 0 where the row has no keys.
  lse = k_.ir.CreateSelect(k_.ir.CreateFCmpOEQ(lse, lowest(type)),
                           llvm::ConstantFP::getInfinity(type), lse);
  Value* delta = spread(load_one(at(scratch_.delta, i)));
  Value *p_row = at(scratch_.p, mul(i, key_block)), *s_row = at(scratch_.s, mul(i, key_block));
  for_vectors(scope, keys_.count, t_.lanes, [&](Scope& s, Value* offset, Value* mask) {
    s.seek();
    Value* key = add(keys_.begin, offset);
    s.set_axis(key_axis_, key);
    s.set_lanes(key_axis_, t_.lanes, mask);
    Value* x = scaled(load(at(p_row, offset)), a_.scale);
    Value* slope = a_.slope.instrs.empty() ? nullptr : score_of(s, a_.slope, x);
    Value* y = a_.score.instrs.empty() ? x : score_of(s, a_.score, x);
    if (a_.causal) {
      Value* last = spread(k_.ir.CreateTrunc(query, k_.ir.getInt32Ty()));
      y = k_.ir.CreateSelect(k_.ir.CreateICmpSLE(lane_numbers(key), last), y, lowest(vector()));
    }
    Value* p = combine(s, exp_, {y, true}, {lse, false});
    if (!plan_.on_tiles) store(p, at(p_row, offset));
    Value* d = k_.ir.CreateFSub(load(at(s_row, offset)), delta);
    d = k_.ir.CreateFMul(d, p);
    if (slope) d = k_.ir.CreateFMul(d, slope);
    d = scaled(d, a_.scale);
    if (plan_.on_tiles) return store_brief(i, offset, mask, p, d);
    store(d, at(s_row, offset));
  });
  if (plan_.on_tiles) hide_missing_keys(scope, i);
}

void emit(CpuFunction& k, const AttentionGradPlan& plan) { GradEmitter(k, plan).run(); }

}  // namespace hologram::cpu
