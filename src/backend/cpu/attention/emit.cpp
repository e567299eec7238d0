// backend/cpu/attention/emit.cpp: attention with online softmax, as one kernel.
//
// A unit is a batch point and a block of queries. For each block of keys: scores = q k^T into a
// scratch tile, the score body and the running maximum, exponentials and their sum, then the value
// accumulators, scaled down where the maximum grew, gain p v. Every sum runs over its terms one by
// one in ascending order, so the bits depend on neither lanes nor units.
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
  if (plan_.on_tiles) emit_tile_config(k_, config_);
  emit_loop(k_.root(), k_.begin, k_.end, k_.i64(1), true,
            [&](Scope& scope, Value* unit) { emit_unit(scope, unit); });
  k_.root().seek();
  if (plan_.on_tiles) emit_tile_release(k_);
  k_.finish();
}

void AttentionEmitter::prepare() {
  queries_ = number(plan_.queries);
  keys_ = number(plan_.keys);
  depth_ = number(plan_.depth);
  values_ = number(plan_.values);
  query_units_ = number(plan_.query_units);
  k_.root().seek();
  value_panels_ = div(add(values_, t_.panel - 1), k_.i64(t_.panel));
  key_stride_ = add(round_up(depth_, t_.lanes), k_.i64(t_.lanes));
  int64_t rows = plan_.query_block;
  Value* q = plan_.on_tiles ? k_.i64(tile_depth() * rows)
             : by_queries() ? mul(depth_, t_.panel)
                            : mul(key_stride_, rows);
  Regions regions{{&q_, q},
                  // Behind the last key, the other half of its pair.
                  {&scores_, k_.i64((key_block + 1) * (by_queries() ? t_.panel : rows))},
                  {&out_, mul(value_panels_, rows * t_.panel)}};
  if (plan_.on_tiles)
    prepare_tiles(regions);
  else if (!by_queries() && !plan_.k_load)
    regions.emplace_back(&k_block_, mul(depth_, int64_t{t_.panel} * plan_.key_span));
  else if (!plan_.k_load)
    regions.emplace_back(&k_block_, mul(key_stride_, key_block));
  if (!plan_.v_load && !plan_.on_tiles)
    regions.emplace_back(&v_block_, k_.i64(key_block * t_.panel));
  place_regions(regions);
  int64_t columns = std::max<int64_t>(t_.panel, rows);
  max_ = k_.slot(k_.type_of(type_), "max", columns);
  sum_ = k_.slot(k_.type_of(type_), "sum", columns);
  shrink_ = k_.slot(k_.type_of(type_), "shrink", columns);
  square_ = k_.slot(k_.type_of(type_), "square", int64_t{t_.lanes} * t_.lanes);
  if (by_queries()) {
    find_turned();
  } else {
    tile_ = k_.slot(k_.type_of(type_), "tile", rows * t_.panel * plan_.key_span);
    largest_ = k_.slot(vector(), "largest");
    partials_ = k_.slot(k_.type_of(type_), "partials", partials_of(type_));
  }
  if (plan_.k_load) k_row_ = number(plan_.k_load->x_stride);
  if (plan_.v_load) v_row_ = number(plan_.v_load->x_stride);
  k_.root().seek();
}

