// backend/cpu/attention/grad_tiles.cpp: gradients of bfloat16 attention on AMX tiles.
//
// Blocks of 64 queries and 128 keys. The products' left operands are rows of bfloat16 numbers, the
// right ones words of two: q and g times words of a key's or value's numbers give the two tiles of
// float32; p and s, rounded and turned over, times words of two queries add to dv and dk, s as it
// lies times words of two keys adds to dq. Sums stay in memory as float32, each one chain over the
// steps of 32 queries or keys.
//
// Every operand is copied once as rows of bfloat16, from which words come: of keys and values
// turned over once for a block of keys, of two rows of k, q and g. Counted for 64 queries, 128
// keys, depth and width 64: five products of 64 tile products, 5,120 cycles, and 1,024 shuffles for
// turning p and s over.
#include "backend/cpu/attention/grad_emitter.h"

#include <algorithm>

#include "codegen/nest.h"
#include "codegen/transpose.h"

namespace hologram::cpu {

auto GradEmitter::tile_regions() -> Regions {
  tiles_.config = k_.slot(k_.ir.getInt64Ty(), "tile_config", 8);
  const int64_t queries = plan_.query_block, depth = tile_depth(), width = tile_width();
  auto numbers = [&](int64_t rows, int64_t of_row) { return k_.i64(rows * of_row / 2); };
  Regions regions{{&scratch_.kt, numbers(key_block, depth)},
                  {&scratch_.vt, numbers(key_block, width)},
                  {&scratch_.k_rows, numbers(key_block, std::max(depth, width))},
                  {&scratch_.q, numbers(queries, depth)},
                  {&scratch_.g, numbers(queries, width)},
                  {&scratch_.p, k_.i64(queries * key_block)},
                  {&scratch_.s, k_.i64(queries * key_block)}};
  if (wants_dq()) {
    regions.emplace_back(&tiles_.k_pairs, numbers(key_block, depth));
    regions.emplace_back(&tiles_.s_rows, numbers(queries, key_block));
  }
  if (wants_dk()) {
    regions.emplace_back(&tiles_.q_pairs, numbers(queries, depth));
    regions.emplace_back(&tiles_.st, numbers(key_block, queries));
  }
  if (wants_dv()) {
    regions.emplace_back(&tiles_.g_pairs, numbers(queries, width));
    regions.emplace_back(&tiles_.pt, numbers(key_block, queries));
  }
  return regions;
}

void GradEmitter::copy_tile_rows(Scope& scope, const atlas::Body& body, int row_axis, Value* begin,
                                 Value* count, int column_axis, Value* columns, int64_t width,
                                 Value* out) {
  emit_loop(scope, k_.i64(0), count, k_.i64(1), true, [&](Scope& s, Value* i) {
    s.seek();
    s.set_axis(row_axis, add(begin, i));
    copy_tile_row(s, body, column_axis, columns, out, mul(i, width));
  });
  scope.seek();
  if (fixed(count).value_or(1) % tile_rows == 0) return;
  emit_loop(scope, count, round_up(count, tile_rows), k_.i64(1), false, [&](Scope& s, Value* i) {
    for (int64_t c = 0; c < width / 2; c += t_.lanes) {
      s.seek();
      store(zero(vector()), at(out, add(mul(i, width / 2), c)));
    }
  });
  scope.seek();
}

void GradEmitter::turn_words(Scope& scope, Value* rows, int64_t width, Value* count, Value* out) {
  llvm::Type* words = k_.widen(k_.ir.getInt32Ty(), tile_square);
  emit_loop(scope, k_.i64(0), count, k_.i64(tile_square), true, [&](Scope& outer, Value* row) {
    emit_loop(
        outer, k_.i64(0), k_.i64(width / 2), k_.i64(tile_square), true, [&](Scope& s, Value* w) {
          s.seek();
          std::vector<Value*> lines;
          for (int64_t i = 0; i < tile_square; ++i)
            lines.push_back(k_.ir.CreateAlignedLoad(
                words, at(rows, add(mul(add(row, i), width / 2), w)), alignment()));
          lines = transpose(k_, std::move(lines));
          Value* panel = mul(k_.ir.CreateAnd(row, k_.i64(-tile_rows)), width / 2);
          Value* first = add(panel, k_.ir.CreateAnd(row, k_.i64(tile_square)));
          for (int64_t i = 0; i < tile_square; ++i)
            k_.ir.CreateAlignedStore(lines[static_cast<size_t>(i)],
                                     at(out, add(first, mul(add(w, i), tile_rows))), alignment());
        });
  });
  scope.seek();
}

void GradEmitter::pair_rows(Scope& scope, Value* rows, int64_t width, Value* count, int64_t most,
                            Value* out) {
  llvm::Type* line = k_.widen(k_.ir.getInt16Ty(), tile_rows);
  Value* pairs = k_.ir.CreateLShr(round_up(count, tile_rows), 1);
  emit_loop(scope, k_.i64(0), pairs, k_.i64(1), true, [&](Scope& outer, Value* pair) {
    emit_loop(outer, k_.i64(0), k_.i64(width), k_.i64(tile_rows), true, [&](Scope& s, Value* c) {
      s.seek();
      Value* first = add(mul(pair, 2 * width), c);
      auto row = [&](int64_t behind) {
        return k_.ir.CreateAlignedLoad(line, element(k_, DType::bf16, rows, add(first, behind)),
                                       alignment());
      };
      Value* words = interleave(row(0), row(width));
      k_.ir.CreateAlignedStore(words, at(out, add(mul(c, most / 2), mul(pair, tile_rows))),
                               alignment());
    });
  });
  scope.seek();
}

void GradEmitter::copy_keys_to_tiles(Scope& scope) {
  copy_tile_rows(scope, a_.v, key_axis_, keys_.begin, keys_.count, width_axis_, size_.width,
                 tile_width(), scratch_.k_rows);
  turn_words(scope, scratch_.k_rows, tile_width(), keys_.count, scratch_.vt);
  copy_tile_rows(scope, a_.k, key_axis_, keys_.begin, keys_.count, depth_axis_, size_.depth,
                 tile_depth(), scratch_.k_rows);
  turn_words(scope, scratch_.k_rows, tile_depth(), keys_.count, scratch_.kt);
  if (wants_dq())
    pair_rows(scope, scratch_.k_rows, tile_depth(), keys_.count, key_block, tiles_.k_pairs);
}

void GradEmitter::tile_scores(Scope& scope, Use use, Value* a, int64_t width, Value* b,
                              Value* out) {
  const TileKernel kernel{.terms = 1,
                          .tiles = 2,
                          .a_step = tile_row_bytes,
                          .a_term = 0,
                          .row = width * 2,
                          .prefetch = false,
                          .panels = false,
                          .out_row = key_block * 4};
  emit_loop(scope, k_.i64(0), keys_.count, k_.i64(tile_rows), true, [&](Scope& outer, Value* key) {
    emit_loop(outer, k_.i64(0), queries_.count, k_.i64(tile_rows), true, [&](Scope& s, Value* r) {
      s.seek();
      call_tiles(s, use, kernel, sub(queries_.count, r),
                 {at(a, mul(r, width / 2)), k_.i64(width * 2), at(b, mul(key, width / 2)),
                  k_.i64(width / 32), at(out, add(mul(r, key_block), key))});
    });
  });
  scope.seek();
}

void GradEmitter::add_on_tiles(Scope& scope, Use use, Value* a, int64_t a_row, Value* count,
                               Value* b, Value* depth, int64_t most, int64_t width, Value* out,
                               Value* height) {
  const TileKernel kernel{.terms = 1,
                          .tiles = 2,
                          .a_step = tile_row_bytes,
                          .a_term = 0,
                          .row = a_row * 2,
                          .prefetch = false,
                          .panels = false,
                          .accumulates = true};
  emit_loop(scope, k_.i64(0), k_.i64(width), k_.i64(tile_rows), true, [&](Scope& outer, Value* c) {
    emit_loop(outer, k_.i64(0), count, k_.i64(tile_rows), true, [&](Scope& s, Value* r) {
      s.seek();
      Value* steps = k_.ir.CreateLShr(round_up(depth, tile_rows), 5);
      call_tiles(s, use, kernel, sub(count, r),
                 {at(a, mul(r, a_row / 2)), k_.i64(a_row * 2), at(b, mul(c, most / 2)), steps,
                  at(out, add(mul(c, height), mul(r, tile_rows)))});
    });
  });
  scope.seek();
}

void GradEmitter::store_brief(Value* i, Value* offset, Value* mask, Value* p, Value* s) {
  Value* place = add(mul(i, key_block), offset);
  auto some = [&](Value* v) { return mask ? k_.ir.CreateSelect(mask, v, zero(vector())) : v; };
  if (wants_dv()) store(some(p), at(scratch_.p, place));
  if (wants_dk()) store(some(s), at(scratch_.s, place));
  if (wants_dq())
    k_.ir.CreateAlignedStore(rounded(some(s)), element(k_, DType::bf16, tiles_.s_rows, place),
                             alignment());
}

void GradEmitter::hide_missing_keys(Scope& scope, Value* i) {
  if (!wants_dq() || fixed(keys_.count).value_or(1) % tile_rows == 0) return;
  scope.seek();
  Value* vectors = round_up(keys_.count, tile_square);
  emit_if(scope, k_.ir.CreateICmpSLT(vectors, round_up(keys_.count, tile_rows)), [&](Scope& s) {
    s.seek();
    Value* to = element(k_, DType::bf16, tiles_.s_rows, add(mul(i, key_block), vectors));
    k_.ir.CreateAlignedStore(zero(k_.widen(k_.ir.getInt16Ty(), tile_square)), to, alignment());
  });
  scope.seek();
}

void GradEmitter::turn_scores(Scope& scope, Value* from, Value* to) {
  const int64_t row = plan_.query_block;
  if (fixed(queries_.count).value_or(1) % tile_rows != 0)
    emit_loop(scope, queries_.count, round_up(queries_.count, tile_rows), k_.i64(1), false,
              [&](Scope& s, Value* i) {
                s.seek();
                fill(s, at(from, mul(i, key_block)), k_.i64(key_block), zero(vector()));
              });
  scope.seek();
  emit_loop(scope, k_.i64(0), queries_.count, k_.i64(tile_rows), true, [&](Scope& outer, Value* q) {
    emit_loop(outer, k_.i64(0), keys_.count, k_.i64(tile_square), true, [&](Scope& s, Value* key) {
      s.seek();
      std::vector<Value*> lines;
      for (int64_t i = 0; i < tile_rows; i += 2) {
        auto row_of = [&](int64_t r) {
          return load(at(from, add(mul(add(q, r), key_block), key)));
        };
        lines.push_back(rounded_words(row_of(i), row_of(i + 1)));
      }
      lines = transpose(k_, std::move(lines));
      for (int64_t i = 0; i < tile_square; ++i)
        k_.ir.CreateAlignedStore(lines[static_cast<size_t>(i)],
                                 at(to, add(mul(add(key, i), row / 2), k_.ir.CreateLShr(q, 1))),
                                 alignment());
    });
  });
  scope.seek();
}

void GradEmitter::emit_score_block(Scope& scope) {
  const int64_t block = plan_.query_block;
  copy_tile_rows(scope, a_.q, query_axis_, queries_.begin, queries_.count, depth_axis_, size_.depth,
                 tile_depth(), scratch_.q);
  copy_tile_rows(scope, a_.g, query_axis_, queries_.begin, queries_.count, width_axis_, size_.width,
                 tile_width(), scratch_.g);
  gather_numbers(scope);
  scope.seek();
  tile_scores(scope, use_scores, scratch_.q, tile_depth(), scratch_.kt, scratch_.p);
  tile_scores(scope, use_values, scratch_.g, tile_width(), scratch_.vt, scratch_.s);
  emit_loop(scope, k_.i64(0), queries_.count, k_.i64(1), true,
            [&](Scope& s, Value* i) { score_row(s, i); });
  scope.seek();
  Value* key = complete_by_block() ? k_.i64(0) : sub(keys_.begin, unit_.first_key);
  Value* query = sub(queries_.begin, unit_.first_query);
  auto from_row = [&](Value* out, Value* row) { return at(out, mul(row, tile_rows)); };
  if (wants_dv()) {
    turn_scores(scope, scratch_.p, tiles_.pt);
    pair_rows(scope, scratch_.g, tile_width(), queries_.count, block, tiles_.g_pairs);
    add_on_tiles(scope, use_dv, tiles_.pt, block, keys_.count, tiles_.g_pairs, queries_.count,
                 block, tile_width(), from_row(scratch_.dv, key), size_.dk_rows);
  }
  if (wants_dk()) {
    turn_scores(scope, scratch_.s, tiles_.st);
    pair_rows(scope, scratch_.q, tile_depth(), queries_.count, block, tiles_.q_pairs);
    add_on_tiles(scope, use_dk, tiles_.st, block, keys_.count, tiles_.q_pairs, queries_.count,
                 block, tile_depth(), from_row(scratch_.dk, key), size_.dk_rows);
  }
  if (wants_dq())
    add_on_tiles(scope, use_dq, tiles_.s_rows, key_block, queries_.count, tiles_.k_pairs,
                 keys_.count, key_block, tile_depth(), from_row(scratch_.dq, query), size_.dq_rows);
}

}  // namespace hologram::cpu
