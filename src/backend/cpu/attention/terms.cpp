// backend/cpu/attention/terms.cpp: attention's products of float32 on AMX tiles, as bfloat16 terms.
//
// What tiles.cpp makes of bfloat16 once, these make once for each term: words of q and of
// probabilities, rows of k and of the values' columns. Terms of a step lie behind each other. The
// softmax between the products is float32. Scores and sums of values that terms cannot give, by the
// classes of atlas/tile_math.h, become chains of multiply-adds.
//
// q is split once for a unit, keys and values once for a block of keys and all panels of a unit
// (one to eight), probabilities once for a panel and block. Keys are copied in groups of 32 rows,
// step by step and term by term, so that tiles read one stream. Classes are folded while numbers
// are split; only where one is not the best, scores and columns are looked at.
//
// Counted for 128 keys and 128 queries, depth and width 64 (a test does, for 96 queries): 768 tile
// products for each of the two, 24,576 cycles in all, where multiply-adds take 65,536 by two
// instructions a cycle. The plan's model adds 0.6 cycles to split a number of a key or probability,
// one for a value, and waiting for the second-level cache: by it terms gain 1.10 in units of four
// panels and 1.23 in units of eight, at a depth of 32 nothing (0.94 and 1.04).
#include "backend/cpu/tiles/terms.h"
#include "atlas/order.h"
#include "backend/cpu/attention/emitter.h"
#include "codegen/nest.h"
#include "codegen/transpose.h"