void AttentionEmitter::emit_unit(Scope& scope, Value* unit) {
  scope.seek();
  Value* batch = div(unit, query_units_);
  Value* block = sub(unit, mul(batch, query_units_));
  std::vector<atlas::Axis> axes = a_.axes;
  if (plan_.shared > 1) {  // the last batch axis counts groups of heads
    Expr& heads = axes[static_cast<size_t>(a_.batch_rank - 1)].extent;
    heads = *heads.exact_div(Expr(plan_.shared));
  }
  set_batch_axes(scope, axes, a_.batch_rank, batch);
  if (plan_.shared > 1) {
    scope.seek();
    first_head_ = mul(sub(batch, mul(div(batch, k_.i64(groups())), groups())), plan_.shared);
    scope.set_axis(query_axis_ - 1, first_head_);
  }
  query_begin_ = mul(block, plan_.query_block);
  query_count_ = plan_.query_counts.size() == 1
                     ? static_cast<Value*>(k_.i64(plan_.query_counts[0]))
                     : least(sub(queries_, query_begin_), k_.i64(plan_.query_block));
  if (plan_.k_load) k_base_ = emit_expr(scope, plan_.k_load->base).v;
  if (plan_.v_load) v_base_ = emit_expr(scope, plan_.v_load->base).v;
  scope.seek();
  Value* key_end = keys_;
  Value* queries = !by_queries() ? queries_ : query_count_;
  if (a_.causal) key_end = least(keys_, add(query_begin_, queries));
  Value* key_start = k_.i64(0);
  // Whole blocks of keys that the mask hides from all queries of the unit are left out.
  if (plan_.bounds.first) {
    Value* first = number(plan_.bounds.first->offset);
    scope.seek();
    if (plan_.bounds.first->by_query) first = add(first, query_begin_);
    key_start = k_.ir.CreateAnd(most(first, k_.i64(0)), k_.i64(-key_block));
  }
  if (plan_.bounds.last) {
    Value* last = number(plan_.bounds.last->offset);
    scope.seek();
    if (plan_.bounds.last->by_query) last = add(last, add(query_begin_, sub(queries, k_.i64(1))));
    key_end = least(key_end, round_up(most(add(last, 1), k_.i64(0)), key_block));
  }
  clear(scope);
  if (plan_.on_tiles)
    for_query_panels(scope, [&](Scope& s) { pack_queries(s); });
  else
    pack_queries(scope);
  emit_loop(scope, key_start, key_end, k_.i64(key_block), false, [&](Scope& s, Value* key) {
    s.seek();
    key_begin_ = key;
    key_count_ = plan_.key_counts.size() == 1 ? static_cast<Value*>(k_.i64(plan_.key_counts[0]))
                                              : least(sub(key_end, key), k_.i64(key_block));
    if (plan_.on_tiles) return tile_block(s);
    if (by_queries()) {
      scores_by_queries(s);
    } else {
      plan_.k_load ? dots_in_place(s) : dots_of_panels(s);
      softmax_rows(s);
    }
    add_values(s);
  });
  if (plan_.on_tiles)
    return for_query_panels(scope, [&](Scope& s) {
      turn_columns(s);
      epilogue(s);
      log_sums(s);
    });
  epilogue(scope);
  log_sums(scope);
}

int64_t AttentionEmitter::groups() const {
  const Expr& heads = a_.axes[static_cast<size_t>(query_axis_ - 1)].extent;
  return heads.constant_value() / plan_.shared;
}

Value* AttentionEmitter::set_row(Scope& scope, Value* r) {
  if (plan_.shared == 1) {
    Value* query = add(query_begin_, r);
    scope.set_axis(query_axis_, query);
    return query;
  }
  Value* head = div(r, queries_);
  Value* query = sub(r, mul(head, queries_));
  scope.set_axis(query_axis_ - 1, add(first_head_, head));
  scope.set_axis(query_axis_, query);
  return query;
}

void AttentionEmitter::clear(Scope& scope) {
  scope.seek();
  Value* columns = k_.i64(std::max<int64_t>(t_.panel, plan_.query_block));
  fill(scope, max_, columns, lowest(vector()));
  fill(scope, sum_, columns, zero(vector()));
  fill(scope, shrink_, columns, zero(vector()));
  scope.seek();
  fill(scope, plan_.on_tiles ? columns_ : out_, mul(value_panels_, plan_.query_block * t_.panel),
       zero(vector()));
}

void AttentionEmitter::pack_queries(Scope& scope) {
  Run queries{query_axis_, query_begin_, query_count_}, depth{depth_axis_, k_.i64(0), depth_};
  if (!by_queries()) {
    emit_loop(scope, k_.i64(0), query_count_, k_.i64(1), true, [&](Scope& s, Value* i) {
      s.seek();
      set_row(s, i);
      operand(a_.q).gather(s, depth, at(q_, mul(i, key_stride_)));
    });
    return;
  }
  scope.seek();
  Value* partial = k_.ir.CreateICmpSLT(query_count_, k_.i64(t_.panel));
  emit_if(scope, partial, [&](Scope& s) {
    s.seek();
    fill(s, q_, mul(depth_, t_.panel), zero(vector()));
  });
  if (first_stride(a_.q, query_axis_) == 1 && first_stride(a_.q, depth_axis_) != 1) {
    emit_loop(scope, k_.i64(0), depth_, k_.i64(1), false, [&](Scope& s, Value* i) {
      s.seek();
      s.set_axis(depth_axis_, i);
      operand(a_.q).gather(s, queries, at(q_, mul(i, t_.panel)));
    });
  } else {
    operand(a_.q).transpose(scope, queries, depth, square_, q_, t_.panel);
  }
  if (plan_.on_tiles)
    fill(scope, at(q_, mul(depth_, t_.panel)),
         k_.i64((tile_depth() - plan_.depth.constant_value()) * t_.panel), zero(vector()));
  if (pairs()) pair_queries(scope);
}

