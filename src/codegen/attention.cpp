// codegen/attention.cpp: attention with online softmax, as one kernel.
//
// A unit is a batch point and a block of queries. For each block of keys: scores = q k^T into a
// scratch tile, the score body and the running maximum, exponentials and their sum, then the value
// accumulators, scaled down where the maximum grew, gain p v. Every sum runs over its terms one by
// one in ascending order, so the bits depend on neither lanes nor units.
#include "codegen/attention.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

#include "base/error.h"
#include "codegen/attention_plan.h"
#include "codegen/attention_tiles.h"
#include "codegen/dots.h"
#include "codegen/exponential.h"
#include "codegen/nest.h"

namespace hologram::codegen {
namespace {

class AttentionEmitter : AttentionTiles {
 public:
  explicit AttentionEmitter(Kernel& kernel)
      : AttentionEmitter(kernel, plan_attention(kernel.program, kernel.target)) {}

  AttentionEmitter(Kernel& kernel, const AttentionPlan& plan)
      : AttentionTiles(kernel, plan.tile, plan.type),
        a_(kernel.program.attention),
        plan_(plan),
        query_axis_(a_.batch_rank),
        key_axis_(query_axis_ + 1),
        depth_axis_(query_axis_ + 2),
        value_axis_(query_axis_ + 3),
        exp_score_(exp_of_difference(type_)),
        exp_shrink_(exp_score_),
        log_sum_(log_of_sum(type_)) {
    dots_ = plan.dots;
  }

  void run() {
    if (plan_.units.is(0)) return k_.finish();
    prepare();
    emit_loop(k_.root(), k_.begin, k_.end, k_.i64(1), true,
              [&](Scope& scope, Value* unit) { emit_unit(scope, unit); });
    k_.root().seek();
    k_.finish();
  }

 private:
  bool by_queries() const { return plan_.lanes == ScoreLanes::queries; }
  bool pairs() const { return plan_.dots != Dots::none; }

  // NaN scores need no care here: their own exponential is NaN.
  Value* larger(Value* x, Value* y) { return k_.ir.CreateSelect(k_.ir.CreateFCmpOGT(x, y), x, y); }

  void prepare() {
    queries_ = number(plan_.queries);
    keys_ = number(plan_.keys);
    depth_ = number(plan_.depth);
    values_ = number(plan_.values);
    query_units_ = number(plan_.query_units);
    k_.root().seek();
    value_panels_ = div(add(values_, t_.panel - 1), k_.i64(t_.panel));
    key_stride_ = add(round_up(depth_, t_.lanes), k_.i64(t_.lanes));
    int64_t rows = plan_.query_block;
    std::vector<std::pair<Value**, Value*>> regions{
        {&q_, by_queries() ? mul(depth_, t_.panel) : mul(key_stride_, rows)},
        // Behind the last key, the other half of its pair.
        {&scores_, k_.i64((key_block + 1) * (by_queries() ? t_.panel : rows))},
        {&out_, mul(value_panels_, rows * t_.panel)}};
    if (!by_queries() && !plan_.k_load)
      regions.emplace_back(&k_block_, mul(depth_, int64_t{t_.panel} * plan_.key_span));
    else if (!plan_.k_load)
      regions.emplace_back(&k_block_, mul(key_stride_, key_block));
    if (!plan_.v_load) regions.emplace_back(&v_block_, k_.i64(key_block * t_.panel));
    std::vector<Value*> offsets;
    Value* size = k_.i64(0);
    for (auto& [where, count] : regions) {
      offsets.push_back(size);
      size = add(size, round_up(count, 16));
    }
    Value* memory = emit_scratch(k_.root(), mul(size, size_of(type_)));
    for (size_t i = 0; i < regions.size(); ++i) *regions[i].first = at(memory, offsets[i]);
    int64_t columns = std::max<int64_t>(t_.panel, rows);
    max_ = k_.slot(k_.type_of(type_), "max", columns);
    sum_ = k_.slot(k_.type_of(type_), "sum", columns);
    shrink_ = k_.slot(k_.type_of(type_), "shrink", columns);
    square_ = k_.slot(k_.type_of(type_), "square", int64_t{t_.lanes} * t_.lanes);
    if (!by_queries()) {
      tile_ = k_.slot(k_.type_of(type_), "tile", rows * t_.panel * plan_.key_span);
      largest_ = k_.slot(vector(), "largest");
      partials_ = k_.slot(k_.type_of(type_), "partials", partials_of(type_));
    }
    if (plan_.k_load) k_row_ = number(plan_.k_load->x_stride);
    if (plan_.v_load) v_row_ = number(plan_.v_load->x_stride);
    k_.root().seek();
  }

