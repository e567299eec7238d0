// backend/cpu/attention/emit.cpp: attention with online softmax, as one kernel.
//
// A unit is a batch point and a block of queries. For each block of keys: scores = q k^T into a
// scratch tile, the score body and the running maximum, exponentials and their sum, then the value
// accumulators, scaled down where the maximum grew, gain p v. Every sum runs over its terms one by
// one in ascending order, so the bits depend on neither lanes nor units.
//
// q is packed once as depth x queries; then k needs no packing, since its rows are the broadcast
// operand of tiles whose lanes are queries: the softmax needs no reductions across lanes, masks
// that depend on keys alone are scalars, and p v again broadcasts p and reads v in place. k and v
// are copied only to widen narrow types, and v where the head size is not a whole number of
// vectors. A last panel of one vector (a head size of 80 with AVX-512, 24 with AVX2) takes tiles of
// twice the rows and half the width, in the gradients too. Two chains of maxima and of sums hide
// each other's latency.
#include "backend/cpu/attention/emit.h"

#include <algorithm>

#include "backend/cpu/attention/emitter.h"
#include "backend/cpu/operands/dots.h"
#include "codegen/nest.h"

namespace hologram::cpu {

AttentionEmitter::AttentionEmitter(CpuFunction& kernel, const AttentionPlan& plan)
    : ScoreBlocks(kernel, plan.tile, plan.type),
      a_(kernel.program.attention()),
      plan_(plan),
      query_axis_(a_.batch_rank),
      key_axis_(query_axis_ + 1),
      depth_axis_(query_axis_ + 2),
      value_axis_(query_axis_ + 3),
      exp_score_(exp_of_difference(kernel.target, type_)),
      exp_shrink_(exp_score_),
      log_sum_(log_of_sum(type_)) {
  dots_ = plan.dots;
}

void AttentionEmitter::run() {
  if (plan_.units.is(0)) return k_.finish();
  prepare();
  if (plan_.on_tiles) emit_tile_config(k_, scratch_.config, rows_of_attention_tiles());
  emit_loop(k_.root(), k_.begin, k_.end, k_.i64(1), true,
            [&](Scope& scope, Value* unit) { emit_unit(scope, unit); });
  k_.root().seek();
  if (plan_.on_tiles) emit_tile_release(k_);
  k_.finish();
}

void AttentionEmitter::prepare() {
  size_.queries = number(plan_.queries);
  size_.keys = number(plan_.keys);
  size_.depth = number(plan_.depth);
  size_.values = number(plan_.values);
  size_.query_units = number(plan_.query_units);
  k_.root().seek();
  size_.value_panels = div(add(size_.values, t_.panel - 1), k_.i64(t_.panel));
  size_.key_stride = add(round_up(size_.depth, t_.lanes), k_.i64(t_.lanes));
  int64_t rows = plan_.query_block;
  Value* q = plan_.on_tiles ? k_.i64(tile_depth() * (by_queries() ? rows : few_columns / 2))
             : by_queries() ? mul(size_.depth, t_.panel)
                            : mul(size_.key_stride, rows);
  Regions regions{{&rows_.q, q},
                  // Behind the last key, the other half of its pair.
                  {&scratch_.scores, k_.i64((key_block + 1) * (by_queries() ? t_.panel : rows))},
                  {&rows_.out, mul(size_.value_panels, rows * t_.panel)}};
  if (few_on_tiles())
    prepare_few(regions);
  else if (plan_.on_tiles)
    prepare_tiles(regions);
  else if (!by_queries() && !plan_.k_load)
    regions.emplace_back(&scratch_.k_block, mul(size_.depth, int64_t{t_.panel} * plan_.key_span));
  else if (!plan_.k_load)
    regions.emplace_back(&scratch_.k_block, mul(size_.key_stride, key_block));
  if (!plan_.v_load && !plan_.on_tiles)
    regions.emplace_back(&scratch_.v_block, k_.i64(key_block * t_.panel));
  place_regions(regions);
  int64_t columns = std::max<int64_t>(t_.panel, rows);
  rows_.max = k_.slot(k_.type_of(type_), "max", columns);
  rows_.sum = k_.slot(k_.type_of(type_), "sum", columns);
  rows_.shrink = k_.slot(k_.type_of(type_), "shrink", columns);
  scratch_.square = k_.slot(k_.type_of(type_), "square", int64_t{t_.lanes} * t_.lanes);
  if (by_queries()) {
    find_turned();
  } else {
    if (!plan_.on_tiles)
      scratch_.tile = k_.slot(k_.type_of(type_), "tile", rows * t_.panel * plan_.key_span);
    scratch_.largest = k_.slot(vector(), "largest");
    scratch_.seen = k_.slot(k_.ir.getInt64Ty(), "seen");
    scratch_.partials = k_.slot(k_.type_of(type_), "partials", partials_of(type_));
  }
  if (plan_.k_load) size_.k_row = number(plan_.k_load->x_stride);
  if (plan_.v_load) size_.v_row = number(plan_.v_load->x_stride);
  k_.root().seek();
}

void AttentionEmitter::emit_unit(Scope& scope, Value* unit) {
  scope.seek();
  Value* batch = div(unit, size_.query_units);
  Value* block = sub(unit, mul(batch, size_.query_units));
  unit_.first_head = set_unit_axes(scope, batch);
  if (!plan_.ahead.empty()) fetch_ahead(scope, batch, block);
  rows_.begin = mul(block, plan_.query_block);
  rows_.count = plan_.query_counts.size() == 1
                    ? static_cast<Value*>(k_.i64(plan_.query_counts[0]))
                    : least(sub(size_.queries, rows_.begin), k_.i64(plan_.query_block));
  if (plan_.k_load) unit_.k_base = emit_expr(scope, plan_.k_load->base).v;
  if (plan_.v_load) unit_.v_base = emit_expr(scope, plan_.v_load->base).v;
  if (rows_in_place()) {
    Scope next(scope, false);
    Value* last = sub(number(batch_points()), k_.i64(1));
    next.seek();
    set_unit_axes(next, least(add(batch, 1), last));
    unit_.next_k = emit_expr(next, plan_.k_load->base).v;
    if (plan_.v_load) unit_.next_v = emit_expr(next, plan_.v_load->base).v;
    next.seek();
    scope.move_to(k_.ir.GetInsertBlock());
  }
  scope.seek();
  Value* key_end = size_.keys;
  Value* queries = !by_queries() ? size_.queries : rows_.count;
  if (a_.causal) key_end = least(size_.keys, add(rows_.begin, queries));
  Value* key_start = k_.i64(0);
  // Whole blocks of keys that the mask hides from all queries of the unit are left out.
  if (plan_.bounds.first) {
    Value* first = number(plan_.bounds.first->offset);
    scope.seek();
    if (plan_.bounds.first->by_query) first = add(first, rows_.begin);
    key_start = k_.ir.CreateAnd(most(first, k_.i64(0)), k_.i64(-key_block));
  }
  if (plan_.bounds.last) {
    Value* last = number(plan_.bounds.last->offset);
    scope.seek();
    if (plan_.bounds.last->by_query) last = add(last, add(rows_.begin, sub(queries, k_.i64(1))));
    key_end = least(key_end, round_up(most(add(last, 1), k_.i64(0)), key_block));
  }
  if (!plan_.seen.instrs.empty()) key_end = end_of_seen(scope, key_start, key_end);
  clear(scope);
  if (few_on_tiles())
    turn_few_queries(scope);
  else if (plan_.on_tiles)
    for_query_panels(scope, [&](Scope& s) { pack_queries(s); });
  else
    pack_queries(scope);
  emit_loop(scope, key_start, key_end, k_.i64(key_block), false, [&](Scope& s, Value* key) {
    s.seek();
    block_.begin = key;
    block_.count = plan_.key_counts.size() == 1 ? static_cast<Value*>(k_.i64(plan_.key_counts[0]))
                                                : least(sub(key_end, key), k_.i64(key_block));
    if (few_on_tiles()) return few_block(s);
    if (plan_.on_tiles) return tile_block(s);
    if (by_queries()) {
      scores_by_queries(s);
    } else {
      plan_.k_load ? dots_in_place(s) : dots_of_panels(s);
      softmax_rows(s);
    }
    add_values(s);
  });
  if (plan_.on_tiles && by_queries())
    return for_query_panels(scope, [&](Scope& s) {
      turn_columns(s);
      epilogue(s);
      log_sums(s);
    });
  epilogue(scope);
  log_sums(scope);
}

Value* AttentionEmitter::set_unit_axes(Scope& scope, Value* batch) {
  std::vector<atlas::Axis> axes = a_.axes;
  if (plan_.shared > 1) {  // the last batch axis counts groups of heads
    Expr& heads = axes[static_cast<size_t>(a_.batch_rank - 1)].extent;
    heads = *heads.exact_div(Expr(plan_.shared));
  }
  set_batch_axes(scope, axes, a_.batch_rank, batch);
  if (plan_.shared == 1) return nullptr;
  scope.seek();
  Value* first = mul(sub(batch, mul(div(batch, k_.i64(groups())), groups())), plan_.shared);
  scope.set_axis(query_axis_ - 1, first);
  return first;
}

Expr AttentionEmitter::batch_points() const {
  Expr points(1);
  for (int a = 0; a < a_.batch_rank; ++a) points *= a_.axes[static_cast<size_t>(a)].extent;
  return plan_.shared > 1 ? *points.exact_div(Expr(plan_.shared)) : points;
}

void AttentionEmitter::fetch_ahead(Scope& scope, Value* batch, Value* block) {
  constexpr int64_t line = 64;
  Scope next(scope, false);
  Value* last = sub(number(batch_points()), k_.i64(1));
  next.seek();
  set_batch_axes(next, a_.axes, a_.batch_rank, least(add(batch, 1), last));
  const int64_t size = size_of(a_.operand_type), units = plan_.query_units.constant_value();
  for (const OperandRows& o : plan_.ahead) {
    Value *base = emit_expr(next, o.load.base).v, *stride = number(o.load.x_stride);
    next.seek();
    const int64_t share = (o.rows + units - 1) / units;
    Value* first = mul(block, share);
    Value* end = least(add(first, share), k_.i64(o.rows));
    emit_loop(next, first, end, k_.i64(1), false, [&](Scope& s, Value* row) {
      s.seek();
      Value* at =
          element(k_, a_.operand_type, k_.buffer(o.load.buffer), add(base, mul(row, stride)));
      for (int64_t byte = 0; byte < o.columns * size; byte += line)
        emit_fetch(k_, at, byte, FetchTo::second_level);
    });
  }
  next.seek();
  scope.move_to(k_.ir.GetInsertBlock());
  scope.seek();
}

// Of a cache most may be hidden yet. What is left out has probabilities of 0.
Value* AttentionEmitter::end_of_seen(Scope& scope, Value* first, Value* end) {
  scope.seek();
  k_.ir.CreateStore(first, scratch_.seen);
  for_vectors(scope, sub(end, first), t_.lanes, [&](Scope& s, Value* offset, Value* mask) {
    s.seek();
    Value* key = add(first, offset);
    s.set_axis(key_axis_, key);
    s.set_lanes(key_axis_, t_.lanes, mask);
    emit_loop(s, k_.i64(0), rows_.count, k_.i64(1), true, [&](Scope& row, Value* r) {
      row.seek();
      set_row(row, r);
      LaneValue seen = emit_body(row, plan_.seen).back();
      row.seek();
      Value* any = splat(k_, seen, t_.lanes);
      if (mask) any = k_.ir.CreateAnd(any, mask);
      Value* behind = k_.ir.CreateSelect(k_.ir.CreateOrReduce(any), add(key, t_.lanes), first);
      Value* so_far = k_.ir.CreateLoad(k_.ir.getInt64Ty(), scratch_.seen);
      k_.ir.CreateStore(most(behind, so_far), scratch_.seen);
    });
  });
  scope.seek();
  Value* seen = k_.ir.CreateLoad(k_.ir.getInt64Ty(), scratch_.seen);
  return least(end, plan_.on_tiles ? round_up(seen, key_block) : seen);
}

int64_t AttentionEmitter::groups() const {
  const Expr& heads = a_.axes[static_cast<size_t>(query_axis_ - 1)].extent;
  return heads.constant_value() / plan_.shared;
}

Value* AttentionEmitter::set_row(Scope& scope, Value* r) {
  if (plan_.shared == 1) {
    Value* query = add(rows_.begin, r);
    scope.set_axis(query_axis_, query);
    return query;
  }
  Value* head = div(r, size_.queries);
  Value* query = sub(r, mul(head, size_.queries));
  scope.set_axis(query_axis_ - 1, add(unit_.first_head, head));
  scope.set_axis(query_axis_, query);
  return query;
}

void AttentionEmitter::clear(Scope& scope) {
  scope.seek();
  Value* columns = k_.i64(std::max<int64_t>(t_.panel, plan_.query_block));
  fill(scope, rows_.max, columns, lowest(vector()));
  fill(scope, rows_.sum, columns, zero(vector()));
  fill(scope, rows_.shrink, columns, zero(vector()));
  scope.seek();
  fill(scope, plan_.on_tiles && by_queries() ? rows_.columns : rows_.out,
       mul(size_.value_panels, plan_.query_block * t_.panel), zero(vector()));
}

void AttentionEmitter::pack_queries(Scope& scope) {
  Run queries{query_axis_, rows_.begin, rows_.count}, depth{depth_axis_, k_.i64(0), size_.depth};
  if (!by_queries()) {
    emit_loop(scope, k_.i64(0), rows_.count, k_.i64(1), true, [&](Scope& s, Value* i) {
      s.seek();
      set_row(s, i);
      operand(a_.q).gather(s, depth, at(rows_.q, mul(i, size_.key_stride)));
    });
    return;
  }
  scope.seek();
  Value* partial = k_.ir.CreateICmpSLT(rows_.count, k_.i64(t_.panel));
  emit_if(scope, partial, [&](Scope& s) {
    s.seek();
    fill(s, rows_.q, mul(size_.depth, t_.panel), zero(vector()));
  });
  if (first_stride(a_.q, query_axis_) == 1 && first_stride(a_.q, depth_axis_) != 1) {
    emit_loop(scope, k_.i64(0), size_.depth, k_.i64(1), false, [&](Scope& s, Value* i) {
      s.seek();
      s.set_axis(depth_axis_, i);
      operand(a_.q).gather(s, queries, at(rows_.q, mul(i, t_.panel)));
    });
  } else {
    operand(a_.q).transpose(scope, queries, depth, scratch_.square, rows_.q, t_.panel);
  }
  if (plan_.on_tiles)
    fill(scope, at(rows_.q, mul(size_.depth, t_.panel)),
         k_.i64((tile_depth() - plan_.depth.constant_value()) * t_.panel), zero(vector()));
  if (pairs()) pair_queries(scope);
  if (splits()) split_queries(scope);
}

Value* AttentionEmitter::update_maximum(Scope& scope, Value* index, Value* maximum,
                                        llvm::Type* type) {
  scope.seek();
  Value* p = at(rows_.max, index);
  Value* old = k_.ir.CreateAlignedLoad(type, p, alignment());
  Value* now = larger(maximum, old);
  k_.ir.CreateAlignedStore(now, p, alignment());
  Value* finite = k_.ir.CreateSelect(k_.ir.CreateFCmpOEQ(now, lowest(type)), zero(type), now);
  bool varying = type->isVectorTy();
  Value* shrink = exponential(scope, exp_shrink_, {old, varying}, {finite, varying});
  k_.ir.CreateAlignedStore(shrink, at(rows_.shrink, index), alignment());
  return finite;
}

void AttentionEmitter::scores_by_queries(Scope& scope) {
  plan_.on_tiles ? tile_scores(scope) : register_scores(scope);
  // A whole panel of queries at once: two chains of maxima and of sums.
  const int one = t_.lanes;
  bool single = fixed(rows_.count).value_or(t_.panel) <= one;
  if (!single) t_.lanes = t_.panel;
  for_vectors(scope, rows_.count, t_.lanes, [&](Scope& s, Value* offset, Value* mask) {
    s.seek();
    Value* query = add(rows_.begin, offset);
    s.set_axis(query_axis_, query);
    s.set_lanes(query_axis_, t_.lanes, mask);
    Value* last_key = a_.causal ? lane_numbers(query) : nullptr;
    softmax_columns(s, offset, last_key);
  });
  t_.lanes = one;
  scope.seek();
}

void AttentionEmitter::register_scores(Scope& scope) {
  Matrix keys{};
  if (pairs()) {
    keys = paired_keys(scope);
  } else if (plan_.k_load) {
    scope.seek();
    Value* first = add(unit_.k_base, mul(block_.begin, size_.k_row));
    keys = {at(k_.buffer(plan_.k_load->buffer), first), size_.k_row, k_.i64(1)};
  } else {
    emit_loop(scope, k_.i64(0), block_.count, k_.i64(1), true, [&](Scope& s, Value* i) {
      s.seek();
      s.set_axis(key_axis_, add(block_.begin, i));
      operand(a_.k).gather(s, {depth_axis_, k_.i64(0), size_.depth},
                           at(scratch_.k_block, mul(i, size_.key_stride)));
    });
    keys = {scratch_.k_block, size_.key_stride, k_.i64(1)};
  }
  scope.seek();
  Value* depth = pairs() ? k_.i64(depth_pairs()) : size_.depth;
  multiply(scope, use_scores, block_.count, plan_.key_counts, key_block, keys,
           {rows_.q, k_.i64(t_.panel), k_.i64(0), 1, type_}, depth, {scratch_.scores});
}

void AttentionEmitter::softmax_columns(Scope& scope, Value* offset, Value* last_key) {
  auto place = [&](Value* i) { return at(scratch_.scores, add(mul(i, t_.panel), offset)); };
  Value* largest =
      for_keys(scope, offset, lowest(vector()), [&](Scope& s, Value* i, Value* carried) -> Value* {
        s.seek();
        Value* key = add(block_.begin, i);
        s.set_axis(key_axis_, key);
        Value* x = final_score(s, scaled(load(place(i))));
        if (last_key) {
          Value* number = spread(k_.ir.CreateTrunc(key, k_.ir.getInt32Ty()));
          x = k_.ir.CreateSelect(k_.ir.CreateICmpSLE(number, last_key), x, lowest(vector()));
        }
        store(x, place(i));
        return larger(x, carried);
      });
  Value* maximum = update_maximum(scope, offset, largest, vector());
  Value* start = k_.ir.CreateFMul(load(at(rows_.sum, offset)), load(at(rows_.shrink, offset)));
  if (pairs())
    return store(paired_exponentials(scope, offset, maximum, start), at(rows_.sum, offset));
  Value* total =
      emit_loop(scope, k_.i64(0), block_.count, k_.i64(1), true, {start},
                [&](Scope& s, Value* i, std::vector<Value*> carried) -> std::vector<Value*> {
                  s.seek();
                  Value* p = exponential(s, exp_score_, {load(place(i)), true}, {maximum, true});
                  store(p, place(i));
                  return {k_.ir.CreateFAdd(carried[0], p)};
                })[0];
  scope.seek();
  store(total, at(rows_.sum, offset));
}

void AttentionEmitter::add_values(Scope& scope) {
  Matrix p = by_queries() ? Matrix{scratch_.scores, k_.i64(1), k_.i64(t_.panel)}
                          : Matrix{scratch_.scores, k_.i64(key_block), k_.i64(1)};
  Value* base = scratch_.v_block;
  DType storage = plan_.v_load ? a_.operand_type : type_;
  // Where any number of queries may come, half a block or a whole one is computed.
  Value* rows = rows_.count;
  std::vector<int64_t> counts = plan_.query_counts;
  if (counts.empty()) {
    scope.seek();
    int64_t half = plan_.query_block / 2;
    rows = k_.ir.CreateSelect(k_.ir.CreateICmpSLE(rows_.count, k_.i64(half)), k_.i64(half),
                              k_.i64(2 * half));
    counts = {half, 2 * half};
  }
  if (plan_.v_load) {
    scope.seek();
    base = element(k_, storage, k_.buffer(plan_.v_load->buffer),
                   add(unit_.v_base, mul(block_.begin, size_.v_row)));
  }
  auto panels = [&](Scope& s, Value* panel, int vectors) {
    s.seek();
    Value* column = mul(panel, t_.panel);
    Panels v{};
    if (pairs()) {
      pair_values(s, column);
      v = {scratch_.v_block, k_.i64(t_.panel), k_.i64(0), 1, type_};
    } else if (plan_.v_load) {
      v = {element(k_, storage, base, column), size_.v_row, k_.i64(t_.panel), plan_.value_span,
           storage};
    } else {
      Value* count = least(sub(size_.values, column), k_.i64(t_.panel));
      emit_loop(s, k_.i64(0), block_.count, k_.i64(1), true, [&](Scope& inner, Value* i) {
        inner.seek();
        inner.set_axis(key_axis_, add(block_.begin, i));
        operand(a_.v).gather(inner, {value_axis_, column, count},
                             at(scratch_.v_block, mul(i, t_.panel)));
      });
      v = {scratch_.v_block, k_.i64(t_.panel), k_.i64(0), 1, type_};
    }
    v.vectors = vectors;
    s.seek();
    if (beside_values() != Beside::none && lines_of(plan_.values) > 0) {
      const bool keys = beside_values() == Beside::keys;
      const StridedLoad& load = keys ? *plan_.k_load : *plan_.v_load;
      Value* row = keys ? size_.k_row : size_.v_row;
      v.lines_ahead = lines_of(Expr(int64_t{t_.panel} * v.span));
      v.ahead =
          element(k_, storage, k_.buffer(load.buffer),
                  add(add(keys ? unit_.next_k : unit_.next_v, mul(block_.begin, row)), column));
      v.ahead_k = mul(row, size_of(storage));
    }
    Value* depth = pairs() ? key_pairs() : block_.count;
    multiply_add(s, use_values, rows, counts, p, v, depth,
                 {at(rows_.out, mul(column, plan_.query_block))}, rows_.shrink);
  };
  if (plan_.value_span == 1) return for_panels(scope, size_.values, panels);
  emit_loop(scope, k_.i64(0), size_.value_panels, k_.i64(plan_.value_span), true,
            [&](Scope& s, Value* panel) { panels(s, panel, 0); });
}

void AttentionEmitter::epilogue(Scope& scope) {
  for_vectors(scope, size_.values, t_.lanes, [&](Scope& s, Value* offset, Value* mask) {
    s.seek();
    s.set_axis(value_axis_, offset);
    s.set_lanes(value_axis_, t_.lanes, mask);
    int64_t width = int64_t{t_.panel} * plan_.value_span;
    Value* group = k_.ir.CreateUDiv(offset, k_.i64(width));
    Value* column = sub(offset, mul(group, width));
    Value* first = add(mul(group, plan_.query_block * width), column);
    emit_loop(s, k_.i64(0), rows_.count, k_.i64(1), true, [&](Scope& row, Value* r) {
      row.seek();
      set_row(row, r);
      Value* sum = spread(load_one(at(rows_.sum, r)));
      Value* v = k_.ir.CreateFDiv(load(at(rows_.out, add(first, mul(r, width)))), sum);
      v = k_.ir.CreateSelect(k_.ir.CreateFCmpOEQ(sum, zero(vector())), zero(vector()), v);
      row.set_accumulator(0, {v, true});
      emit_body(row, a_.epilogue);
    });
  });
}

void AttentionEmitter::log_sums(Scope& scope) {
  if (a_.lse.instrs.empty()) return;
  if (!by_queries())
    return emit_loop(scope, k_.i64(0), rows_.count, k_.i64(1), true, [&](Scope& s, Value* r) {
      s.seek();
      set_row(s, r);
      LaneValue max{load_one(at(rows_.max, r)), false}, sum{load_one(at(rows_.sum, r)), false};
      s.set_accumulator(0, {combine(s, log_sum_, max, sum), false});
      emit_body(s, a_.lse);
    });
  for_vectors(scope, rows_.count, t_.lanes, [&](Scope& s, Value* offset, Value* mask) {
    s.seek();
    s.set_axis(query_axis_, add(rows_.begin, offset));
    s.set_lanes(query_axis_, t_.lanes, mask);
    Value* v = combine(s, log_sum_, {load(at(rows_.max, offset)), true},
                       {load(at(rows_.sum, offset)), true});
    s.set_accumulator(0, {v, true});
    emit_body(s, a_.lse);
  });
}

void emit(CpuFunction& k, const AttentionPlan& plan) { AttentionEmitter(k, plan).run(); }

}  // namespace hologram::cpu
