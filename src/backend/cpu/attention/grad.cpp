// backend/cpu/attention/grad.cpp: gradients of attention from the log-sum-exp of its scores.
//
// A unit visits tiles of 48 queries and 128 keys, keys outside: scores = q k^T and g v^T into two
// tiles, from them the probabilities p and the scores' gradients s, then dv += p^T g, dk += s^T q
// and dq += s k. All three sums run over their terms one by one in ascending order, whatever the
// tiles and whichever of them the unit has. Operands are copied into blocks of memory, so that any
// strides, types and sizes take one path.
#include "backend/cpu/attention/grad.h"

#include <limits>

#include "backend/cpu/attention/score_blocks.h"
#include "codegen/nest.h"

namespace hologram::cpu {
namespace {

class GradEmitter : ScoreBlocks {
 public:
  GradEmitter(CpuFunction& kernel, const AttentionGradPlan& plan)
      : ScoreBlocks(kernel, plan.tile, plan.type),
        a_(kernel.program.attention_grad()),
        plan_(plan),
        member_axis_(a_.batch_rank),
        query_axis_(member_axis_ + 1),
        key_axis_(member_axis_ + 2),
        depth_axis_(member_axis_ + 3),
        width_axis_(member_axis_ + 4),
        exp_(exp_of_difference(k_.target, type_)) {}

  void run() {
    if (plan_.units.is(0)) return k_.finish();
    prepare();
    emit_loop(k_.root(), k_.begin, k_.end, k_.i64(1), true,
              [&](Scope& scope, Value* unit) { emit_unit(scope, unit); });
    k_.root().seek();
    k_.finish();
  }

 private:
  enum Use { use_scores, use_values, use_dv, use_dk, use_dq };

  bool wants_dq() const { return !a_.dq.instrs.empty(); }
  bool wants_dk() const { return !a_.dk.instrs.empty(); }
  bool wants_dv() const { return !a_.dv.instrs.empty(); }
  // The keys' gradients are complete behind a block of keys: no other member adds to them.
  bool complete_by_block() const { return plan_.members.is(1); }

  void prepare() {
    members_ = number(plan_.members);
    queries_ = number(plan_.queries);
    keys_ = number(plan_.keys);
    depth_ = number(plan_.depth);
    width_ = number(plan_.width);
    parts_ = number(plan_.parts);
    k_.root().seek();
    depth_panels_ = div(add(depth_, t_.panel - 1), k_.i64(t_.panel));
    width_panels_ = div(add(width_, t_.panel - 1), k_.i64(t_.panel));
    q_row_ = add(mul(depth_panels_, t_.panel), t_.lanes);
    g_row_ = add(mul(width_panels_, t_.panel), t_.lanes);
    // Tiles of unknown sizes compute whole blocks.
    dq_rows_ = plan_.share == GradShare::queries ? k_.i64(plan_.share_block)
                                                 : add(queries_, plan_.query_block);
    bool block = complete_by_block() || plan_.share == GradShare::keys;
    dk_rows_ = block ? static_cast<Value*>(k_.i64(key_block)) : add(keys_, key_block);
    Value *depths = mul(depth_panels_, t_.panel), *widths = mul(width_panels_, t_.panel);
    Regions regions{{&kt_, mul(depth_, key_block)},
                    {&vt_, mul(width_, key_block)},
                    {&k_rows_, mul(q_row_, key_block)},
                    {&q_, mul(q_row_, plan_.query_block)},
                    {&g_, mul(g_row_, plan_.query_block)},
                    {&p_, k_.i64(plan_.query_block * key_block)},
                    {&s_, k_.i64(plan_.query_block * key_block)}};
    if (wants_dq()) regions.emplace_back(&dq_, mul(depths, dq_rows_));
    if (wants_dk()) regions.emplace_back(&dk_, mul(depths, dk_rows_));
    if (wants_dv()) regions.emplace_back(&dv_, mul(widths, dk_rows_));
    place_regions(regions);
    int64_t rows = plan_.query_block + t_.lanes;
    lse_ = k_.slot(k_.type_of(type_), "lse", rows);
    delta_ = k_.slot(k_.type_of(type_), "delta", rows);
    ones_ = k_.slot(k_.type_of(type_), "ones", key_block);
    square_ = k_.slot(k_.type_of(type_), "square", int64_t{t_.lanes} * t_.lanes);
    fill(k_.root(), ones_, k_.i64(key_block), llvm::ConstantFP::get(vector(), 1.0));
    k_.root().seek();
  }