  void emit_unit(Scope& scope, Value* unit) {
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
    pack_queries(scope);
    emit_loop(scope, key_start, key_end, k_.i64(key_block), false, [&](Scope& s, Value* key) {
      s.seek();
      key_begin_ = key;
      key_count_ = plan_.key_counts.size() == 1 ? static_cast<Value*>(k_.i64(plan_.key_counts[0]))
                                                : least(sub(key_end, key), k_.i64(key_block));
      if (by_queries()) {
        scores_by_queries(s);
      } else {
        plan_.k_load ? dots_in_place(s) : dots_of_panels(s);
        softmax_rows(s);
      }
      add_values(s);
    });
    epilogue(scope);
    log_sums(scope);
  }

  // Groups of heads whose rows are in one unit.
  int64_t groups() const {
    const Expr& heads = a_.axes[static_cast<size_t>(query_axis_ - 1)].extent;
    return heads.constant_value() / plan_.shared;
  }

  // Fixes the query, and the head where a unit has several, of row r; gives the query.
  Value* set_row(Scope& scope, Value* r) {
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

  void clear(Scope& scope) {
    scope.seek();
    Value* columns = k_.i64(std::max<int64_t>(t_.panel, plan_.query_block));
    fill(scope, max_, columns, lowest(vector()));
    fill(scope, sum_, columns, zero(vector()));
    fill(scope, shrink_, columns, zero(vector()));
    scope.seek();
    fill(scope, out_, mul(value_panels_, plan_.query_block * t_.panel), zero(vector()));
  }

  Operand operand(const atlas::Body& body) const {
    return {body, a_.operand_type, type_, t_.lanes};
  }

  // q as depth x queries (lanes along queries) or as rows.
  void pack_queries(Scope& scope) {
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
    if (pairs()) pair_queries(scope);
  }

  // Row i of q becomes words of rows 2 i and 2 i + 1, which hold numbers of 16 bits.
  void pair_queries(Scope& scope) {
    scope.seek();
    llvm::Type* words = k_.widen(k_.ir.getInt32Ty(), t_.panel);
    auto load_words = [&](Value* row) {
      return k_.ir.CreateAlignedLoad(words, at(q_, mul(row, t_.panel)), alignment());
    };
    emit_loop(scope, k_.i64(0), k_.i64(plan_.depth.constant_value() / 2), k_.i64(1), false,
              [&](Scope& s, Value* i) {
                s.seek();
                Value* first = mul(i, 2);
                Value* low = k_.ir.CreateLShr(load_words(first), 16);
                Value* high = k_.ir.CreateAnd(load_words(add(first, 1)),
                                              llvm::ConstantInt::get(words, 0xffff0000));
                k_.ir.CreateAlignedStore(k_.ir.CreateOr(low, high), at(q_, mul(i, t_.panel)),
                                         alignment());
              });
    scope.seek();
  }

  // Words of the numbers of two vectors of 16 bits, side by side; the first ones are lower.
  Value* interleave(Value* low, Value* high) {
    std::vector<int> order;
    int lanes =
        static_cast<int>(llvm::cast<llvm::FixedVectorType>(low->getType())->getNumElements());
    for (int l = 0; l < lanes; ++l) order.insert(order.end(), {l, lanes + l});
    return k_.ir.CreateBitCast(k_.ir.CreateShuffleVector(low, high, order),
                               k_.widen(k_.ir.getInt32Ty(), lanes));
  }

  Value* scaled(Value* score) { return AttentionTiles::scaled(score, a_.scale); }

  // The score body on a vector of scaled scores.
  Value* final_score(Scope& scope, Value* score) {
    return a_.score.instrs.empty() ? score : score_of(scope, a_.score, score);
  }

  Value* exponential(Scope& scope, const atlas::Body& body, LaneValue x, LaneValue max) {
    return combine(scope, body, x, max);
  }

  // The new running maximum, made finite where every score so far is -inf; updates max and shrink
  // at `index`.
  Value* update_maximum(Scope& scope, Value* index, Value* maximum, llvm::Type* type) {
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

  // scores[key][query] → probabilities; lanes along queries.
  void scores_by_queries(Scope& scope) {
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
        operand(a_.k).gather(s, {depth_axis_, k_.i64(0), depth_},
                             at(k_block_, mul(i, key_stride_)));
      });
      keys = {k_block_, key_stride_, k_.i64(1)};
    }
    scope.seek();
    Value* depth = pairs() ? k_.i64(plan_.depth.constant_value() / 2) : depth_;
    multiply(scope, use_scores, key_count_, plan_.key_counts, key_block, keys,
             {q_, k_.i64(t_.panel), k_.i64(0), 1, type_}, depth, {scores_});
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

