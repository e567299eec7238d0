// backend/cuda/attention_grad/tile.cpp: rows and rounds of a CTA, weights of scores, results.
#include "backend/cuda/attention_grad/tile.h"

#include "atlas/builder.h"
#include "atlas/math.h"
#include "backend/cuda/loops/points.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

// exp(accumulator 0 - accumulator 1)
atlas::Body probability(DType type) {
  atlas::Body body;
  atlas::BodyBuilder b(body);
  const atlas::Val x = b.sub(b.accumulator(0, type), b.accumulator(1, type));
  b.finish(atlas::emit_math(b, ir::Op::exp, std::array{x}));
  return body;
}

}  // namespace

GradTile::GradTile(CudaFunction& k, const AttentionGradPlan& plan, int threads, Scope& outer,
                   Value* unit, GradShare share, Value* numbers)
    : Operands(k, threads),
      k_(k),
      ir_(k.ir),
      plan_(plan),
      a_(k.program.attention_grad()),
      share_(share),
      threads_(threads),
      member_axis_(a_.batch_rank),
      query_axis_(member_axis_ + 1),
      key_axis_(query_axis_ + 1),
      depth_axis_(key_axis_ + 1),
      type_(k.type_of(plan.type)),
      exp_(probability(plan.type)),
      scope_(outer, false),
      lse_(numbers) {
  scope_.seek();
  delta_ =
      ir_.CreateConstGEP1_32(type_, numbers, static_cast<unsigned>(GradTile::numbers(plan) / 2));
  Value* panel = take_last(scope_, unit, plan.panels(share));
  Value* tile = take_last(scope_, unit, plan.tiles(share));
  // Those that sum most begin first: of a causal block the first keys and the last queries.
  if (sums_keys()) {
    if (a_.causal) tile = ir_.CreateSub(ir_.CreateSub(value(plan.tiles(share)), k.i64(1)), tile);
    scope_.set_axis(member_axis_, take_last(scope_, unit, plan.members));
  }
  fix_axes(scope_, a_.axes, 0, a_.batch_rank, unit);
  scope_.seek();
  first_column_ = ir_.CreateMul(panel, k.i64(plan.columns));
  extents_[0] = value(plan.depth);
  extents_[1] = value(plan.width);
  Value *queries = value(plan.queries), *keys = value(plan.keys);
  const Factor of_queries[] = {factor(a_.q, query_axis_, queries, depth_axis_),
                               factor(a_.g, query_axis_, queries, depth_axis_ + 1)};
  const Factor of_keys[] = {factor(a_.k, key_axis_, keys, depth_axis_),
                            factor(a_.v, key_axis_, keys, depth_axis_ + 1)};
  for (int n = 0; n < 2; ++n) {
    rows_[n] = sums_keys() ? of_queries[n] : of_keys[n];
    steps_[n] = sums_keys() ? of_keys[n] : of_queries[n];
    rows_[n].first = ir_.CreateMul(tile, k.i64(plan.rows));
  }
  find_rounds();
}

Value* GradTile::value(const Expr& e) {
  Value* v = emit_expr(scope_, e).v;
  scope_.seek();
  return v;
}

Value* GradTile::run(Scope& at, const atlas::Body& body) {
  Value* v = emit_body(at, body).back().v;
  at.seek();
  return v;
}

Factor GradTile::factor(const atlas::Body& body, int axis, Value* count, int depth_axis) const {
  return {&body,
          axis,
          depth_axis,
          a_.operand_type,
          k_.i64(0),
          count,
          extents_[depth_axis - depth_axis_],
          runs_along(body, axis, depth_axis)};
}

Factor GradTile::steps(int operand, Value* first) const {
  Factor f = steps_[operand];
  f.first = first;
  return f;
}

Factor GradTile::columns(int operand) const {
  const Factor& s = steps_[operand];
  return {s.body, s.depth_axis, s.axis, s.type, first_column_, s.depth, s.count, !s.depth_run};
}

