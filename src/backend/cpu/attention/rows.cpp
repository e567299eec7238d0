// backend/cpu/attention/rows.cpp: scores and softmax of a few queries, with lanes along the keys.
//
// Where a key's elements are contiguous and a whole number of 64 bytes of float32, k stays in place
// and scores are inner products with lanes along the depth (operands/dots): 16 partial sums on
// every instruction set, added by a fixed tree of which sixteen keys share the shuffles. float16
// and bfloat16 caches are widened as they are loaded, v too; dots of bfloat16 take keys as they
// are. Other keys are transposed in registers, several panels at a time. A block's exponentials are
// summed in 16 strided partials likewise.
#include "backend/cpu/attention/emitter.h"
#include "backend/cpu/exponential.h"
#include "backend/cpu/operands/dots.h"
#include "codegen/nest.h"

namespace hologram::cpu {

void AttentionEmitter::dots_in_place(Scope& scope) {
  scope.seek();
  DType storage = a_.operand_type;
  RowDots dots{t_.lanes,
               t_.max_rows * t_.vectors >= 24 ? 16 : 8,
               type_,
               storage,
               plan_.depth.constant_value(),
               plan_.pairs_of_keys};
  Value* first = element(k_, storage, k_.buffer(plan_.k_load->buffer),
                         add(unit_.k_base, mul(block_.begin, size_.k_row)));
  auto group = [&](Scope& s, Value* offset, Value* last) {
    s.seek();
    std::vector<Value*> rows;
    for (int l = 0; l < t_.lanes; ++l) {
      Value* key = add(offset, l);
      if (last && l) key = least(key, last);
      rows.push_back(element(k_, storage, first, mul(key, size_.k_row)));
      fetch_rows(key);
    }
    emit_loop(s, k_.i64(0), rows_.count, k_.i64(1), true, [&](Scope& row, Value* r) {
      row.seek();
      Value* x = dots.emit(row, at(rows_.q, mul(size_.key_stride, r)), rows);
      row.seek();
      store(x, at(scratch_.scores, add(offset, mul(r, key_block))));
    });
  };
  for_vectors(scope, block_.count, t_.lanes, [&](Scope& s, Value* offset, Value* mask) {
    s.seek();
    group(s, offset, mask ? sub(block_.count, k_.i64(1)) : nullptr);
  });
  scope.seek();
}

int AttentionEmitter::lines_of(const Expr& columns) const {
  constexpr int64_t line = 64, most = 1024;
  if (!columns.is_const()) return 0;
  const int64_t bytes = columns.constant_value() * size_of(a_.operand_type);
  return bytes <= most ? static_cast<int>((bytes + line - 1) / line) : 0;
}

// What comes behind the scores of a block, and in the next unit at this key: memory has no pause,
// and no unit begins with rows that hardware does not foresee. Beside values come values of 16 bits
// of the unit behind, else its keys (measured): a part of what is fetched at once is dropped.
void AttentionEmitter::fetch_rows(Value* key) {
  key = add(block_.begin, key);
  auto fetch = [&](const StridedLoad& load, Value* base, Value* stride, const Expr& columns) {
    Value* row = element(k_, a_.operand_type, k_.buffer(load.buffer), add(base, mul(key, stride)));
    for (int64_t i = 0; i < lines_of(columns); ++i)
      emit_fetch(k_, row, 64 * i, FetchTo::second_level);
  };
  const Beside beside = beside_values();
  if (beside != Beside::keys) fetch(*plan_.k_load, unit_.next_k, size_.k_row, plan_.depth);
  if (!plan_.v_load) return;
  fetch(*plan_.v_load, unit_.v_base, size_.v_row, plan_.values);
  if (beside == Beside::none) fetch(*plan_.v_load, unit_.next_v, size_.v_row, plan_.values);
}

void AttentionEmitter::dots_of_panels(Scope& scope) {
  Value* rows = rows_.count;
  int64_t width = int64_t{t_.panel} * plan_.key_span;
  Panels panels{scratch_.k_block, k_.i64(t_.panel), mul(size_.depth, t_.panel), plan_.key_span,
                type_};
  emit_loop(scope, k_.i64(0), block_.count, k_.i64(width), true, [&](Scope& s, Value* first) {
    s.seek();
    Value* end = least(block_.count, add(first, k_.i64(width)));
    emit_loop(s, first, end, k_.i64(t_.panel), true, [&](Scope& inner, Value* key) {
      inner.seek();
      Value* out = at(scratch_.k_block, mul(sub(key, first), size_.depth));
      pack_key_panel(inner, key, least(sub(end, key), k_.i64(t_.panel)), out);
    });
    multiply(s, use_scores, rows, plan_.query_counts, 0, {rows_.q, size_.key_stride, k_.i64(1)},
             panels, size_.depth, {scratch_.tile});
    emit_loop(s, k_.i64(0), rows, k_.i64(1), true, [&](Scope& row, Value* r) {
      emit_loop(row, k_.i64(0), k_.i64(width), k_.i64(t_.lanes), true, [&](Scope& inner, Value* c) {
        inner.seek();
        Value* x = load(at(scratch_.tile, add(mul(r, width), c)));
        store(x, at(scratch_.scores, add(mul(r, key_block), add(first, c))));
      });
    });
  });
  scope.seek();
}

void AttentionEmitter::softmax_rows(Scope& scope) {
  emit_loop(scope, k_.i64(0), rows_.count, k_.i64(1), true, [&](Scope& s, Value* r) {
    s.seek();
    softmax_row(s, r, set_row(s, r));
  });
}

void AttentionEmitter::pack_key_panel(Scope& scope, Value* first, Value* count, Value* out) {
  Run keys{key_axis_, add(block_.begin, first), count}, depth{depth_axis_, k_.i64(0), size_.depth};
  if (first_stride(a_.k, key_axis_) != 1 || first_stride(a_.k, depth_axis_) == 1)
    return operand(a_.k).transpose(scope, keys, depth, scratch_.square, out, t_.panel);
  emit_loop(scope, k_.i64(0), size_.depth, k_.i64(1), false, [&](Scope& s, Value* i) {
    s.seek();
    s.set_axis(depth_axis_, i);
    operand(a_.k).gather(s, keys, at(out, mul(i, t_.panel)));
  });
}

Value* AttentionEmitter::horizontal_maximum(Value* v) {
  for (int half = t_.lanes / 2; half >= 1; half /= 2) {
    std::vector<int> order;
    for (int l = 0; l < t_.lanes; ++l) order.push_back(l ^ half);
    v = larger(v, k_.ir.CreateShuffleVector(v, order));
  }
  return k_.ir.CreateExtractElement(v, uint64_t{0});
}

void AttentionEmitter::softmax_row(Scope& scope, Value* r, Value* query) {
  Value* row = at(scratch_.scores, mul(r, key_block));
  k_.ir.CreateStore(lowest(vector()), scratch_.largest);
  // Lanes behind the last key become -inf, so that their exponentials add nothing.
  for_vectors(scope, block_.count, t_.lanes, [&](Scope& s, Value* offset, Value* mask) {
    s.seek();
    Value* key = add(block_.begin, offset);
    s.set_axis(key_axis_, key);
    s.set_lanes(key_axis_, t_.lanes, mask);
    Value* x = final_score(s, scaled(load(at(row, offset))));
    if (a_.causal) {
      Value* last = spread(k_.ir.CreateTrunc(query, k_.ir.getInt32Ty()));
      x = k_.ir.CreateSelect(k_.ir.CreateICmpSLE(lane_numbers(key), last), x, lowest(vector()));
    }
    if (mask) x = k_.ir.CreateSelect(mask, x, lowest(vector()));
    store(x, at(row, offset));
    k_.ir.CreateStore(larger(x, k_.ir.CreateLoad(vector(), scratch_.largest)), scratch_.largest);
  });
  scope.seek();
  Value* now = horizontal_maximum(k_.ir.CreateLoad(vector(), scratch_.largest));
  Value* maximum = update_maximum(scope, r, now, k_.type_of(type_));
  int partials = partials_of(type_);
  auto partial = [&](int v) { return at(scratch_.partials, k_.i64(int64_t{v} * t_.lanes)); };
  for (int v = 0; v < partials / t_.lanes; ++v) store(zero(vector()), partial(v));
  if (plan_.on_tiles) hide_missing_keys_of_row(scope, row);
  Value* end = plan_.on_tiles ? tile_keys() : block_.count;
  emit_loop(scope, k_.i64(0), end, k_.i64(t_.lanes), true, [&](Scope& s, Value* offset) {
    s.seek();
    s.set_lanes(key_axis_, t_.lanes);
    Value *x = load(at(row, offset)), *p = nullptr;
    if (plan_.on_tiles) {
      p = emit_brief_exp(k_, k_.ir.CreateFSub(x, spread(maximum)));
      Value* to = element(k_, DType::bf16, scratch_.rounded, add(mul(r, key_block), offset));
      k_.ir.CreateAlignedStore(rounded(p), to, llvm::Align(32));
    } else {
      p = exponential(s, exp_score_, {x, true}, {maximum, false});
      store(p, at(row, offset));
    }
    Value* sum = at(scratch_.partials, k_.ir.CreateAnd(offset, k_.i64(partials - 1)));
    store(k_.ir.CreateFAdd(load(sum), p), sum);
  });
  scope.seek();
  std::vector<Value*> sums;
  for (int v = 0; v < partials / t_.lanes; ++v) sums.push_back(load(partial(v)));
  Value* before = k_.ir.CreateFMul(load_one(at(rows_.sum, r)), load_one(at(rows_.shrink, r)));
  Value* total = k_.ir.CreateFAdd(before, sum_partials(k_, std::move(sums), t_.lanes));
  k_.ir.CreateAlignedStore(total, at(rows_.sum, r), alignment());
}

}  // namespace hologram::cpu