  // Rows of k as words of two values.
  Matrix paired_keys(Scope& scope) {
    scope.seek();
    if (plan_.k_load) {
      Value* first = add(k_base_, mul(key_begin_, k_row_));
      return {element(k_, a_.operand_type, k_.buffer(plan_.k_load->buffer), first),
              k_.i64(plan_.k_load->x_stride.constant_value() / 2), k_.i64(1)};
    }
    emit_loop(scope, k_.i64(0), key_count_, k_.i64(1), true, [&](Scope& s, Value* i) {
      s.seek();
      s.set_axis(key_axis_, add(key_begin_, i));
      Operand{a_.k, a_.operand_type, a_.operand_type, t_.lanes}.gather(
          s, {depth_axis_, k_.i64(0), depth_}, at(k_block_, mul(i, key_stride_)));
    });
    return {k_block_, key_stride_, k_.i64(1)};
  }

  void softmax_columns(Scope& scope, Value* offset, Value* last_key) {
    auto place = [&](Value* i) { return at(scores_, add(mul(i, t_.panel), offset)); };
    Value* largest = emit_loop(
        scope, k_.i64(0), key_count_, k_.i64(1), true, {lowest(vector())},
        [&](Scope& s, Value* i, std::vector<Value*> carried) -> std::vector<Value*> {
          s.seek();
          Value* key = add(key_begin_, i);
          s.set_axis(key_axis_, key);
          Value* x = final_score(s, scaled(load(place(i))));
          if (last_key) {
            Value* number = spread(k_.ir.CreateTrunc(key, k_.ir.getInt32Ty()));
            x = k_.ir.CreateSelect(k_.ir.CreateICmpSLE(number, last_key), x, lowest(vector()));
          }
          store(x, place(i));
          return {larger(x, carried[0])};
        })[0];
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

  // Probabilities of two keys side by side, rounded to bfloat16, in the place of scores; the sum of
  // the ones before rounding.
  Value* paired_exponentials(Scope& scope, Value* offset, Value* maximum, Value* start) {
    auto place = [&](Value* row) { return at(scores_, add(mul(row, t_.panel), offset)); };
    if (fixed(key_count_).value_or(1) % 2 != 0) store(lowest(vector()), place(key_count_));
    auto p = [&](Scope& s, Value* row) {
      s.seek();
      return emit_brief_exp(k_, k_.ir.CreateFSub(load(place(row)), maximum));
    };
    Value* total =
        emit_loop(scope, k_.i64(0), key_pairs(), k_.i64(1), true, {start},
                  [&](Scope& s, Value* i, std::vector<Value*> carried) -> std::vector<Value*> {
                    s.seek();
                    Value* row = mul(i, 2);
                    Value* low = p(s, row);
                    Value* high = p(s, add(row, 1));
                    store_words(low, high, place(i));
                    return {k_.ir.CreateFAdd(k_.ir.CreateFAdd(carried[0], low), high)};
                  })[0];
    scope.seek();
    return total;
  }

  Value* key_pairs() { return k_.ir.CreateLShr(add(key_count_, 1), 1); }

  // Two vectors of float32, rounded, as words.
  void store_words(Value* low, Value* high, Value* to) {
    constexpr int lanes = 16;  // of the instruction
    for (int l = 0; l < t_.lanes; l += lanes) {
      std::vector<int> part, order;
      for (int i = 0; i < lanes; ++i) part.push_back(l + i);
      for (int i = 0; i < lanes; ++i) order.insert(order.end(), {i, lanes + i});
      auto take = [&](Value* v) { return k_.ir.CreateShuffleVector(v, part); };
      Value* both = k_.ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtne2ps2bf16_512, {},
                                          {take(high), take(low)});
      k_.ir.CreateAlignedStore(k_.ir.CreateShuffleVector(both, order), at(to, k_.i64(l)),
                               alignment());
    }
  }

