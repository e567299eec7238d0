// backend/cpu/attention/few.cpp: attention of few queries on AMX tiles, bfloat16.
//
// The queries of a unit, those of all heads that share its keys, are at most 16 rows. Scores are
// k q^T, 16 keys a tile and 16 columns for the queries, so that keys stay where they are; a
// tile_square of scores is turned over in registers for the softmax, whose lanes run along the
// keys. The values' sums are p v with tiles of as many rows as there are queries: v's words of two
// keys are its rows side by side.
//
// A cache of any size is read in place where the depth is whole tiles; its last keys that are not
// 16 are copied, so that nothing is read behind them. Masks are read as they lie. Both shapes of
// tile are in one configuration. Counted for 128 keys, depth and width 64, four heads (a test
// does): 16 tile products of 16 rows for the scores, 16 of four for the values, 320 cycles.
#include "backend/cpu/attention/emitter.h"
#include "codegen/nest.h"
#include "codegen/transpose.h"

namespace hologram::cpu {
namespace {

constexpr int64_t tile_columns = 32;

}  // namespace

void AttentionEmitter::prepare_few(Regions& regions) {
  scratch_.config = k_.slot(k_.ir.getInt64Ty(), "tile_config", 8);
  const int64_t keys = plan_.k_load ? tile_square : key_block;  // also holds the queries' rows
  regions.emplace_back(&scratch_.k_block, k_.i64(keys * tile_depth() / 2));
  regions.emplace_back(&scratch_.v_block, k_.i64(key_block / 2 * tile_columns));
  regions.emplace_back(&scratch_.product, k_.i64(key_block * few_columns));
  regions.emplace_back(&scratch_.rounded, k_.i64(plan_.query_block * key_block / 2));
}

void AttentionEmitter::turn_few_queries(Scope& scope) {
  const int64_t rows = plan_.query_block;
  emit_loop(scope, k_.i64(0), k_.i64(rows), k_.i64(1), true, [&](Scope& s, Value* r) {
    s.seek();
    set_row(s, r);
    copy_tile_row(s, a_.q, depth_axis_, size_.depth, scratch_.k_block, mul(r, tile_depth()));
  });
  llvm::Type* words = k_.widen(k_.ir.getInt32Ty(), tile_square);
  emit_loop(scope, k_.i64(0), k_.i64(tile_depth() / 2), k_.i64(tile_square), true,
            [&](Scope& s, Value* pair) {
              s.seek();
              std::vector<Value*> lines;
              for (int64_t r = 0; r < tile_square; ++r) {
                Value* from = at(scratch_.k_block, add(pair, r * tile_depth() / 2));
                lines.push_back(r < rows ? k_.ir.CreateAlignedLoad(words, from, alignment())
                                         : static_cast<Value*>(zero(words)));
              }
              lines = transpose(k_, std::move(lines));
              for (int64_t w = 0; w < tile_square; ++w)
                k_.ir.CreateAlignedStore(lines[static_cast<size_t>(w)],
                                         at(rows_.q, mul(add(pair, w), few_columns)), alignment());
            });
  scope.seek();
}

void AttentionEmitter::few_block(Scope& scope) {
  few_scores(scope);
  softmax_rows(scope);
  add_few_values(scope);
}

void AttentionEmitter::few_scores(Scope& scope) {
  if (!plan_.k_load) copy_tile_keys(scope, k_.i64(0), block_.count);
  scope.seek();
  const bool copies_last = plan_.k_load && fixed(block_.count).value_or(1) % tile_square != 0;
  TileKernel kernel{.terms = 1,
                    .tiles = 2,
                    .a_step = tile_row_bytes,
                    .a_term = 0,
                    .row = std::nullopt,
                    .prefetch = k_.target.tile_prefetch,
                    .next_rows = true,
                    .panels = false,
                    .columns = 1,
                    .one_row_tile = true};
  auto scores = [&](Scope& s, Use use, Value* keys, Value* row, Value* key, Value* count) {
    kernel.row = fixed(row);
    call_tiles(s, use, kernel, count,
               {keys, row, rows_.q, k_.i64(tile_depth() / 32),
                at(scratch_.product, mul(key, few_columns))});
  };
  Value *keys = keys_in_place(), *row = key_row_bytes(), *whole = block_.count;
  if (copies_last) whole = k_.ir.CreateAnd(whole, k_.i64(-tile_square));
  emit_loop(scope, k_.i64(0), whole, k_.i64(tile_rows), !copies_last, [&](Scope& s, Value* key) {
    s.seek();
    scores(s, use_scores, element(k_, DType::u8, keys, mul(key, row)), row, key, sub(whole, key));
  });
  scope.seek();
  // Behind the last key there may be no memory.
  if (copies_last)
    emit_if(scope, k_.ir.CreateICmpSLT(whole, block_.count), [&](Scope& s) {
      s.seek();
      copy_tile_keys(s, whole, block_.count);
      kernel.tiles = 1;
      kernel.prefetch = false;
      scores(s, use_last_scores, scratch_.k_block, k_.i64(tile_depth() * 2), whole,
             k_.i64(tile_square));
    });
  emit_loop(scope, k_.i64(0), block_.count, k_.i64(tile_square), true, [&](Scope& s, Value* key) {
    s.seek();
    std::vector<Value*> lines;
    for (int64_t i = 0; i < tile_square; ++i)
      lines.push_back(load(at(scratch_.product, mul(add(key, i), few_columns))));
    lines = transpose(k_, std::move(lines));
    for (int64_t r = 0; r < plan_.query_block; ++r)
      store(lines[static_cast<size_t>(r)], at(scratch_.scores, add(key, r * key_block)));
  });
  scope.seek();
}

void AttentionEmitter::hide_missing_keys_of_row(Scope& scope, Value* row) {
  scope.seek();
  const Fixed count = fixed(block_.count);
  if (count && (*count + 31) / 32 * 2 == (*count + 15) / 16) return;
  Value* vectors = round_up(block_.count, t_.lanes);
  emit_if(scope, k_.ir.CreateICmpSLT(vectors, tile_keys()), [&](Scope& s) {
    s.seek();
    store(lowest(vector()), at(row, vectors));
  });
  scope.seek();
}

void AttentionEmitter::add_few_values(Scope& scope) {
  const int64_t rows = plan_.query_block;
  const TileKernel kernel{.terms = 1,
                          .tiles = 1,
                          .a_step = tile_row_bytes,
                          .a_term = 0,
                          .row = key_block * 2,
                          .rows = static_cast<int>(rows),
                          .prefetch = false,
                          .panels = false,
                          .first_sum = few_sums,
                          .first_row = few_row};
  emit_loop(scope, k_.i64(0), size_.values, k_.i64(tile_columns), true,
            [&](Scope& s, Value* column) {
              pair_values(s, column);
              s.seek();
              call_tiles(s, use_values, kernel, k_.i64(rows),
                         {scratch_.rounded, k_.i64(key_block * 2), scratch_.v_block,
                          k_.ir.CreateLShr(tile_keys(), 5), scratch_.product});
              s.seek();
              Value* out = at(rows_.out, mul(column, rows));
              emit_loop(s, k_.i64(0), k_.i64(rows), k_.i64(1), true, [&](Scope& inner, Value* r) {
                inner.seek();
                Value* shrink = spread(load_one(at(rows_.shrink, r)));
                for (int64_t c = 0; c < tile_columns; c += t_.lanes) {
                  Value* i = add(mul(r, tile_columns), c);
                  Value* sum = k_.ir.CreateFMul(load(at(out, i)), shrink);
                  store(k_.ir.CreateFAdd(sum, load(at(scratch_.product, i))), at(out, i));
                }
              });
            });
  scope.seek();
}

}  // namespace hologram::cpu