// Keys that the CTA's queries may see.
void GradTile::find_keys(Value*& begin, Value*& end) {
  auto least = [&](Value* x, Value* y) {
    return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
  };
  Value *one = k_.i64(1), *zero = k_.i64(0), *first = rows_[0].first;
  Value* behind = least(rows_[0].count, ir_.CreateAdd(first, k_.i64(plan_.rows)));
  if (a_.causal) end = least(end, behind);
  if (const auto& bound = plan_.bounds.first) {
    Value* offset = value(bound->offset);
    if (bound->by_query) offset = ir_.CreateAdd(offset, first);
    begin = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, offset, zero);
  }
  if (const auto& bound = plan_.bounds.last) {
    Value* last = value(bound->offset);
    if (bound->by_query) last = ir_.CreateAdd(last, ir_.CreateSub(behind, one));
    end = least(end, ir_.CreateAdd(last, one));
  }
}

// Queries that may see one of the CTA's keys: key <= query, key <= query + offset or key <= offset,
// and likewise from below.
void GradTile::find_queries(Value*& begin, Value*& end) {
  auto most = [&](Value* x, Value* y) {
    return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y);
  };
  auto least = [&](Value* x, Value* y) {
    return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
  };
  Value *one = k_.i64(1), *zero = k_.i64(0), *first = rows_[0].first;
  Value* behind = least(rows_[0].count, ir_.CreateAdd(first, k_.i64(plan_.rows)));
  if (a_.causal) begin = most(begin, first);
  if (const auto& bound = plan_.bounds.last) {
    Value* offset = value(bound->offset);
    if (bound->by_query)
      begin = most(begin, ir_.CreateSub(first, offset));
    else
      end = ir_.CreateSelect(ir_.CreateICmpSGT(first, offset), zero, end);
  }
  if (const auto& bound = plan_.bounds.first) {
    Value *offset = value(bound->offset), *last = ir_.CreateSub(behind, one);
    if (bound->by_query)
      end = least(end, ir_.CreateSub(behind, offset));
    else
      end = ir_.CreateSelect(ir_.CreateICmpSLT(last, offset), zero, end);
  }
}

void GradTile::find_rounds() {
  Value *begin = k_.i64(0), *end = steps_[0].count, *steps = k_.i64(plan_.steps);
  sums_keys() ? find_keys(begin, end) : find_queries(begin, end);
  begin_ = ir_.CreateAnd(begin, ir_.CreateNeg(steps));
  Value* span = ir_.CreateSub(end, begin_);
  span = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, span, k_.i64(0));
  blocks_ = rounds_ = ir_.CreateUDiv(ir_.CreateAdd(span, ir_.CreateSub(steps, k_.i64(1))), steps);
  if (!sums_keys()) rounds_ = ir_.CreateMul(blocks_, value(plan_.members));
}

Value* GradTile::begin_round(Scope& at, Value* n) {
  at.seek();
  Value* block = n;
  if (!sums_keys()) {
    const bool alone = plan_.members.is(1);
    Value* member = alone ? k_.i64(0) : ir_.CreateUDiv(n, blocks_);
    if (!alone) block = ir_.CreateSub(n, ir_.CreateMul(member, blocks_));
    at.set_axis(member_axis_, member);
  }
  return ir_.CreateAdd(begin_, ir_.CreateMul(block, k_.i64(plan_.steps)));
}

GradTile::Query GradTile::load_query(Scope& at, Value* first, int count) {
  at.seek();
  Value* last = ir_.CreateSub((sums_keys() ? rows_ : steps_)[0].count, k_.i64(1));
  Value* mine = ir_.CreateAdd(first, wide(ir_.CreateAnd(k_.thread(), number(count - 1))));
  Scope one(at, false);
  one.set_axis(query_axis_, ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, mine, last));
  Query query;
  query.lse = run(one, a_.lse);
  query.delta = run(one, a_.delta);
  at.move_to(ir_.GetInsertBlock());
  return query;
}

void GradTile::write_query(Scope& at, const Query& query, int count) {
  emit_if(at, ir_.CreateICmpULT(k_.thread(), number(count)), [&](Scope& some) {
    some.seek();
    ir_.CreateStore(query.lse, ir_.CreateGEP(type_, lse_, k_.thread()));
    ir_.CreateStore(query.delta, ir_.CreateGEP(type_, delta_, k_.thread()));
  });
  at.seek();
}