namespace hologram::cpu {
namespace {

constexpr int64_t plane_words = plane_bytes / 4;
constexpr auto narrow = static_cast<uint32_t>(atlas::Magnitudes::narrow);

}  // namespace

void AttentionEmitter::prepare_terms(Regions& regions) {
  const int64_t panels = plan_.query_block / t_.panel;
  regions.emplace_back(&rows_.words, k_.i64(panels * depth_steps() * step_words()));
  regions.emplace_back(&scratch_.p_words, k_.i64(key_block / atlas::tile_step * step_words()));
  regions.emplace_back(&scratch_.value_classes, mul(size_.value_panels, t_.panel));
  llvm::Type* word = k_.ir.getInt32Ty();
  rows_.classes = k_.slot(word, "query_classes", plan_.query_block);
  rows_.class_of_all = k_.slot(word, "class_of_queries", panels);
  scratch_.key_class = k_.slot(word, "class_of_keys");
  scratch_.value_class = k_.slot(k_.widen(word, tile_square), "class_of_values");
  llvm::Type* halves = k_.widen(k_.ir.getInt16Ty(), atlas::tile_step);
  scratch_.least = k_.slot(halves, "least");
  scratch_.most = k_.slot(halves, "most");
}

Value* AttentionEmitter::pair_place(Value* words, Value* pair) {
  Value* step = k_.ir.CreateLShr(pair, 4);
  Value* row = k_.ir.CreateAnd(pair, k_.i64(tile_square - 1));
  return at(words, add(mul(step, step_words()), mul(row, t_.panel)));
}

Value* AttentionEmitter::load_panel(Value* from) {
  return k_.ir.CreateAlignedLoad(k_.lane_type(type_, t_.panel), from, alignment());
}

void AttentionEmitter::split_queries(Scope& scope) {
  llvm::Type* halves = k_.widen(k_.ir.getInt16Ty(), t_.panel);
  TileClasses classes{k_};
  auto folded =
      emit_loop(scope, k_.i64(0), k_.i64(tile_depth() / 2), k_.i64(1), true,
                {classes.none_least(halves), classes.none_most(halves)},
                [&](Scope& s, Value* pair, std::vector<Value*> so_far) {
                  s.seek();
                  Value* low = load_panel(at(rows_.q, mul(pair, 2 * t_.panel)));
                  Value* high = load_panel(at(rows_.q, add(mul(pair, 2 * t_.panel), t_.panel)));
                  store_terms(emit_pairs_of_terms(k_, low, high, plan_.terms, so_far[0], so_far[1]),
                              pair_place(rows_.words, pair));
                  return so_far;
                });
  scope.seek();
  k_.ir.CreateAlignedStore(classes.of_halves(folded[0], folded[1]), rows_.classes, llvm::Align(4));
  k_.ir.CreateStore(classes.of_all(folded[0], folded[1]), rows_.class_of_all);
}

void AttentionEmitter::store_terms(const std::vector<Value*>& words, Value* to) {
  for (size_t t = 0; t < words.size(); ++t)
    k_.ir.CreateAlignedStore(words[t], at(to, k_.i64(static_cast<int64_t>(t) * plane_words)),
                             alignment());
}

Value* AttentionEmitter::key_row(Value* key) {
  const int64_t group = depth_steps() * step_words() * 4;
  return element(k_, DType::u8, scratch_.k_block,
                 add(mul(k_.ir.CreateLShr(key, 5), group),
                     mul(k_.ir.CreateAnd(key, k_.i64(tile_rows - 1)), tile_row_bytes)));
}

void AttentionEmitter::split_keys(Scope& scope) {
  constexpr int lanes = atlas::tile_step;
  llvm::Type* halves = k_.widen(k_.ir.getInt16Ty(), lanes);
  TileClasses classes{k_};
  scope.seek();
  k_.ir.CreateStore(classes.none_least(halves), scratch_.least);
  k_.ir.CreateStore(classes.none_most(halves), scratch_.most);
  std::vector<int> upper;
  for (int l = 0; l < lanes; ++l) upper.push_back(2 * l + 1);
  emit_loop(scope, k_.i64(0), block_.count, k_.i64(1), true, [&](Scope& row, Value* i) {
    row.seek();
    row.set_axis(key_axis_, add(block_.begin, i));
    Value* to = key_row(i);
    for_vectors(row, size_.depth, lanes, [&](Scope& s, Value* offset, Value* mask) {
      s.set_axis(depth_axis_, offset);
      s.set_lanes(depth_axis_, lanes, mask);
      Value* x = splat(k_, emit_body(s, a_.k).back(), lanes);
      s.seek();
      if (mask) x = k_.ir.CreateSelect(mask, x, zero(x->getType()));
      Value* step = element(k_, DType::u8, to, mul(offset, step_words() * 4 / lanes));
      std::vector<Value*> terms = emit_term_words(k_, x, plan_.terms);
      for (size_t t = 0; t < terms.size(); ++t) {
        Value* all = k_.ir.CreateBitCast(terms[t], k_.widen(k_.ir.getInt16Ty(), 2 * lanes));
        terms[t] = k_.ir.CreateShuffleVector(all, upper);
        Value* plane = element(k_, DType::u8, step, k_.i64(static_cast<int64_t>(t) * plane_bytes));
        k_.ir.CreateAlignedStore(terms[t], plane, llvm::Align(tile_row_bytes));
      }
      Value *least = k_.ir.CreateLoad(halves, scratch_.least),
            *most = k_.ir.CreateLoad(halves, scratch_.most);
      classes.fold(terms[0], least, most);
      k_.ir.CreateStore(least, scratch_.least);
      k_.ir.CreateStore(most, scratch_.most);
    });
  });
  scope.seek();
  k_.ir.CreateStore(classes.of_all(k_.ir.CreateLoad(halves, scratch_.least),
                                   k_.ir.CreateLoad(halves, scratch_.most)),
                    scratch_.key_class);
}

void AttentionEmitter::split_values(Scope& scope) {
  llvm::Type* halves = k_.widen(k_.ir.getInt16Ty(), tile_square);
  llvm::Type* words = k_.widen(k_.ir.getInt32Ty(), tile_square);
  llvm::Constant* best = llvm::ConstantInt::get(words, narrow);
  TileClasses classes{k_};
  scope.seek();
  k_.ir.CreateStore(best, scratch_.value_class);
  for_vectors(scope, size_.values, tile_square, [&](Scope& columns, Value* column, Value* mask) {
    columns.seek();
    Value* group = k_.ir.CreateLShr(column, 5);
    Value* row = k_.ir.CreateAnd(column, k_.i64(tile_rows - 1));
    Value* first = add(mul(group, values_bytes()), mul(row, tile_row_bytes));
    auto folded = emit_loop(
        columns, k_.i64(0), tile_keys(), k_.i64(atlas::tile_step), true,
        {classes.none_least(halves), classes.none_most(halves)},
        [&](Scope& s, Value* key, std::vector<Value*> so_far) {
          s.seek();
          Value* pair = k_.ir.CreateLShr(key, 1);
          Value* to = element(k_, DType::u8, scratch_.v_block,
                              add(first, mul(key, step_words() * 4 / atlas::tile_step)));
          std::vector<std::vector<Value*>> planes(static_cast<size_t>(plan_.terms));
          for (int r = 0; r < tile_square; ++r) {
            auto [low, high] = value_pair(s, add(pair, r), column, tile_square, mask);
            auto both = emit_pairs_of_terms(k_, low, high, plan_.terms, so_far[0], so_far[1]);
            for (size_t t = 0; t < planes.size(); ++t) planes[t].push_back(both[t]);
          }
          for (size_t t = 0; t < planes.size(); ++t) {
            auto rows = transpose(k_, std::move(planes[t]));
            for (size_t c = 0; c < rows.size(); ++c)
              k_.ir.CreateAlignedStore(rows[c],
                                       element(k_, DType::u8, to,
                                               k_.i64(static_cast<int64_t>(t) * plane_bytes +
                                                      static_cast<int64_t>(c) * tile_row_bytes)),
                                       llvm::Align(tile_row_bytes));
          }
          return so_far;
        });
    columns.seek();
    Value* of = classes.of_halves(folded[0], folded[1]);
    if (mask) of = k_.ir.CreateSelect(mask, of, best);
    k_.ir.CreateAlignedStore(of, at(scratch_.value_classes, column), alignment());
    Value* least = k_.ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, of,
                                               k_.ir.CreateLoad(words, scratch_.value_class));
    k_.ir.CreateStore(least, scratch_.value_class);
  });
  scope.seek();
}

