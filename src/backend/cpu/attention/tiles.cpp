// backend/cpu/attention/tiles.cpp: attention's products of bfloat16 on AMX tiles.
//
// The words of two values that the dot instruction takes are what tiles take as right operand: q,
// [pair of the depth][query], and probabilities, [pair of keys][query]. So scores are k q^T as
// ever, 32 keys by 32 queries at a time, and the sums of values are v^T p, [column][query], which
// are turned over once behind the last key.
#include "backend/cpu/attention/emitter.h"
#include "codegen/nest.h"
#include "codegen/transpose.h"

namespace hologram::cpu {
namespace {

constexpr int64_t tile_queries = 32, tile_rows = 32, square = 16;
constexpr int64_t row_bytes = 64, step_bytes = tile_rows * row_bytes;
constexpr int64_t group_bytes = key_block / 32 * step_bytes;  // of 32 columns of v, for a block

}  // namespace

void AttentionEmitter::prepare_tiles(Regions& regions) {
  config_ = k_.slot(k_.ir.getInt64Ty(), "tile_config", 8);
  const int64_t panels = plan_.query_block / tile_queries;
  regions.emplace_back(&columns_, mul(value_panels_, tile_rows * tile_queries * panels));
  regions.emplace_back(&product_, k_.i64(tile_rows * tile_queries));
  regions.emplace_back(&v_block_, mul(value_panels_, group_bytes / 4));
  if (!plan_.k_load) regions.emplace_back(&k_block_, k_.i64(key_block * tile_depth() / 2));
}

void AttentionEmitter::for_query_panels(Scope& scope, const std::function<void(Scope&)>& each) {
  scope.seek();
  Value** const members[] = {&query_begin_, &query_count_, &q_,   &max_,
                             &sum_,         &shrink_,      &out_, &columns_};
  std::vector<Value*> whole;
  for (Value** m : members) whole.push_back(*m);
  Value* panels = div(add(query_count_, tile_queries - 1), k_.i64(tile_queries));
  emit_loop(scope, k_.i64(0), panels, k_.i64(1), true, [&](Scope& s, Value* panel) {
    s.seek();
    Value* first = mul(panel, tile_queries);
    query_begin_ = add(whole[0], first);
    query_count_ = least(sub(whole[1], first), k_.i64(tile_queries));
    q_ = at(whole[2], mul(first, tile_depth()));
    for (Value** m : {&max_, &sum_, &shrink_}) *m = at(*m, first);
    out_ = at(whole[6], mul(first, tile_rows));
    columns_ = at(whole[7], mul(first, mul(value_panels_, tile_rows)));
    each(s);
    for (size_t i = 0; i < whole.size(); ++i) *members[i] = whole[i];
  });
  scope.seek();
}

void AttentionEmitter::tile_block(Scope& scope) {
  if (!plan_.k_load) copy_tile_keys(scope);
  copy_tile_values(scope);
  for_query_panels(scope, [&](Scope& s) {
    Value* all = key_count_;
    if (a_.causal)  // what the last query of the panel sees
      key_count_ = least(all, sub(add(query_begin_, query_count_), key_begin_));
    emit_if(s, k_.ir.CreateICmpSGT(key_count_, k_.i64(0)), [&](Scope& inner) {
      scores_by_queries(inner);
      add_tile_values(inner);
    });
    key_count_ = all;
  });
}

Value* AttentionEmitter::key_row_bytes() {
  return plan_.k_load ? mul(k_row_, 2) : k_.i64(tile_depth() * 2);
}

void AttentionEmitter::copy_tile_keys(Scope& scope) {
  constexpr int lanes = row_bytes / 2;
  emit_loop(scope, k_.i64(0), key_count_, k_.i64(1), true, [&](Scope& s, Value* i) {
    s.seek();
    s.set_axis(key_axis_, add(key_begin_, i));
    for_vectors(s, depth_, lanes, [&](Scope& inner, Value* offset, Value* mask) {
      inner.set_axis(depth_axis_, offset);
      inner.set_lanes(depth_axis_, lanes, mask);
      Value* x = splat(k_, emit_body(inner, a_.k).back(), lanes);
      inner.seek();
      if (mask) x = k_.ir.CreateSelect(mask, x, zero(x->getType()));
      Value* to = element(k_, DType::bf16, k_block_, add(mul(i, tile_depth()), offset));
      k_.ir.CreateAlignedStore(x, to, llvm::Align(row_bytes));
    });
  });
  scope.seek();
}

void AttentionEmitter::copy_tile_values(Scope& scope) {
  emit_loop(scope, k_.i64(0), tile_keys(), k_.i64(32), true, [&](Scope& s, Value* key) {
    for_vectors(s, values_, square, [&](Scope& inner, Value* column, Value* mask) {
      inner.seek();
      Value* first = k_.ir.CreateLShr(key, 1);
      std::vector<Value*> words;
      for (int r = 0; r < square; ++r)
        words.push_back(value_words(inner, add(first, r), column, square, mask));
      words = transpose(k_, std::move(words));
      Value* group = k_.ir.CreateLShr(column, 5);
      Value* row = k_.ir.CreateAnd(column, k_.i64(tile_rows - 1));
      Value* to = add(mul(group, group_bytes), add(mul(key, row_bytes), mul(row, row_bytes)));
      for (int c = 0; c < square; ++c)
        k_.ir.CreateAlignedStore(words[static_cast<size_t>(c)],
                                 element(k_, DType::u8, v_block_, add(to, c * row_bytes)),
                                 llvm::Align(row_bytes));
    });
  });
  scope.seek();
}

void AttentionEmitter::call_tiles(Scope& scope, bool scores, Value* count,
                                  std::vector<Value*> arguments) {
  std::map<int64_t, llvm::Function*> kernels;
  for (int tiles : {1, 2}) {
    llvm::Function*& f = tile_kernels_[{scores, tiles}];
    const TileKernel kernel{.terms = 1,
                            .tiles = tiles,
                            .a_step = scores ? row_bytes : step_bytes,
                            .a_term = 0,
                            .row = fixed(arguments[1]),
                            .prefetch = k_.target.tile_prefetch,
                            .next_rows = scores,
                            .panels = false};
    if (!f) f = kernel.emit(k_);
    kernels[tiles] = f;
  }
  Value* none = llvm::Constant::getNullValue(k_.ir.getPtrTy());
  arguments.insert(arguments.end(), {none, none});
  Value* tiles = k_.ir.CreateSelect(k_.ir.CreateICmpSGT(count, k_.i64(16)), k_.i64(2), k_.i64(1));
  call_one(scope, tiles, kernels, arguments);
}

void AttentionEmitter::tile_scores(Scope& scope) {
  scope.seek();
  Value* keys = k_block_;
  if (plan_.k_load)
    keys = element(k_, DType::bf16, k_.buffer(plan_.k_load->buffer),
                   add(k_base_, mul(key_begin_, k_row_)));
  Value* row = key_row_bytes();
  emit_loop(scope, k_.i64(0), key_count_, k_.i64(tile_rows), true, [&](Scope& s, Value* key) {
    s.seek();
    call_tiles(s, true, sub(key_count_, key),
               {element(k_, DType::u8, keys, mul(key, row)), row, q_, k_.i64(tile_depth() / 32),
                at(scores_, mul(key, tile_queries))});
  });
  scope.seek();
}

void AttentionEmitter::hide_missing_keys(Scope& scope, Value* offset) {
  if (fixed(key_count_).value_or(1) % 32 == 0) return;
  emit_loop(scope, key_count_, tile_keys(), k_.i64(1), false, [&](Scope& s, Value* key) {
    s.seek();
    store(lowest(vector()), at(scores_, add(mul(key, tile_queries), offset)));
  });
  scope.seek();
}

void AttentionEmitter::add_tile_values(Scope& scope) {
  const int one = t_.lanes;
  t_.lanes = t_.panel;
  emit_loop(scope, k_.i64(0), values_, k_.i64(tile_rows), true, [&](Scope& s, Value* column) {
    s.seek();
    Value* count = least(sub(values_, column), k_.i64(tile_rows));
    Value* from = element(k_, DType::u8, v_block_, mul(column, group_bytes / tile_rows));
    Value* steps = k_.ir.CreateLShr(tile_keys(), 5);
    call_tiles(s, false, count, {from, k_.i64(row_bytes), scores_, steps, product_});
    s.seek();
    Value* shrink = load(shrink_);
    Value* sums = at(columns_, mul(column, tile_queries));
    emit_loop(s, k_.i64(0), count, k_.i64(1), true, [&](Scope& inner, Value* r) {
      inner.seek();
      Value *i = mul(r, tile_queries), *to = at(sums, i);
      store(k_.ir.CreateFAdd(k_.ir.CreateFMul(load(to), shrink), load(at(product_, i))), to);
    });
  });
  t_.lanes = one;
  scope.seek();
}

void AttentionEmitter::turn_columns(Scope& scope) {
  emit_loop(scope, k_.i64(0), values_, k_.i64(square), true, [&](Scope& s, Value* column) {
    s.seek();
    Value* group = k_.ir.CreateLShr(column, 5);
    Value* to = at(out_, add(mul(group, plan_.query_block * tile_rows),
                             k_.ir.CreateAnd(column, k_.i64(tile_rows - 1))));
    for (int64_t query = 0; query < tile_queries; query += square) {
      std::vector<Value*> rows;
      for (int64_t c = 0; c < square; ++c)
        rows.push_back(load(at(columns_, add(mul(add(column, c), tile_queries), query))));
      rows = transpose(k_, std::move(rows));
      for (int64_t r = 0; r < square; ++r)
        store(rows[static_cast<size_t>(r)], at(to, k_.i64((query + r) * tile_rows)));
    }
  });
  scope.seek();
}

}  // namespace hologram::cpu