void GradTile::keep_rows(Scope& at) {
  if (!sums_keys()) return;
  write_query(at, load_query(at, rows_[0].first, plan_.rows), plan_.rows);
}

GradTile::Weights GradTile::weigh(Scope& at, Value* row, Value* step, Value* first, Value* product,
                                  Value* gradient) {
  at.seek();
  auto within = [&](Value* x, Value* count) {
    Value* last = ir_.CreateSub(count, k_.i64(1));
    return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, last);
  };
  Value* of_row = within(ir_.CreateAdd(rows_[0].first, wide(row)), rows_[0].count);
  Value* of_step = ir_.CreateAdd(first, wide(step));
  Value* seen = ir_.CreateICmpSLT(of_step, steps_[0].count);
  of_step = within(of_step, steps_[0].count);
  Value *query = sums_keys() ? of_row : of_step, *key = sums_keys() ? of_step : of_row;
  Value* number_of_query = sums_keys() ? row : step;
  Value* lse = ir_.CreateLoad(type_, ir_.CreateGEP(type_, lse_, number_of_query));
  Value* delta = ir_.CreateLoad(type_, ir_.CreateGEP(type_, delta_, number_of_query));
  if (a_.causal) seen = ir_.CreateAnd(seen, ir_.CreateICmpSLE(key, query));
  llvm::Constant *zero = llvm::Constant::getNullValue(type_),
                 *scale = llvm::ConstantFP::get(type_, a_.scale);
  Value *x = ir_.CreateFMul(product, scale), *y = x;
  Scope one(at, false);
  one.set_axis(query_axis_, query);
  one.set_axis(key_axis_, key);
  one.set_accumulator(0, {x, false});
  if (!a_.score.instrs.empty()) y = run(one, a_.score);
  Value* slope = a_.slope.instrs.empty() ? nullptr : run(one, a_.slope);
  Scope power(one, false);
  power.set_accumulator(0, {y, false});
  power.set_accumulator(1, {lse, false});
  Weights out;
  out.p = run(power, exp_);
  Value* none = ir_.CreateFCmpOEQ(lse, llvm::ConstantFP::getInfinity(type_, true));
  out.p = ir_.CreateSelect(ir_.CreateAnd(seen, ir_.CreateNot(none)), out.p, zero);
  out.s = ir_.CreateFMul(ir_.CreateFSub(gradient, delta), out.p);
  if (slope) out.s = ir_.CreateFMul(out.s, slope);
  // Of a step that is not there the gradient is anything.
  out.s = ir_.CreateSelect(seen, ir_.CreateFMul(out.s, scale), zero);
  at.move_to(ir_.GetInsertBlock());
  return out;
}

std::vector<GradTile::Result> GradTile::results() const {
  std::vector<Result> out;
  if (sums_keys()) return {{&a_.dq, false, 0}};
  if (!a_.dk.instrs.empty()) out.push_back({&a_.dk, false, 0});
  if (!a_.dv.instrs.empty()) out.push_back({&a_.dv, true, 1});
  return out;
}

void GradTile::store(const Result& result, int count,
                     const std::function<Value*(Value* row, Value* column)>& sum) {
  scope_.seek();
  Value* columns = number(count);
  emit_loop(scope_, k_.thread(), number(plan_.rows * count), number(threads_), false,
            [&](Scope& round, Value* e) {
              round.seek();
              Value *row = ir_.CreateUDiv(e, columns), *column = ir_.CreateURem(e, columns);
              Value* x = ir_.CreateAdd(rows_[0].first, wide(row));
              Value* d = ir_.CreateAdd(first_column_, wide(column));
              Value* exists = ir_.CreateAnd(ir_.CreateICmpSLT(x, rows_[0].count),
                                            ir_.CreateICmpSLT(d, extents_[result.operand]));
              emit_if(round, exists, [&](Scope& point) {
                point.seek();
                point.set_axis(rows_[0].axis, x);
                point.set_axis(depth_axis_ + result.operand, d);
                point.set_accumulator(0, {sum(row, column), false});
                emit_body(point, *result.body);
              });
            });
  scope_.seek();
}

}  // namespace hologram::cuda
