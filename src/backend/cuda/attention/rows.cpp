// backend/cuda/attention/rows.cpp: rows and keys of a CTA, scores, results and parts.
#include "backend/cuda/attention/rows.h"

#include "atlas/builder.h"
#include "atlas/math.h"
#include "backend/cuda/loops/points.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

namespace Intrinsic = llvm::Intrinsic;

// exp(accumulator 0 - accumulator 1)
atlas::Body exp_of_difference(DType type) {
  atlas::Body body;
  atlas::BodyBuilder b(body);
  const atlas::Val x = b.sub(b.accumulator(0, type), b.accumulator(1, type));
  b.finish(atlas::emit_math(b, ir::Op::exp, std::array{x}));
  return body;
}

// accumulator 0 + log(accumulator 1)
atlas::Body log_of_sum(DType type) {
  atlas::Body body;
  atlas::BodyBuilder b(body);
  const atlas::Val sum = b.accumulator(1, type);
  b.finish(b.add(b.accumulator(0, type), atlas::emit_math(b, ir::Op::log, std::array{sum})));
  return body;
}

}  // namespace

AttentionRows::AttentionRows(CudaFunction& k, const AttentionPlan& plan, int threads, Scope& outer,
                             Value* cta, bool row_each)
    : Operands(k, threads),
      k_(k),
      ir_(k.ir),
      plan_(plan),
      a_(k.program.attention()),
      threads_(threads),
      query_axis_(a_.batch_rank),
      key_axis_(query_axis_ + 1),
      type_(k.type_of(plan.type)),
      exp_(exp_of_difference(plan.type)),
      log_sum_(log_of_sum(plan.type)),
      scope_(outer, false),
      thread_(k.thread()) {
  scope_.seek();
  if (row_each) {
    Value* rows = number(facts_of(plan, threads).merges);
    row_ = ir_.CreateURem(cta, rows);
    cta = ir_.CreateUDiv(cta, rows);
  } else if (!plan.parts.is(0)) {
    Value* parts = ir_.CreateTrunc(k.teams(), ir_.getInt32Ty());
    part_ = wide(ir_.CreateURem(cta, parts));
    cta = ir_.CreateUDiv(cta, parts);
  }
  Value* rest = unit_ = wide(cta);
  panel_ = take_last(scope_, rest, plan.panels);
  Value* tile = k.i64(0);
  if (!plan.few()) {
    tile = take_last(scope_, rest, plan.row_tiles);
    // The last queries see most keys: they begin first.
    if (a_.causal) tile = ir_.CreateSub(ir_.CreateSub(value(plan.row_tiles), k.i64(1)), tile);
  }
  std::vector<atlas::Axis> axes = a_.axes;
  if (plan.heads > 1) {  // the last batch axis counts groups of heads
    Expr& heads = axes[static_cast<size_t>(query_axis_ - 1)].extent;
    heads = Expr(heads.constant_value() / plan.heads);
    Value* groups = value(heads);
    first_head_ = ir_.CreateMul(ir_.CreateURem(rest, groups), k.i64(plan.heads));
  }
  fix_axes(scope_, axes, 0, a_.batch_rank, rest);
  if (first_head_) scope_.set_axis(query_axis_ - 1, first_head_);
  scope_.seek();
  queries_ = value(plan.queries);
  Value *all_keys = value(plan.keys), *depth = value(plan.depth), *columns = value(plan.values);
  first_column_ = ir_.CreateMul(panel_, k.i64(plan.columns));
  const int depth_axis = key_axis_ + 1, value_axis = key_axis_ + 2;
  q_ = {&a_.q,
        query_axis_,
        depth_axis,
        a_.operand_type,
        ir_.CreateMul(tile, k.i64(plan.rows)),
        queries_,
        depth,
        runs_along(a_.q, query_axis_, depth_axis)};
  if (plan.heads > 1) {
    q_.count = ir_.CreateMul(queries_, k.i64(plan.heads));
    q_.depth_run = true;
    q_.place = [this](Scope& scope, Value* x) {
      scope.set_axis(query_axis_ - 1, ir_.CreateAdd(first_head_, ir_.CreateUDiv(x, queries_)));
      scope.set_axis(query_axis_, ir_.CreateURem(x, queries_));
    };
  }
  k_factor_ = {&a_.k,    key_axis_, depth_axis, a_.operand_type,
               k.i64(0), all_keys,  depth,      runs_along(a_.k, key_axis_, depth_axis)};
  v_ = {&a_.v,         value_axis, key_axis_, a_.operand_type,
        first_column_, columns,    all_keys,  runs_along(a_.v, value_axis, key_axis_)};
  find_keys();
}

