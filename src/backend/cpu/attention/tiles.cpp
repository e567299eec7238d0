// backend/cpu/attention/tiles.cpp: attention's products on AMX tiles.
//
// The words of two values that the dot instruction takes are what tiles take as right operand: q,
// [pair of the depth][query], and probabilities, [pair of keys][query]. So scores are k q^T as
// ever, 32 keys by 32 queries at a time, and the sums of values are v^T p, [column][query], which
// are turned over once behind the last key.
//
// k is read in place where the depth is whole tiles and the keys are a multiple of 16; each tile
// product is followed by prefetches of the rows of the next 32 keys. v is turned over for each
// block of keys by squares of words: 16 loads of 16 words and 64 shuffles for 32 keys and 16
// columns. Up to four panels of queries of a unit share that copy. A causal panel stops at its own
// last query.
//
// Counted for 128 keys and 128 queries, depth and width 64: 128 tile products for the scores and
// 128 for the values (4,096 cycles); 1,024 vectors of exponentials of nine instructions, a rounding
// for two of them; 16 squares of v, 1,024 shuffles and as many loads and half of them again to
// interleave. So exponentials bound it as much as tiles do.
#include "backend/cpu/attention/emitter.h"
#include "codegen/nest.h"
#include "codegen/transpose.h"