  // Row-major scores of a few queries. Keys with contiguous elements stay where they are: lanes run
  // along the depth, in as many partial sums on every instruction set.
  void dots_in_place(Scope& scope) {
    scope.seek();
    DType storage = a_.operand_type;
    RowDots dots{t_.lanes, t_.max_rows * t_.vectors >= 24 ? 16 : 8, type_, storage,
                 plan_.depth.constant_value()};
    Value* first = element(k_, storage, k_.buffer(plan_.k_load->buffer),
                           add(k_base_, mul(key_begin_, k_row_)));
    auto group = [&](Scope& s, Value* offset, Value* last) {
      s.seek();
      std::vector<Value*> rows;
      for (int l = 0; l < t_.lanes; ++l) {
        Value* key = add(offset, l);
        if (last && l) key = least(key, last);
        rows.push_back(element(k_, storage, first, mul(key, k_row_)));
      }
      emit_loop(s, k_.i64(0), query_count_, k_.i64(1), true, [&](Scope& row, Value* r) {
        row.seek();
        Value* x = dots.emit(row, at(q_, mul(key_stride_, r)), rows);
        row.seek();
        store(x, at(scores_, add(offset, mul(r, key_block))));
      });
    };
    for_vectors(scope, key_count_, t_.lanes, [&](Scope& s, Value* offset, Value* mask) {
      s.seek();
      group(s, offset, mask ? sub(key_count_, k_.i64(1)) : nullptr);
    });
    scope.seek();
  }

  void dots_of_panels(Scope& scope) {
    Value* rows = query_count_;
    int64_t width = int64_t{t_.panel} * plan_.key_span;
    Panels panels{k_block_, k_.i64(t_.panel), mul(depth_, t_.panel), plan_.key_span, type_};
    emit_loop(scope, k_.i64(0), key_count_, k_.i64(width), true, [&](Scope& s, Value* first) {
      s.seek();
      Value* end = least(key_count_, add(first, k_.i64(width)));
      emit_loop(s, first, end, k_.i64(t_.panel), true, [&](Scope& inner, Value* key) {
        inner.seek();
        Value* out = at(k_block_, mul(sub(key, first), depth_));
        pack_key_panel(inner, key, least(sub(end, key), k_.i64(t_.panel)), out);
      });
      multiply(s, use_scores, rows, plan_.query_counts, 0, {q_, key_stride_, k_.i64(1)}, panels,
               depth_, {tile_});
      emit_loop(s, k_.i64(0), rows, k_.i64(1), true, [&](Scope& row, Value* r) {
        emit_loop(row, k_.i64(0), k_.i64(width), k_.i64(t_.lanes), true,
                  [&](Scope& inner, Value* c) {
                    inner.seek();
                    Value* x = load(at(tile_, add(mul(r, width), c)));
                    store(x, at(scores_, add(mul(r, key_block), add(first, c))));
                  });
      });
    });
    scope.seek();
  }

  // scores[query][key] → probabilities; lanes along keys.
  void softmax_rows(Scope& scope) {
    emit_loop(scope, k_.i64(0), query_count_, k_.i64(1), true, [&](Scope& s, Value* r) {
      s.seek();
      softmax_row(s, r, set_row(s, r));
    });
  }