Value* AttentionRows::value(const Expr& e) {
  Value* v = emit_expr(scope_, e).v;
  scope_.seek();
  return v;
}

void AttentionRows::find_keys() {
  auto least = [&](Value* x, Value* y) { return ir_.CreateBinaryIntrinsic(Intrinsic::smin, x, y); };
  auto most = [&](Value* x, Value* y) { return ir_.CreateBinaryIntrinsic(Intrinsic::smax, x, y); };
  Value *one = k_.i64(1), *zero = k_.i64(0), *block = k_.i64(plan_.key_block);
  Value *first_query = zero, *behind = queries_;
  if (!plan_.few()) {
    first_query = q_.first;
    behind = least(queries_, ir_.CreateAdd(first_query, k_.i64(plan_.rows)));
  }
  Value *begin = zero, *end = k_factor_.count;
  if (a_.causal) end = least(end, behind);
  if (plan_.bounds.first) {
    begin = value(plan_.bounds.first->offset);
    if (plan_.bounds.first->by_query) begin = ir_.CreateAdd(begin, first_query);
    begin = ir_.CreateAnd(most(begin, zero), ir_.CreateNeg(block));
  }
  if (plan_.bounds.last) {
    Value* last = value(plan_.bounds.last->offset);
    if (plan_.bounds.last->by_query) last = ir_.CreateAdd(last, ir_.CreateSub(behind, one));
    end = least(end, most(ir_.CreateAdd(last, one), zero));
  }
  if (part_) {
    Value* span = most(ir_.CreateSub(end, begin), zero);
    Value* blocks = ir_.CreateUDiv(ir_.CreateAdd(span, k_.i64(plan_.key_block - 1)), block);
    auto cut = [&](Value* part) {
      Value* before = ir_.CreateUDiv(ir_.CreateMul(part, blocks), k_.teams());
      return ir_.CreateAdd(begin, ir_.CreateMul(before, block));
    };
    end = least(end, cut(ir_.CreateAdd(part_, one)));
    begin = cut(part_);
  }
  key_begin_ = begin;
  key_end_ = v_.depth = end;
}

Value* AttentionRows::exists(Value* row) {
  return ir_.CreateICmpSLT(ir_.CreateAdd(q_.first, wide(row)), q_.count);
}

Value* AttentionRows::set_row(Scope& scope, Value* r) {
  Value* last = ir_.CreateSub(q_.count, k_.i64(1));
  Value* x = ir_.CreateBinaryIntrinsic(Intrinsic::smin, ir_.CreateAdd(q_.first, wide(r)), last);
  if (!q_.place) {
    scope.set_axis(query_axis_, x);
    return x;
  }
  q_.place(scope, x);
  return ir_.CreateURem(x, queries_);
}

Value* AttentionRows::score(Scope& row, Value* query, Value* key, Value* sum) {
  row.seek();
  Value* x = sum;
  if (a_.scale != 1) x = ir_.CreateFMul(x, llvm::ConstantFP::get(type_, a_.scale));
  if (!a_.score.instrs.empty()) {
    Scope one(row, false);
    Value* last = ir_.CreateSub(k_factor_.count, k_.i64(1));
    one.set_axis(key_axis_, ir_.CreateBinaryIntrinsic(Intrinsic::smin, key, last));
    one.set_accumulator(0, {x, false});
    x = emit_body(one, a_.score).back().v;
    one.seek();
    row.move_to(ir_.GetInsertBlock());
  }
  Value* seen = ir_.CreateICmpSLT(key, key_end_);
  if (a_.causal) seen = ir_.CreateAnd(seen, ir_.CreateICmpSLE(key, query));
  return ir_.CreateSelect(seen, x, lowest());
}

Value* AttentionRows::exponential(Scope& at, Value* x, Value* largest) {
  Scope one(at, false);
  one.set_accumulator(0, {x, false});
  one.set_accumulator(1, {largest, false});
  Value* v = emit_body(one, exp_).back().v;
  one.seek();
  at.move_to(ir_.GetInsertBlock());
  return v;
}

Value* AttentionRows::finite(Value* maximum) {
  return ir_.CreateSelect(ir_.CreateFCmpOEQ(maximum, lowest()), zero(), maximum);
}

void AttentionRows::emit_point(Scope& point, Value* row, Value* column, const Results& results) {
  point.seek();
  set_row(point, row);
  point.set_axis(key_axis_ + 2, ir_.CreateAdd(first_column_, wide(column)));
  Value* total = results.total(row);
  Value* v = ir_.CreateFDiv(results.sum(row, column), total);
  v = ir_.CreateSelect(ir_.CreateFCmpOEQ(total, zero()), zero(), v);
  point.move_to(ir_.GetInsertBlock());
  point.set_accumulator(0, {v, false});
  emit_body(point, a_.epilogue);
}

