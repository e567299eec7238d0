// backend/cpu/attention/pairs.cpp: attention's products of bfloat16 by the dot instruction.
//
// Its operands are words of two numbers: two values of a query or key, then two keys.
//
// Words of a key are read in place and q is packed as words; a block's exponentials become words of
// two keys in the place of their scores (summed in float32, then rounded once), and two rows of v
// are interleaved per unit. Those exponentials take nine instructions (emit_brief_exp: off by
// 2^-18, where rounding costs 2^-9) instead of 18.
#include "backend/cpu/attention/emitter.h"
#include "backend/cpu/exponential.h"
#include "codegen/body.h"
#include "codegen/nest.h"

namespace hologram::cpu {
int64_t AttentionEmitter::depth_pairs() const {
  return (plan_.on_tiles ? tile_depth() : plan_.depth.constant_value()) / 2;
}

void AttentionEmitter::pair_queries(Scope& scope) {
  scope.seek();
  llvm::Type* words = k_.widen(k_.ir.getInt32Ty(), t_.panel);
  auto load_words = [&](Value* row) {
    return k_.ir.CreateAlignedLoad(words, at(rows_.q, mul(row, t_.panel)), alignment());
  };
  emit_loop(scope, k_.i64(0), k_.i64(depth_pairs()), k_.i64(1), false, [&](Scope& s, Value* i) {
    s.seek();
    Value* first = mul(i, 2);
    Value* low = k_.ir.CreateLShr(load_words(first), 16);
    Value* high =
        k_.ir.CreateAnd(load_words(add(first, 1)), llvm::ConstantInt::get(words, 0xffff0000));
    k_.ir.CreateAlignedStore(k_.ir.CreateOr(low, high), at(rows_.q, mul(i, t_.panel)), alignment());
  });
  scope.seek();
}

auto AttentionEmitter::paired_keys(Scope& scope) -> Matrix {
  scope.seek();
  if (plan_.k_load) {
    Value* first = add(unit_.k_base, mul(block_.begin, size_.k_row));
    return {element(k_, a_.operand_type, k_.buffer(plan_.k_load->buffer), first),
            k_.i64(plan_.k_load->x_stride.constant_value() / 2), k_.i64(1)};
  }
  emit_loop(scope, k_.i64(0), block_.count, k_.i64(1), true, [&](Scope& s, Value* i) {
    s.seek();
    s.set_axis(key_axis_, add(block_.begin, i));
    Operand{a_.k, a_.operand_type, a_.operand_type, t_.lanes}.gather(
        s, {depth_axis_, k_.i64(0), size_.depth}, at(scratch_.k_block, mul(i, size_.key_stride)));
  });
  return {scratch_.k_block, size_.key_stride, k_.i64(1)};
}

Value* AttentionEmitter::paired_exponentials(Scope& scope, Value* offset, Value* maximum,
                                             Value* start) {
  auto place = [&](Value* row) { return at(scratch_.scores, add(mul(row, t_.panel), offset)); };
  if (plan_.on_tiles)
    hide_missing_keys(scope, offset);
  else if (fixed(block_.count).value_or(1) % 2 != 0)
    store(lowest(vector()), place(block_.count));
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

void AttentionEmitter::pair_values(Scope& scope, Value* column) {
  Value* count = least(sub(size_.values, column), k_.i64(t_.panel));
  emit_loop(scope, k_.i64(0), key_pairs(), k_.i64(1), true, [&](Scope& s, Value* i) {
    for_vectors(s, count, t_.panel, [&](Scope& inner, Value* offset, Value* mask) {
      inner.seek();
      Value* words = value_words(inner, i, add(column, offset), t_.panel, mask);
      k_.ir.CreateAlignedStore(words, at(scratch_.v_block, add(mul(i, t_.panel), offset)),
                               alignment());
    });
  });
  scope.seek();
}

Value* AttentionEmitter::value_words(Scope& scope, Value* pair, Value* column, int lanes,
                                     Value* mask) {
  auto [low, high] = value_pair(scope, pair, column, lanes, mask);
  return interleave(low, high);
}

std::pair<Value*, Value*> AttentionEmitter::value_pair(Scope& scope, Value* pair, Value* column,
                                                       int lanes, Value* mask) {
  // Pairs may lack their second key, and on tiles steps whole pairs.
  const bool all = fixed(block_.count).value_or(1) % (plan_.on_tiles ? 32 : 2) == 0;
  Value *last = add(block_.count, -1), *halves[2];
  for (int j = 0; j < 2; ++j) {
    scope.seek();
    const bool perhaps = !all && (j || plan_.on_tiles);
    Value* key = add(mul(pair, 2), j);
    Scope one(scope, false);
    one.set_axis(key_axis_, add(block_.begin, perhaps ? least(key, last) : key));
    one.set_axis(value_axis_, column);
    one.set_lanes(value_axis_, lanes, mask);
    halves[j] = splat(k_, emit_body(one, a_.v).back(), lanes);
    scope.move_to(k_.ir.GetInsertBlock());
    if (perhaps)
      halves[j] = k_.ir.CreateSelect(k_.ir.CreateICmpSLE(key, last), halves[j],
                                     llvm::Constant::getNullValue(halves[j]->getType()));
  }
  return {halves[0], halves[1]};
}

}  // namespace hologram::cpu