  void emit_unit(Scope& scope, Value* unit) {
    scope.seek();
    Value* batch = div(unit, parts_);
    Value* part = mul(sub(unit, mul(batch, parts_)), plan_.share_block);
    set_batch_axes(scope, a_.axes, a_.batch_rank, batch);
    scope.seek();
    first_key_ = first_query_ = k_.i64(0);
    end_key_ = keys_;
    end_query_ = queries_;
    if (plan_.share == GradShare::keys) {
      first_key_ = part;
      end_key_ = least(keys_, add(part, plan_.share_block));
    } else if (plan_.share == GradShare::queries) {
      first_query_ = part;
      end_query_ = least(queries_, add(part, plan_.share_block));
    }
    if (!complete_by_block()) clear_keys(scope);
    emit_loop(scope, k_.i64(0), members_, k_.i64(1), true,
              [&](Scope& s, Value* member) { emit_member(s, member); });
    if (!complete_by_block()) store_keys(scope, first_key_, sub(end_key_, first_key_));
  }

  void emit_member(Scope& scope, Value* member) {
    scope.seek();
    scope.set_axis(member_axis_, member);
    if (wants_dq()) fill(scope, dq_, mul(mul(depth_panels_, t_.panel), dq_rows_), zero(vector()));
    emit_loop(scope, first_key_, end_key_, k_.i64(key_block), false, [&](Scope& s, Value* key) {
      s.seek();
      key_begin_ = key;
      key_count_ = one_of(plan_.key_counts, sub(keys_, key), key_block);
      emit_keys(s);
    });
    if (wants_dq())
      store_rows(scope, a_.dq, dq_, dq_rows_, query_axis_, first_query_,
                 sub(end_query_, first_query_), depth_axis_, depth_);
  }

  // The size of a block that begins `left` before the end.
  Value* one_of(const std::vector<int64_t>& counts, Value* left, int64_t block) {
    return counts.size() == 1 ? static_cast<Value*>(k_.i64(counts[0])) : least(left, k_.i64(block));
  }

  void clear_keys(Scope& scope) {
    scope.seek();
    Value* row = mul(dk_rows_, t_.panel);
    if (wants_dk()) fill(scope, dk_, mul(depth_panels_, row), zero(vector()));
    scope.seek();
    if (wants_dv()) fill(scope, dv_, mul(width_panels_, row), zero(vector()));
    scope.seek();
  }

  void store_keys(Scope& scope, Value* first, Value* count) {
    if (wants_dk())
      store_rows(scope, a_.dk, dk_, dk_rows_, key_axis_, first, count, depth_axis_, depth_);
    if (wants_dv())
      store_rows(scope, a_.dv, dv_, dk_rows_, key_axis_, first, count, width_axis_, width_);
  }