void AttentionEmitter::split_probabilities(Scope& scope) {
  auto p = [&](Value* key) { return at(scratch_.scores, mul(key, t_.panel)); };
  llvm::Type* floats = k_.lane_type(type_, t_.panel);
  if (fixed(block_.count).value_or(1) % atlas::tile_step != 0)
    emit_loop(scope, block_.count, tile_keys(), k_.i64(1), false, [&](Scope& s, Value* key) {
      s.seek();
      store(zero(floats), p(key));
    });
  scope.seek();
  Value* pairs = k_.ir.CreateLShr(tile_keys(), 1);
  // Their classes do not matter: what tiles take for 0 is less than 2^-126 of a value.
  Value* none = zero(k_.widen(k_.ir.getInt16Ty(), t_.panel));
  emit_loop(scope, k_.i64(0), pairs, k_.i64(1), true, [&](Scope& s, Value* pair) {
    s.seek();
    Value *low = load_panel(p(mul(pair, 2))), *high = load_panel(p(add(mul(pair, 2), 1)));
    Value *least = none, *most = none;
    store_terms(emit_pairs_of_terms(k_, low, high, plan_.terms, least, most),
                pair_place(scratch_.p_words, pair));
  });
  scope.seek();
}

Value* AttentionEmitter::chain(Scope& scope, Value* end, const atlas::Body& body, int axis,
                               Value* first, Value* factors) {
  llvm::Type* floats = k_.lane_type(type_, t_.panel);
  scope.seek();
  Value* nothing = llvm::ConstantFP::getZero(floats, true);  // -0: x + it is x
  return emit_loop(
      scope, k_.i64(0), end, k_.i64(atlas::product_block), true, {nothing},
      [&](Scope& block, Value* begin, std::vector<Value*> total) -> std::vector<Value*> {
        block.seek();
        Value* stop = least(add(begin, atlas::product_block), end);
        Value* sum =
            emit_loop(block, begin, stop, k_.i64(1), true, {llvm::ConstantFP::getZero(floats)},
                      [&](Scope& s, Value* i, std::vector<Value*> so_far) -> std::vector<Value*> {
                        s.seek();
                        s.set_axis(axis, first ? add(first, i) : i);
                        Value* x = splat(k_, emit_body(s, body).back(), t_.panel);
                        s.seek();
                        Value* y = load_panel(at(factors, mul(i, t_.panel)));
                        return {hologram::codegen::multiply_add(k_, type_, x, y, so_far[0])};
                      })[0];
        block.seek();
        return {k_.ir.CreateFAdd(total[0], sum)};
      })[0];
}