void AttentionRows::emit_log_sum(Scope& point, Value* row, const Results& results) {
  point.seek();
  Value *maximum = results.maximum(row), *total = results.total(row);
  store_log_sum(point, row, maximum, total);
}

void AttentionRows::store_log_sum(Scope& point, Value* row, Value* maximum, Value* total) {
  if (a_.lse.instrs.empty()) return;
  point.seek();
  set_row(point, row);
  Scope one(point, false);
  one.set_accumulator(0, {maximum, false});
  one.set_accumulator(1, {total, false});
  Value* v = emit_body(one, log_sum_).back().v;
  one.seek();
  point.move_to(ir_.GetInsertBlock());
  point.set_accumulator(0, {v, false});
  emit_body(point, a_.lse);
}

void AttentionRows::finish(const Results& results, int first, int count) {
  auto store = [&](Scope& whole) {
    whole.seek();
    emit_loop(whole, thread_, number(count * plan_.columns), number(threads_), false,
              [&](Scope& round, Value* e) {
                Value* row = ir_.CreateAdd(ir_.CreateUDiv(e, number(plan_.columns)), number(first));
                Value* column = ir_.CreateURem(e, number(plan_.columns));
                Value* inside =
                    ir_.CreateICmpSLT(ir_.CreateAdd(first_column_, wide(column)), v_.count);
                emit_if(round, ir_.CreateAnd(exists(row), inside),
                        [&](Scope& point) { emit_point(point, row, column, results); });
              });
    if (a_.lse.instrs.empty()) return;
    whole.seek();
    Value* row = ir_.CreateAdd(thread_, number(first));
    Value* has = ir_.CreateAnd(ir_.CreateICmpULT(thread_, number(count)), exists(row));
    has = ir_.CreateAnd(has, ir_.CreateICmpEQ(panel_, k_.i64(0)));
    emit_if(whole, has, [&](Scope& point) { emit_log_sum(point, row, results); });
  };
  scope_.seek();
  if (!part_) return store(scope_);
  Value* alone = ir_.CreateICmpEQ(k_.teams(), k_.i64(1));
  emit_if(scope_, alone, store);
  scope_.seek();
  emit_if(scope_, ir_.CreateNot(alone), [&](Scope& at) { leave_part(at, results, first, count); });
  scope_.seek();
}

void AttentionRows::leave_part(Scope& at, const Results& results, int first, int count) {
  at.seek();
  Value* memory = k_.workspace(wide(k_.cta()));
  const int values = plan_.rows * plan_.columns;
  auto place = [&](Value* n) { return ir_.CreateGEP(type_, memory, n); };
  emit_loop(at, thread_, number(count * plan_.columns), number(threads_), false,
            [&](Scope& round, Value* e) {
              round.seek();
              Value* row = ir_.CreateAdd(ir_.CreateUDiv(e, number(plan_.columns)), number(first));
              Value* column = ir_.CreateURem(e, number(plan_.columns));
              Value* to = ir_.CreateAdd(ir_.CreateMul(row, number(plan_.columns)), column);
              ir_.CreateStore(results.sum(row, column), place(to));
            });
  at.seek();
  emit_if(at, ir_.CreateICmpULT(thread_, number(count)), [&](Scope& some) {
    some.seek();
    Value* row = ir_.CreateAdd(thread_, number(first));
    ir_.CreateStore(results.maximum(row), place(ir_.CreateAdd(row, number(values))));
    ir_.CreateStore(results.total(row), place(ir_.CreateAdd(row, number(values + plan_.rows))));
  });
}

void AttentionRows::finish_row(const Results& results) {
  scope_.seek();
  emit_loop(
      scope_, thread_, number(plan_.columns), number(threads_), false,
      [&](Scope& round, Value* column) {
        Value* inside = ir_.CreateICmpSLT(ir_.CreateAdd(first_column_, wide(column)), v_.count);
        emit_if(round, inside, [&](Scope& point) { emit_point(point, row_, column, results); });
      });
  scope_.seek();
  if (a_.lse.instrs.empty()) return;
  Value* has =
      ir_.CreateAnd(ir_.CreateICmpEQ(thread_, number(0)), ir_.CreateICmpEQ(panel_, k_.i64(0)));
  emit_if(scope_, has, [&](Scope& point) { emit_log_sum(point, row_, results); });
  scope_.seek();
}

}  // namespace hologram::cuda