  // Runs a result's body on rows of `from`, [panels][rows][column].
  void store_rows(Scope& scope, const atlas::Body& body, Value* from, Value* rows, int row_axis,
                  Value* first, Value* count, int column_axis, Value* columns) {
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

  Operand operand(const atlas::Body& body) const {
    return {body, a_.operand_type, type_, t_.lanes};
  }

  // Rows [begin, begin + count) of an operand, `stride` apart.
  void copy_rows(Scope& scope, const atlas::Body& body, int row_axis, Value* begin, Value* count,
                 int column_axis, Value* columns, Value* out, Value* stride) {
    emit_loop(scope, k_.i64(0), count, k_.i64(1), true, [&](Scope& s, Value* i) {
      s.seek();
      s.set_axis(row_axis, add(begin, i));
      operand(body).gather(s, {column_axis, k_.i64(0), columns}, at(out, mul(i, stride)));
    });
    scope.seek();
  }

  // The block's keys as columns: panels of [column][key].
  void copy_columns(Scope& scope, const atlas::Body& body, int column_axis, Value* columns,
                    Value* out) {
    bool along_keys = first_stride(body, key_axis_) == 1 && first_stride(body, column_axis) != 1;
    emit_loop(scope, k_.i64(0), key_count_, k_.i64(t_.panel), true, [&](Scope& s, Value* first) {
      s.seek();
      Run keys{key_axis_, add(key_begin_, first), least(sub(key_count_, first), k_.i64(t_.panel))};
      Value* to = at(out, mul(first, columns));
      if (!along_keys)
        return operand(body).transpose(s, keys, {column_axis, k_.i64(0), columns}, square_, to,
                                       t_.panel);
      emit_loop(s, k_.i64(0), columns, k_.i64(1), false, [&](Scope& inner, Value* i) {
        inner.seek();
        inner.set_axis(column_axis, i);
        operand(body).gather(inner, keys, at(to, mul(i, t_.panel)));
      });
    });
    scope.seek();
  }

  void emit_keys(Scope& scope) {
    copy_columns(scope, a_.k, depth_axis_, depth_, kt_);
    copy_columns(scope, a_.v, width_axis_, width_, vt_);
    if (wants_dq())
      copy_rows(scope, a_.k, key_axis_, key_begin_, key_count_, depth_axis_, depth_, k_rows_,
                q_row_);
    if (complete_by_block()) clear_keys(scope);
    Value *first = first_query_, *end = end_query_;
    visible_queries(scope, first, end);
    emit_loop(scope, first, end, k_.i64(plan_.query_block), false, [&](Scope& s, Value* query) {
      s.seek();
      query_begin_ = query;
      query_count_ = one_of(plan_.query_counts, sub(queries_, query), plan_.query_block);
      emit_tile(s);
    });
    if (complete_by_block()) store_keys(scope, key_begin_, key_count_);
  }

  // Leaves out blocks of queries that see none of the block's keys.
  void visible_queries(Scope& scope, Value*& first, Value*& end) {
    Value* from = first;
    scope.seek();
    Value* last_key = add(key_begin_, sub(key_count_, k_.i64(1)));
    if (a_.causal) first = most(first, key_begin_);
    if (const auto& bound = plan_.bounds.last) {  // key <= query + offset, or key <= offset
      Value* offset = number(bound->offset);
      scope.seek();
      if (bound->by_query)
        first = most(first, sub(key_begin_, offset));
      else
        end = k_.ir.CreateSelect(k_.ir.CreateICmpSGT(key_begin_, offset), from, end);
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

  void emit_tile(Scope& scope) {
    copy_rows(scope, a_.q, query_axis_, query_begin_, query_count_, depth_axis_, depth_, q_,
              q_row_);
    copy_rows(scope, a_.g, query_axis_, query_begin_, query_count_, width_axis_, width_, g_,
              g_row_);
    Run queries{query_axis_, query_begin_, query_count_};
    Operand{a_.lse, type_, type_, t_.lanes}.gather(scope, queries, lse_);
    Operand{a_.delta, type_, type_, t_.lanes}.gather(scope, queries, delta_);
    scope.seek();
    Value *rows = query_count_, *keys = key_count_;
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
      emit_loop(scope, k_.i64(0), key_count_, k_.i64(t_.panel), true, [&](Scope& s, Value* key) {
        s.seek();
        multiply(s, use, rows, row_counts, 0, {a, row, k_.i64(1)},
                 {at(b, mul(key, depth)), k_.i64(t_.panel), k_.i64(0), 1, type_}, depth,
                 {at(out, key), key_block});
      });
    };
    scores(use_scores, q_, q_row_, kt_, depth_, p_);
    scores(use_values, g_, g_row_, vt_, width_, s_);
    emit_loop(scope, k_.i64(0), query_count_, k_.i64(1), true,
              [&](Scope& s, Value* i) { score_row(s, i); });
    auto sums = [&](Use use, Value* count, const std::vector<int64_t>& counts, const Matrix& a,
                    Value* b, Value* row, Value* depth, Value* columns, Value* out, Value* height,
                    Value* first) {
      for_panels(scope, columns, [&](Scope& s, Value* panel, int vectors) {
        s.seek();
        multiply_add(s, use, count, counts, a,
                     {at(b, mul(panel, t_.panel)), row, k_.i64(0), 1, type_, vectors}, depth,
                     {at(out, mul(add(mul(panel, height), first), t_.panel))}, ones_);
      });
    };
    scope.seek();
    Value* first = complete_by_block() ? k_.i64(0) : sub(key_begin_, first_key_);
    Matrix p{p_, k_.i64(1), k_.i64(key_block)}, st{s_, k_.i64(1), k_.i64(key_block)};
    Matrix s{s_, k_.i64(key_block), k_.i64(1)};
    if (wants_dv())
      sums(use_dv, keys, key_counts, p, g_, g_row_, query_count_, width_, dv_, dk_rows_, first);
    if (wants_dk())
      sums(use_dk, keys, key_counts, st, q_, q_row_, query_count_, depth_, dk_, dk_rows_, first);
    scope.seek();
    if (wants_dq())
      sums(use_dq, rows, row_counts, s, k_rows_, q_row_, key_count_, depth_, dq_, dq_rows_,
           sub(query_begin_, first_query_));
  }

  // A query's scores become probabilities, the other tile's row gradients of scores.
  void score_row(Scope& scope, Value* i) {
    scope.seek();
    Value* query = add(query_begin_, i);
    scope.set_axis(query_axis_, query);
    llvm::Type* type = k_.type_of(type_);
    Value* lse = load_one(at(lse_, i));
    // So that exp(score - lse) is 0 where the row has no keys.
    lse = k_.ir.CreateSelect(k_.ir.CreateFCmpOEQ(lse, lowest(type)),
                             llvm::ConstantFP::getInfinity(type), lse);
    Value* delta = spread(load_one(at(delta_, i)));
    Value *p_row = at(p_, mul(i, key_block)), *s_row = at(s_, mul(i, key_block));
    for_vectors(scope, key_count_, t_.lanes, [&](Scope& s, Value* offset, Value* mask) {
      s.seek();
      Value* key = add(key_begin_, offset);
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
      store(p, at(p_row, offset));
      Value* d = k_.ir.CreateFSub(load(at(s_row, offset)), delta);
      d = k_.ir.CreateFMul(d, p);
      if (slope) d = k_.ir.CreateFMul(d, slope);
      store(scaled(d, a_.scale), at(s_row, offset));
    });
  }

  const atlas::AttentionGradBlock& a_;
  AttentionGradPlan plan_;
  int member_axis_, query_axis_, key_axis_, depth_axis_, width_axis_;
  atlas::Body exp_;
  Value *members_ = nullptr, *queries_ = nullptr, *keys_ = nullptr, *depth_ = nullptr,
        *width_ = nullptr, *parts_ = nullptr, *depth_panels_ = nullptr, *width_panels_ = nullptr;
  // Elements between rows of queries and keys, and of gradients; rows of the sums' panels.
  Value *q_row_ = nullptr, *g_row_ = nullptr, *dq_rows_ = nullptr, *dk_rows_ = nullptr;
  // Scratch: columns and rows of a block of keys, rows of a block of queries, the two tiles [query]
  // [key], the sums.
  Value *kt_ = nullptr, *vt_ = nullptr, *k_rows_ = nullptr, *q_ = nullptr, *g_ = nullptr,
        *p_ = nullptr, *s_ = nullptr, *dq_ = nullptr, *dk_ = nullptr, *dv_ = nullptr;
  Value *lse_ = nullptr, *delta_ = nullptr, *ones_ = nullptr, *square_ = nullptr;
  // Of the unit, the block of keys and the tile.
  Value *first_key_ = nullptr, *end_key_ = nullptr, *first_query_ = nullptr, *end_query_ = nullptr,
        *key_begin_ = nullptr, *key_count_ = nullptr, *query_begin_ = nullptr,
        *query_count_ = nullptr;
};

}  // namespace

void emit(CpuFunction& k, const AttentionGradPlan& plan) { GradEmitter(k, plan).run(); }

}  // namespace hologram::cpu