  // k^T of the keys from key_begin_ + first on.
  void pack_key_panel(Scope& scope, Value* first, Value* count, Value* out) {
    Run keys{key_axis_, add(key_begin_, first), count}, depth{depth_axis_, k_.i64(0), depth_};
    if (first_stride(a_.k, key_axis_) != 1 || first_stride(a_.k, depth_axis_) == 1)
      return operand(a_.k).transpose(scope, keys, depth, square_, out, t_.panel);
    emit_loop(scope, k_.i64(0), depth_, k_.i64(1), false, [&](Scope& s, Value* i) {
      s.seek();
      s.set_axis(depth_axis_, i);
      operand(a_.k).gather(s, keys, at(out, mul(i, t_.panel)));
    });
  }

  Value* horizontal_maximum(Value* v) {
    for (int half = t_.lanes / 2; half >= 1; half /= 2) {
      std::vector<int> order;
      for (int l = 0; l < t_.lanes; ++l) order.push_back(l ^ half);
      v = larger(v, k_.ir.CreateShuffleVector(v, order));
    }
    return k_.ir.CreateExtractElement(v, uint64_t{0});
  }

  void softmax_row(Scope& scope, Value* r, Value* query) {
    Value* row = at(scores_, mul(r, key_block));
    k_.ir.CreateStore(lowest(vector()), largest_);
    // Lanes behind the last key become -inf, so that their exponentials add nothing.
    for_vectors(scope, key_count_, t_.lanes, [&](Scope& s, Value* offset, Value* mask) {
      s.seek();
      Value* key = add(key_begin_, offset);
      s.set_axis(key_axis_, key);
      s.set_lanes(key_axis_, t_.lanes, mask);
      Value* x = final_score(s, scaled(load(at(row, offset))));
      if (a_.causal) {
        Value* last = spread(k_.ir.CreateTrunc(query, k_.ir.getInt32Ty()));
        x = k_.ir.CreateSelect(k_.ir.CreateICmpSLE(lane_numbers(key), last), x, lowest(vector()));
      }
      if (mask) x = k_.ir.CreateSelect(mask, x, lowest(vector()));
      store(x, at(row, offset));
      k_.ir.CreateStore(larger(x, k_.ir.CreateLoad(vector(), largest_)), largest_);
    });
    scope.seek();
    Value* now = horizontal_maximum(k_.ir.CreateLoad(vector(), largest_));
    Value* maximum = update_maximum(scope, r, now, k_.type_of(type_));
    int partials = partials_of(type_);
    auto partial = [&](int v) { return at(partials_, k_.i64(int64_t{v} * t_.lanes)); };
    for (int v = 0; v < partials / t_.lanes; ++v) store(zero(vector()), partial(v));
    emit_loop(scope, k_.i64(0), key_count_, k_.i64(t_.lanes), true, [&](Scope& s, Value* offset) {
      s.seek();
      s.set_lanes(key_axis_, t_.lanes);
      Value* p = exponential(s, exp_score_, {load(at(row, offset)), true}, {maximum, false});
      store(p, at(row, offset));
      Value* sum = at(partials_, k_.ir.CreateAnd(offset, k_.i64(partials - 1)));
      store(k_.ir.CreateFAdd(load(sum), p), sum);
    });
    scope.seek();
    std::vector<Value*> sums;
    for (int v = 0; v < partials / t_.lanes; ++v) sums.push_back(load(partial(v)));
    Value* before = k_.ir.CreateFMul(load_one(at(sum_, r)), load_one(at(shrink_, r)));
    Value* total = k_.ir.CreateFAdd(before, sum_partials(k_, std::move(sums), t_.lanes));
    k_.ir.CreateAlignedStore(total, at(sum_, r), alignment());
  }