Value* AttentionEmitter::update_maximum(Scope& scope, Value* index, Value* maximum,
                                        llvm::Type* type) {
  scope.seek();
  Value* p = at(max_, index);
  Value* old = k_.ir.CreateAlignedLoad(type, p, alignment());
  Value* now = larger(maximum, old);
  k_.ir.CreateAlignedStore(now, p, alignment());
  Value* finite = k_.ir.CreateSelect(k_.ir.CreateFCmpOEQ(now, lowest(type)), zero(type), now);
  bool varying = type->isVectorTy();
  Value* shrink = exponential(scope, exp_shrink_, {old, varying}, {finite, varying});
  k_.ir.CreateAlignedStore(shrink, at(shrink_, index), alignment());
  return finite;
}

void AttentionEmitter::scores_by_queries(Scope& scope) {
  plan_.on_tiles ? tile_scores(scope) : register_scores(scope);
  // A whole panel of queries at once: two chains of maxima and of sums.
  const int one = t_.lanes;
  bool single = fixed(query_count_).value_or(t_.panel) <= one;
  if (!single) t_.lanes = t_.panel;
  for_vectors(scope, query_count_, t_.lanes, [&](Scope& s, Value* offset, Value* mask) {
    s.seek();
    Value* query = add(query_begin_, offset);
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
    Value* first = add(k_base_, mul(key_begin_, k_row_));
    keys = {at(k_.buffer(plan_.k_load->buffer), first), k_row_, k_.i64(1)};
  } else {
    emit_loop(scope, k_.i64(0), key_count_, k_.i64(1), true, [&](Scope& s, Value* i) {
      s.seek();
      s.set_axis(key_axis_, add(key_begin_, i));
      operand(a_.k).gather(s, {depth_axis_, k_.i64(0), depth_}, at(k_block_, mul(i, key_stride_)));
    });
    keys = {k_block_, key_stride_, k_.i64(1)};
  }
  scope.seek();
  Value* depth = pairs() ? k_.i64(depth_pairs()) : depth_;
  multiply(scope, use_scores, key_count_, plan_.key_counts, key_block, keys,
           {q_, k_.i64(t_.panel), k_.i64(0), 1, type_}, depth, {scores_});
}

void AttentionEmitter::softmax_columns(Scope& scope, Value* offset, Value* last_key) {
  auto place = [&](Value* i) { return at(scores_, add(mul(i, t_.panel), offset)); };
  Value* largest =
      for_keys(scope, offset, lowest(vector()), [&](Scope& s, Value* i, Value* carried) -> Value* {
        s.seek();
        Value* key = add(key_begin_, i);
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
  Value* start = k_.ir.CreateFMul(load(at(sum_, offset)), load(at(shrink_, offset)));
  if (pairs()) return store(paired_exponentials(scope, offset, maximum, start), at(sum_, offset));
  Value* total =
      emit_loop(scope, k_.i64(0), key_count_, k_.i64(1), true, {start},
                [&](Scope& s, Value* i, std::vector<Value*> carried) -> std::vector<Value*> {
                  s.seek();
                  Value* p = exponential(s, exp_score_, {load(place(i)), true}, {maximum, true});
                  store(p, place(i));
                  return {k_.ir.CreateFAdd(carried[0], p)};
                })[0];
  scope.seek();
  store(total, at(sum_, offset));
}

void AttentionEmitter::add_values(Scope& scope) {
  Matrix p = by_queries() ? Matrix{scores_, k_.i64(1), k_.i64(t_.panel)}
                          : Matrix{scores_, k_.i64(key_block), k_.i64(1)};
  Value* base = v_block_;
  DType storage = plan_.v_load ? a_.operand_type : type_;
  // Where any number of queries may come, half a block or a whole one is computed.
  Value* rows = query_count_;
  std::vector<int64_t> counts = plan_.query_counts;
  if (counts.empty()) {
    scope.seek();
    int64_t half = plan_.query_block / 2;
    rows = k_.ir.CreateSelect(k_.ir.CreateICmpSLE(query_count_, k_.i64(half)), k_.i64(half),
                              k_.i64(2 * half));
    counts = {half, 2 * half};
  }
  if (plan_.v_load) {
    scope.seek();
    base = element(k_, storage, k_.buffer(plan_.v_load->buffer),
                   add(v_base_, mul(key_begin_, v_row_)));
  }
  auto panels = [&](Scope& s, Value* panel, int vectors) {
    s.seek();
    Value* column = mul(panel, t_.panel);
    Panels v{};
    if (pairs()) {
      pair_values(s, column);
      v = {v_block_, k_.i64(t_.panel), k_.i64(0), 1, type_};
    } else if (plan_.v_load) {
      v = {element(k_, storage, base, column), v_row_, k_.i64(t_.panel), plan_.value_span, storage};
    } else {
      Value* count = least(sub(values_, column), k_.i64(t_.panel));
      emit_loop(s, k_.i64(0), key_count_, k_.i64(1), true, [&](Scope& inner, Value* i) {
        inner.seek();
        inner.set_axis(key_axis_, add(key_begin_, i));
        operand(a_.v).gather(inner, {value_axis_, column, count}, at(v_block_, mul(i, t_.panel)));
      });
      v = {v_block_, k_.i64(t_.panel), k_.i64(0), 1, type_};
    }
    v.vectors = vectors;
    s.seek();
    Value* depth = pairs() ? key_pairs() : key_count_;
    multiply_add(s, use_values, rows, counts, p, v, depth,
                 {at(out_, mul(column, plan_.query_block))}, shrink_);
  };
  if (plan_.value_span == 1) return for_panels(scope, values_, panels);
  emit_loop(scope, k_.i64(0), value_panels_, k_.i64(plan_.value_span), true,
            [&](Scope& s, Value* panel) { panels(s, panel, 0); });
}

void AttentionEmitter::epilogue(Scope& scope) {
  for_vectors(scope, values_, t_.lanes, [&](Scope& s, Value* offset, Value* mask) {
    s.seek();
    s.set_axis(value_axis_, offset);
    s.set_lanes(value_axis_, t_.lanes, mask);
    int64_t width = int64_t{t_.panel} * plan_.value_span;
    Value* group = k_.ir.CreateUDiv(offset, k_.i64(width));
    Value* column = sub(offset, mul(group, width));
    Value* first = add(mul(group, plan_.query_block * width), column);
    emit_loop(s, k_.i64(0), query_count_, k_.i64(1), true, [&](Scope& row, Value* r) {
      row.seek();
      set_row(row, r);
      Value* sum = spread(load_one(at(sum_, r)));
      Value* v = k_.ir.CreateFDiv(load(at(out_, add(first, mul(r, width)))), sum);
      v = k_.ir.CreateSelect(k_.ir.CreateFCmpOEQ(sum, zero(vector())), zero(vector()), v);
      row.set_accumulator(0, {v, true});
      emit_body(row, a_.epilogue);
    });
  });
}

void AttentionEmitter::log_sums(Scope& scope) {
  if (a_.lse.instrs.empty()) return;
  if (!by_queries())
    return emit_loop(scope, k_.i64(0), query_count_, k_.i64(1), true, [&](Scope& s, Value* r) {
      s.seek();
      set_row(s, r);
      LaneValue max{load_one(at(max_, r)), false}, sum{load_one(at(sum_, r)), false};
      s.set_accumulator(0, {combine(s, log_sum_, max, sum), false});
      emit_body(s, a_.lse);
    });
  for_vectors(scope, query_count_, t_.lanes, [&](Scope& s, Value* offset, Value* mask) {
    s.seek();
    s.set_axis(query_axis_, add(query_begin_, offset));
    s.set_lanes(query_axis_, t_.lanes, mask);
    Value* v = combine(s, log_sum_, {load(at(max_, offset)), true}, {load(at(sum_, offset)), true});
    s.set_accumulator(0, {v, true});
    emit_body(s, a_.lse);
  });
}

void emit(CpuFunction& k, const AttentionPlan& plan) { AttentionEmitter(k, plan).run(); }

}  // namespace hologram::cpu
