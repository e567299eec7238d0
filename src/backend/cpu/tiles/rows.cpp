// backend/cpu/tiles/rows.cpp: the left operand of a product of tiles, copied as rows of tiles.
//
// bfloat16 is read in place where rows and k are whole tiles and k is contiguous; all else is
// copied once per block of rows, and split there: tiles behind each other, a row of 64 bytes at a
// time. An operand that lies along m (a transposed one, gradients of weights, the image of a 1 x 1
// convolution in planes) is read 16 rows by 16 words at a time and turned over in registers.
// Windows are read in runs. Tails are zeros; rows behind the last are computed and dropped.
#include "backend/cpu/tiles/rows.h"

#include <algorithm>
#include <bit>

#include "backend/cpu/products/micro.h"
#include "codegen/nest.h"
#include "codegen/transpose.h"

namespace hologram::cpu {
namespace {

constexpr int64_t line_bytes = 64;
constexpr int tile_words = 16;  // words of a row

}  // namespace

TileRows::TileRows(CpuFunction& kernel, const TileProduct& plan, Value* steps)
    : IndexBuilder(kernel),
      p_(kernel.program.product()),
      plan_(plan),
      steps_(steps),
      depth_(number(plan.k)),
      along_m_(first_stride(p_.lhs, p_.batch_rank) == 1 &&
               first_stride(p_.lhs, p_.batch_rank + 2).value_or(0) > 1),
      runs_(split_axis(p_.lhs, p_.batch_rank + 2, plan.k, p_.batch_rank + 3)) {
  if (p_.operand_type != DType::f32) return;
  llvm::Type* halves = k_.widen(k_.ir.getInt16Ty(), 32);
  least_ = k_.slot(halves, "least");
  most_ = k_.slot(halves, "most");
  k_.root().seek();
}

Value* TileRows::memory_bytes() {
  if (!runs_) return k_.i64(0);
  return mul(add(round_up(depth_, 64), 64), size_of(p_.operand_type));
}

// Row elements offset, offset + 1, …, of which `mask` says which exist.
Value* TileRows::values(Scope& scope, Value* offset, Value* mask) {
  int lanes = plan_.step(), k_axis = p_.batch_rank + 2;
  scope.seek();
  if (runs_)
    return k_.ir.CreateAlignedLoad(k_.lane_type(p_.operand_type, lanes),
                                   element(k_, p_.operand_type, memory_, offset), llvm::Align(64));
  scope.set_axis(k_axis, offset);
  scope.set_lanes(k_axis, lanes, mask);
  LaneValue value = emit_body(scope, p_.lhs).back();
  scope.seek();
  return splat(k_, value, lanes);
}

// Where row number `row` of those that are copied begins.
Value* TileRows::place(Value* row) {
  llvm::Value* rows = k_.i64(plan_.group_rows());
  return add(mul(k_.ir.CreateUDiv(row, rows), group_bytes()),
             mul(k_.ir.CreateURem(row, rows), line_bytes));
}

void TileRows::pack(Scope& scope, Value* m, Value* count, Value* out, Value* classes) {
  if (along_m_ && !runs_) return pack_columns(scope, m, count, out, classes);
  emit_loop(scope, k_.i64(0), count, k_.i64(1), false, [&](Scope& s, Value* i) {
    s.seek();
    Value* at = place(i);
    s.set_axis(p_.batch_rank, add(m, i));
    row(s, k_.ir.CreateInBoundsGEP(k_.ir.getInt8Ty(), out, at),
        classes ? element(k_, DType::i32, classes, i) : nullptr);
  });
}

void TileRows::pack_columns(Scope& scope, Value* m, Value* count, Value* out, Value* classes) {
  llvm::Type* halves = k_.widen(k_.ir.getInt16Ty(), tile_words);
  TileClasses of{k_};
  // The tile_words of a lower tile has rows of the next one, which then come again in their place.
  emit_loop(scope, k_.i64(0), count, k_.i64(plan_.rows), false, [&](Scope& s, Value* first) {
    s.seek();
    Value* mask = lane_mask(k_, sub(count, first), tile_words);
    Value* at = place(first);
    std::vector<Value*> folded = emit_loop(
        s, k_.i64(0), steps_, k_.i64(1), false, {of.none_least(halves), of.none_most(halves)},
        [&](Scope& inner, Value* step, std::vector<Value*> carried) -> std::vector<Value*> {
          std::vector<std::vector<Value*>> planes(static_cast<size_t>(plan_.planes()));
          for (int w = 0; w < tile_words; ++w) {
            auto found = column_words(inner, add(m, first), mask, step, w, carried[0], carried[1]);
            for (size_t t = 0; t < planes.size(); ++t) planes[t].push_back(found[t]);
          }
          for (size_t t = 0; t < planes.size(); ++t) {
            Value* plane =
                add(mul(step, plan_.planes() * plane_bytes), static_cast<int64_t>(t) * plane_bytes);
            planes[t] = transpose(k_, std::move(planes[t]));
            for (int r = 0; r < tile_words; ++r)
              k_.ir.CreateAlignedStore(planes[t][static_cast<size_t>(r)],
                                       k_.ir.CreateInBoundsGEP(k_.ir.getInt8Ty(), out,
                                                               add(add(at, plane), r * line_bytes)),
                                       llvm::Align(64));
          }
          return carried;
        });
    if (!classes) return;
    s.seek();
    k_.ir.CreateAlignedStore(of.of_halves(folded[0], folded[1]),
                             element(k_, DType::i32, classes, first), llvm::Align(4));
  });
}

Value* TileRows::column(Scope& scope, Value* m, Value* mask, Value* k) {
  scope.seek();
  const bool whole = fixed(depth_).value_or(1) % plan_.step() == 0;
  Scope one(scope, false);
  one.set_axis(p_.batch_rank + 2, whole ? k : least(k, sub(depth_, k_.i64(1))));
  one.set_axis(p_.batch_rank, m);
  one.set_lanes(p_.batch_rank, tile_words, mask);
  Value* x = splat(k_, emit_body(one, p_.lhs).back(), tile_words);
  scope.move_to(k_.ir.GetInsertBlock());
  if (whole) return x;
  return k_.ir.CreateSelect(k_.ir.CreateICmpSLT(k, depth_), x,
                            llvm::Constant::getNullValue(x->getType()));
}

std::vector<Value*> TileRows::column_words(Scope& scope, Value* m, Value* mask, Value* step,
                                           int word, Value*& least, Value*& most) {
  llvm::Type* words = k_.widen(k_.ir.getInt32Ty(), tile_words);
  const int count = plan_.terms ? 2 : 4;  // values of k in a word
  scope.seek();
  std::vector<Value*> values;
  for (int j = 0; j < count; ++j) {
    scope.seek();
    values.push_back(column(scope, m, mask, add(mul(step, plan_.step()), count * word + j)));
  }
  scope.seek();
  if (p_.operand_type != DType::f32) {  // bytes: the first one uppermost
    Value* out = nullptr;
    for (int j = 0; j < count; ++j) {
      const int shift = plan_.terms ? 16 * j : 8 * (count - 1 - j);
      Value* x = k_.ir.CreateShl(k_.ir.CreateZExt(values[static_cast<size_t>(j)], words),
                                 static_cast<uint64_t>(shift));
      out = out ? k_.ir.CreateOr(out, x) : x;
    }
    return {out};
  }
  return emit_pairs_of_terms(k_, values[0], values[1], plan_.terms, least, most);
}

void TileRows::row(Scope& scope, Value* out, Value* class_out) {
  int lanes = plan_.step();
  llvm::Type* halves = k_.widen(k_.ir.getInt16Ty(), 32);
  TileClasses classes{k_};
  if (least_) {
    scope.seek();
    k_.ir.CreateStore(classes.none_least(halves), least_);
    k_.ir.CreateStore(classes.none_most(halves), most_);
  }
  if (runs_) {
    const auto run = static_cast<uint64_t>(runs_->levels.back().extent);
    const auto most = static_cast<uint64_t>(line_bytes / size_of(p_.operand_type));
    gather_runs(scope, *runs_, p_.operand_type, p_.operand_type,
                static_cast<int>(std::min(std::bit_ceil(run), most)), memory_);
  }
  for_vectors(scope, depth_, lanes, [&](Scope& s, Value* offset, Value* mask) {
    Value* x = values(s, offset, mask);
    if (mask) x = k_.ir.CreateSelect(mask, x, llvm::Constant::getNullValue(x->getType()));
    std::vector<Value*> planes{x};
    if (p_.operand_type == DType::f32) planes = terms(x);
    if (!plan_.terms) planes = {bytes(x)};
    if (least_) {
      Value *least = k_.ir.CreateLoad(halves, least_), *most = k_.ir.CreateLoad(halves, most_);
      classes.fold(planes[0], least, most);
      k_.ir.CreateStore(least, least_);
      k_.ir.CreateStore(most, most_);
    }
    Value* at = mul(div(offset, k_.i64(lanes)), plan_.planes() * plane_bytes);
    for (size_t t = 0; t < planes.size(); ++t) {
      Value* to = k_.ir.CreateInBoundsGEP(k_.ir.getInt8Ty(), out,
                                          add(at, static_cast<int64_t>(t) * plane_bytes));
      k_.ir.CreateAlignedStore(planes[t], to, llvm::Align(64));
    }
  });
  if (!least_) return;
  scope.seek();
  k_.ir.CreateStore(
      classes.of_all(k_.ir.CreateLoad(halves, least_), k_.ir.CreateLoad(halves, most_)), class_out);
}

// The terms of 32 f32 as bf16 bits (atlas::terms_of).
std::vector<Value*> TileRows::terms(Value* x) {
  std::vector<int> upper;
  for (int l = 0; l < 32; ++l) upper.push_back(2 * l + 1);
  auto* all_halves = k_.widen(k_.ir.getInt16Ty(), 64);
  std::vector<Value*> planes = emit_term_words(k_, x, plan_.terms);
  for (Value*& p : planes) p = k_.ir.CreateShuffleVector(k_.ir.CreateBitCast(p, all_halves), upper);
  return planes;
}

// 64 bytes in the order of packed panels: groups of four, the first one last.
Value* TileRows::bytes(Value* x) {
  Value* groups = k_.ir.CreateBitCast(x, k_.widen(k_.ir.getInt32Ty(), 16));
  return k_.ir.CreateBitCast(reverse_groups(k_, groups, 4), x->getType());
}

}  // namespace hologram::cpu