  // out = shrink * out + p v
  void add_values(Scope& scope) {
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
    emit_loop(scope, k_.i64(0), value_panels_, k_.i64(plan_.value_span), true,
              [&](Scope& s, Value* panel) {
                s.seek();
                Value* column = mul(panel, t_.panel);
                Panels v{};
                if (pairs()) {
                  pair_values(s, column);
                  v = {v_block_, k_.i64(t_.panel), k_.i64(0), 1, type_};
                } else if (plan_.v_load) {
                  v = {element(k_, storage, base, column), v_row_, k_.i64(t_.panel),
                       plan_.value_span, storage};
                } else {
                  Value* count = least(sub(values_, column), k_.i64(t_.panel));
                  emit_loop(s, k_.i64(0), key_count_, k_.i64(1), true, [&](Scope& inner, Value* i) {
                    inner.seek();
                    inner.set_axis(key_axis_, add(key_begin_, i));
                    operand(a_.v).gather(inner, {value_axis_, column, count},
                                         at(v_block_, mul(i, t_.panel)));
                  });
                  v = {v_block_, k_.i64(t_.panel), k_.i64(0), 1, type_};
                }
                s.seek();
                Value* depth = pairs() ? key_pairs() : key_count_;
                multiply_add(s, use_values, rows, counts, p, v, depth,
                             {at(out_, mul(column, plan_.query_block))}, shrink_);
              });
  }

  // The panel of v from `column` on, as words of two keys.
  void pair_values(Scope& scope, Value* column) {
    Value* count = least(sub(values_, column), k_.i64(t_.panel));
    Value* last = add(key_count_, -1);
    emit_loop(scope, k_.i64(0), key_pairs(), k_.i64(1), true, [&](Scope& s, Value* i) {
      for_vectors(s, count, t_.panel, [&](Scope& inner, Value* offset, Value* mask) {
        inner.seek();
        Value* halves[2];
        for (int j = 0; j < 2; ++j) {
          inner.seek();
          Value* key = add(mul(i, 2), j);
          Scope one(inner, false);
          one.set_axis(key_axis_, add(key_begin_, j ? least(key, last) : key));
          one.set_axis(value_axis_, add(column, offset));
          one.set_lanes(value_axis_, t_.panel, mask);
          halves[j] = splat(k_, emit_body(one, a_.v).back(), t_.panel);
          inner.seek();
          // A last key without another one.
          if (j && fixed(key_count_).value_or(1) % 2 != 0)
            halves[j] = k_.ir.CreateSelect(k_.ir.CreateICmpSLE(key, last), halves[j],
                                           llvm::Constant::getNullValue(halves[j]->getType()));
        }
        k_.ir.CreateAlignedStore(interleave(halves[0], halves[1]),
                                 at(v_block_, add(mul(i, t_.panel), offset)), alignment());
      });
    });
    scope.seek();
  }

  void epilogue(Scope& scope) {
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

  // log(sum) + maximum of each query, with lanes along the queries.
  void log_sums(Scope& scope) {
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
      Value* v =
          combine(s, log_sum_, {load(at(max_, offset)), true}, {load(at(sum_, offset)), true});
      s.set_accumulator(0, {v, true});
      emit_body(s, a_.lse);
    });
  }

  static constexpr int use_scores = 0, use_values = 1;
  const atlas::AttentionBlock& a_;
  AttentionPlan plan_;
  int query_axis_, key_axis_, depth_axis_, value_axis_;
  // Two bodies, since a scope shares the values of one body with the scopes inside it.
  atlas::Body exp_score_, exp_shrink_, log_sum_;
  Value *queries_ = nullptr, *keys_ = nullptr, *depth_ = nullptr, *values_ = nullptr,
        *query_units_ = nullptr, *value_panels_ = nullptr, *key_stride_ = nullptr,
        *k_row_ = nullptr, *v_row_ = nullptr;
  // Scratch: packed queries, score tile, value accumulators [panels][query][column], packed keys
  // and values.
  Value *q_ = nullptr, *scores_ = nullptr, *out_ = nullptr, *k_block_ = nullptr,
        *v_block_ = nullptr;
  // Per query of the unit: running maximum and sum, factor of the last step.
  Value *max_ = nullptr, *sum_ = nullptr, *shrink_ = nullptr;
  Value* first_head_ = nullptr;  // of the unit, where it has several
  Value *square_ = nullptr, *tile_ = nullptr, *largest_ = nullptr, *partials_ = nullptr;
  // Of the current unit and key block.
  Value *query_begin_ = nullptr, *query_count_ = nullptr, *k_base_ = nullptr, *v_base_ = nullptr,
        *key_begin_ = nullptr, *key_count_ = nullptr;
};

}  // namespace

void emit_attention(Kernel& k) { AttentionEmitter(k).run(); }

}  // namespace hologram::codegen