void AttentionEmitter::repair_scores(Scope& scope) {
  llvm::Type* word = k_.ir.getInt32Ty();
  llvm::Type* halves = k_.widen(k_.ir.getInt16Ty(), atlas::tile_step);
  TileClasses classes{k_};
  scope.seek();
  Value* worst =
      k_.ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, k_.ir.CreateLoad(word, scratch_.key_class),
                                  k_.ir.CreateLoad(word, rows_.class_of_all));
  emit_if(scope, k_.ir.CreateICmpNE(worst, k_.ir.getInt32(narrow)), [&](Scope& some) {
    emit_loop(some, k_.i64(0), block_.count, k_.i64(1), true, [&](Scope& s, Value* i) {
      s.seek();
      Value* row = key_row(i);
      auto folded = emit_loop(
          s, k_.i64(0), k_.i64(depth_steps()), k_.i64(1), true,
          {classes.none_least(halves), classes.none_most(halves)},
          [&](Scope& inner, Value* step, std::vector<Value*> so_far) {
            inner.seek();
            Value* from = element(k_, DType::u8, row, mul(step, step_words() * 4));
            classes.fold(k_.ir.CreateAlignedLoad(halves, from, llvm::Align(tile_row_bytes)),
                         so_far[0], so_far[1]);
            return so_far;
          });
      s.seek();
      Value* of_key = classes.of_all(folded[0], folded[1]);
      Value* of_queries =
          k_.ir.CreateAlignedLoad(k_.widen(word, t_.panel), rows_.classes, llvm::Align(4));
      Value* both = k_.ir.CreateBinaryIntrinsic(
          llvm::Intrinsic::umin, of_queries, k_.ir.CreateVectorSplat(unsigned(t_.panel), of_key));
      Value* place = at(scratch_.scores, mul(i, t_.panel));
      Value* sum = load_panel(place);
      Value* bad = classes.refused(both, sum);
      emit_if(s, k_.ir.CreateOrReduce(bad), [&](Scope& inner) {
        inner.seek();
        inner.set_axis(key_axis_, add(block_.begin, i));
        Value* exact = chain(inner, size_.depth, a_.k, depth_axis_, nullptr, rows_.q);
        inner.seek();
        store(k_.ir.CreateSelect(bad, exact, sum), place);
      });
    });
  });
  scope.seek();
}

void AttentionEmitter::repair_values(Scope& scope, Value* column, Value* count) {
  llvm::Type* words = k_.widen(k_.ir.getInt32Ty(), tile_square);
  scope.seek();
  Value* worst = k_.ir.CreateIntMinReduce(k_.ir.CreateLoad(words, scratch_.value_class));
  emit_if(scope, k_.ir.CreateICmpNE(worst, k_.ir.getInt32(narrow)), [&](Scope& some) {
    emit_loop(some, k_.i64(0), count, k_.i64(1), true, [&](Scope& s, Value* r) {
      s.seek();
      Value* of = k_.ir.CreateAlignedLoad(k_.ir.getInt32Ty(),
                                          at(scratch_.value_classes, add(column, r)), alignment());
      emit_if(s, k_.ir.CreateICmpNE(of, k_.ir.getInt32(narrow)), [&](Scope& inner) {
        inner.seek();
        inner.set_axis(value_axis_, add(column, r));
        Value* exact = chain(inner, block_.count, a_.v, key_axis_, block_.begin, scratch_.scores);
        inner.seek();
        store(exact, at(scratch_.product, mul(r, t_.panel)));
      });
    });
  });
  scope.seek();
}

}  // namespace hologram::cpu