namespace hologram::cpu {
namespace {

constexpr int64_t tile_queries = 32;

}  // namespace

void AttentionEmitter::prepare_tiles(Regions& regions) {
  scratch_.config = k_.slot(k_.ir.getInt64Ty(), "tile_config", 8);
  const int64_t panels = plan_.query_block / tile_queries;
  regions.emplace_back(&rows_.columns, mul(size_.value_panels, tile_rows * tile_queries * panels));
  regions.emplace_back(&scratch_.product, k_.i64(tile_rows * tile_queries));
  regions.emplace_back(&scratch_.v_block, mul(size_.value_panels, values_bytes() / 4));
  if (!plan_.k_load)
    regions.emplace_back(&scratch_.k_block, k_.i64(key_block * tile_depth() / 2 * plan_.terms));
  if (splits()) prepare_terms(regions);
}

void AttentionEmitter::for_query_panels(Scope& scope, const std::function<void(Scope&)>& each) {
  scope.seek();
  const Rows whole = rows_;
  Value* panels = div(add(whole.count, tile_queries - 1), k_.i64(tile_queries));
  emit_loop(scope, k_.i64(0), panels, k_.i64(1), true, [&](Scope& s, Value* panel) {
    s.seek();
    Value* first = mul(panel, tile_queries);
    rows_.begin = add(whole.begin, first);
    rows_.count = least(sub(whole.count, first), k_.i64(tile_queries));
    rows_.q = at(whole.q, mul(first, tile_depth()));
    for (Value** m : {&rows_.max, &rows_.sum, &rows_.shrink}) *m = at(*m, first);
    rows_.out = at(whole.out, mul(first, tile_rows));
    rows_.columns = at(whole.columns, mul(first, mul(size_.value_panels, tile_rows)));
    if (splits()) {
      rows_.words = at(whole.words, mul(first, depth_steps() * step_words() / tile_queries));
      rows_.classes = element(k_, DType::i32, whole.classes, first);
      rows_.class_of_all = element(k_, DType::i32, whole.class_of_all, panel);
    }
    each(s);
    rows_ = whole;
  });
  scope.seek();
}

void AttentionEmitter::tile_block(Scope& scope) {
  if (splits())
    split_keys(scope);
  else if (!plan_.k_load)
    copy_tile_keys(scope, k_.i64(0), block_.count);
  splits() ? split_values(scope) : copy_tile_values(scope);
  for_query_panels(scope, [&](Scope& s) {
    Value* all = block_.count;
    if (a_.causal)  // what the last query of the panel sees
      block_.count = least(all, sub(add(rows_.begin, rows_.count), block_.begin));
    emit_if(s, k_.ir.CreateICmpSGT(block_.count, k_.i64(0)), [&](Scope& inner) {
      scores_by_queries(inner);
      if (splits()) split_probabilities(inner);
      add_tile_values(inner);
    });
    block_.count = all;
  });
}

RowsOfTiles AttentionEmitter::rows_of_attention_tiles() const {
  RowsOfTiles rows = rows_of_tiles();
  if (few_on_tiles())
    for (int tile : {few_sums, few_sums + 1, few_row})
      rows[static_cast<size_t>(tile)] = static_cast<uint8_t>(plan_.query_block);
  return rows;
}

Value* AttentionEmitter::keys_in_place() {
  if (!plan_.k_load) return scratch_.k_block;
  return element(k_, DType::bf16, k_.buffer(plan_.k_load->buffer),
                 add(unit_.k_base, mul(block_.begin, size_.k_row)));
}

Value* AttentionEmitter::key_row_bytes() {
  return plan_.k_load ? mul(size_.k_row, 2) : k_.i64(tile_depth() * 2);
}

void AttentionEmitter::copy_tile_keys(Scope& scope, Value* first, Value* end) {
  emit_loop(scope, first, end, k_.i64(1), true, [&](Scope& s, Value* i) {
    s.seek();
    s.set_axis(key_axis_, add(block_.begin, i));
    Value* row = first == k_.i64(0) ? i : sub(i, first);
    copy_tile_row(s, a_.k, depth_axis_, size_.depth, scratch_.k_block, mul(row, tile_depth()));
  });
  scope.seek();
}

void AttentionEmitter::copy_tile_values(Scope& scope) {
  emit_loop(scope, k_.i64(0), tile_keys(), k_.i64(32), true, [&](Scope& s, Value* key) {
    for_vectors(s, size_.values, tile_square, [&](Scope& inner, Value* column, Value* mask) {
      inner.seek();
      Value* first = k_.ir.CreateLShr(key, 1);
      std::vector<Value*> words;
      for (int r = 0; r < tile_square; ++r)
        words.push_back(value_words(inner, add(first, r), column, tile_square, mask));
      words = transpose(k_, std::move(words));
      Value* group = k_.ir.CreateLShr(column, 5);
      Value* row = k_.ir.CreateAnd(column, k_.i64(tile_rows - 1));
      Value* to =
          add(mul(group, values_bytes()), add(mul(key, tile_row_bytes), mul(row, tile_row_bytes)));
      for (int c = 0; c < tile_square; ++c)
        k_.ir.CreateAlignedStore(
            words[static_cast<size_t>(c)],
            element(k_, DType::u8, scratch_.v_block, add(to, c * tile_row_bytes)),
            llvm::Align(tile_row_bytes));
    });
  });
  scope.seek();
}

void AttentionEmitter::tile_scores(Scope& scope) {
  scope.seek();
  Value* keys = keys_in_place();
  Value* row = splits() ? k_.i64(tile_row_bytes) : key_row_bytes();
  const TileKernel kernel{.terms = plan_.terms,
                          .tiles = 2,
                          .a_step = splits() ? step_words() * 4 : tile_row_bytes,
                          .a_term = plane_bytes,
                          .row = fixed(row),
                          .prefetch = k_.target.tile_prefetch,
                          .next_rows = !splits(),
                          .panels = false};
  emit_loop(scope, k_.i64(0), block_.count, k_.i64(tile_rows), true, [&](Scope& s, Value* key) {
    s.seek();
    call_tiles(s, use_scores, kernel, sub(block_.count, key),
               {splits() ? key_row(key) : element(k_, DType::u8, keys, mul(key, row)), row,
                splits() ? rows_.words : rows_.q, k_.i64(tile_depth() / 32),
                at(scratch_.scores, mul(key, tile_queries))});
  });
  if (splits()) repair_scores(scope);
  scope.seek();
}

void AttentionEmitter::hide_missing_keys(Scope& scope, Value* offset) {
  if (fixed(block_.count).value_or(1) % 32 == 0) return;
  emit_loop(scope, block_.count, tile_keys(), k_.i64(1), false, [&](Scope& s, Value* key) {
    s.seek();
    store(lowest(vector()), at(scratch_.scores, add(mul(key, tile_queries), offset)));
  });
  scope.seek();
}

void AttentionEmitter::add_tile_values(Scope& scope) {
  const int one = t_.lanes;
  t_.lanes = t_.panel;
  emit_loop(scope, k_.i64(0), size_.values, k_.i64(tile_rows), true, [&](Scope& s, Value* column) {
    s.seek();
    Value* count = least(sub(size_.values, column), k_.i64(tile_rows));
    Value* from = element(k_, DType::u8, scratch_.v_block, mul(column, values_bytes() / tile_rows));
    Value* steps = k_.ir.CreateLShr(tile_keys(), 5);
    const TileKernel kernel{.terms = plan_.terms,
                            .tiles = 2,
                            .a_step = step_words() * 4,
                            .a_term = plane_bytes,
                            .row = tile_row_bytes,
                            .prefetch = k_.target.tile_prefetch,
                            .panels = false};
    call_tiles(s, use_values, kernel, count,
               {from, k_.i64(tile_row_bytes), splits() ? scratch_.p_words : scratch_.scores, steps,
                scratch_.product});
    if (splits()) repair_values(s, column, count);
    s.seek();
    Value* shrink = load(rows_.shrink);
    Value* sums = at(rows_.columns, mul(column, tile_queries));
    emit_loop(s, k_.i64(0), count, k_.i64(1), true, [&](Scope& inner, Value* r) {
      inner.seek();
      Value *i = mul(r, tile_queries), *to = at(sums, i);
      store(k_.ir.CreateFAdd(k_.ir.CreateFMul(load(to), shrink), load(at(scratch_.product, i))),
            to);
    });
  });
  t_.lanes = one;
  scope.seek();
}

void AttentionEmitter::turn_columns(Scope& scope) {
  emit_loop(
      scope, k_.i64(0), size_.values, k_.i64(tile_square), true, [&](Scope& s, Value* column) {
        s.seek();
        Value* group = k_.ir.CreateLShr(column, 5);
        Value* to = at(rows_.out, add(mul(group, plan_.query_block * tile_rows),
                                      k_.ir.CreateAnd(column, k_.i64(tile_rows - 1))));
        for (int64_t query = 0; query < tile_queries; query += tile_square) {
          std::vector<Value*> rows;
          for (int64_t c = 0; c < tile_square; ++c)
            rows.push_back(load(at(rows_.columns, add(mul(add(column, c), tile_queries), query))));
          rows = transpose(k_, std::move(rows));
          for (int64_t r = 0; r < tile_square; ++r)
            store(rows[static_cast<size_t>(r)], at(to, k_.i64((query + r) * tile_rows)));
        }
      });
  scope.seek();
}

}  // namespace hologram::cpu
