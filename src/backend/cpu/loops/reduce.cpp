// backend/cpu/loops/reduce.cpp: reductions of row stages.
#include "backend/cpu/loops/reduce.h"

#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "atlas/order.h"
#include "backend/cpu/loops/block_tree.h"
#include "base/error.h"
#include "codegen/nest.h"

namespace hologram::cpu {
namespace {

using ir::Op;
namespace Intrinsic = llvm::Intrinsic;

constexpr int64_t block_elements = atlas::sum_block;
constexpr int partials = atlas::sum_partials;

// Sums, products, extrema along the row: the 64 partials are vectors in registers, or in memory
// where they arrive by steps, whose arithmetic wants the registers.
class LaneReducer final : public Reducer {
 public:
  LaneReducer(Scope& scope, const atlas::Reduction& r, const RowShape& shape)
      : k_(function_of(scope)),
        r_(r),
        lanes_(shape.lanes),
        alternate_(shape.alternate),
        identity_(k_.identity(r.op, r.type)) {
    one_block_ = in_any_order(r) || provably_nonnegative(Expr(block_elements) - shape.total);
    type_ = k_.lane_type(r.type, lanes_);
    scope.seek();
    if (shape.stepwise) array_ = k_.slot(type_, "partials", partials / lanes_);
    for (int c = 0; c < shape.group / lanes_; ++c)
      slots_.push_back(array_ ? k_.ir.CreateConstGEP1_64(type_, array_, static_cast<uint64_t>(c))
                              : k_.slot(type_, "partial"));
    if (!one_block_) blocks_ = std::make_unique<BlockTree>(k_, r, k_.type_of(r.type));
    clear(scope);
    if (blocks_) blocks_->reset(scope);
  }

  void update(Scope&, int copy, LaneValue value, LaneValue, Value* position, Value* mask) override {
    auto& ir = k_.ir;
    Value* slot = slots_[static_cast<size_t>(copy)];
    if (array_) {
      Value* first = ir.CreateUDiv(ir.CreateAnd(position, partials - 1), k_.i64(lanes_));
      slot = ir.CreateConstGEP1_64(type_, ir.CreateGEP(type_, array_, first),
                                   static_cast<uint64_t>(copy));
    }
    Value* x = splat(k_, value, lanes_);
    if (mask) x = ir.CreateSelect(mask, x, wide_identity());
    ir.CreateStore(combine(k_, r_.op, r_.type, ir.CreateLoad(type_, slot), x), slot);
  }

  void advance(Scope& scope, Value* count) override {
    if (one_block_) return;
    scope.seek();
    Value* full = k_.ir.CreateICmpEQ(k_.ir.CreateAnd(count, block_elements - 1), k_.i64(0));
    emit_if(scope, full, [&](Scope& s) { flush(s); });
  }

  LaneValue finish(Scope& scope, Value* count) override {
    if (one_block_) return {tree(scope), false};
    scope.seek();
    Value* some = k_.ir.CreateICmpNE(k_.ir.CreateAnd(count, block_elements - 1), k_.i64(0));
    emit_if(scope, some, [&](Scope& s) { flush(s); });
    return {blocks_->finish(scope, identity_), false};
  }

 private:
  Value* wide_identity() {
    return lanes_ > 1 ? llvm::ConstantVector::getSplat(
                            llvm::ElementCount::getFixed(static_cast<unsigned>(lanes_)), identity_)
                      : identity_;
  }
  void clear(Scope& scope) {
    scope.seek();
    for (Value* s : slots_) k_.ir.CreateStore(wide_identity(), s);
  }
  void flush(Scope& scope) {
    blocks_->push(scope, tree(scope));
    clear(scope);
  }
  Value* tree(Scope& scope) {
    scope.seek();
    std::vector<Value*> v;
    for (Value* s : slots_) v.push_back(k_.ir.CreateLoad(type_, s));
    if (alternate_)
      for (Value*& x : v) x = from_alternate(k_, x);
    auto op = [&](Value* x, Value* y) { return combine(k_, r_.op, r_.type, x, y); };
    for (size_t half = v.size() / 2; half > 0; half /= 2)
      for (size_t c = 0; c < half; ++c) v[c] = op(v[c], v[c + half]);
    return lanes_ > 1 ? fold_lanes(k_, v[0], op) : v[0];
  }

  CpuFunction& k_;
  const atlas::Reduction& r_;
  int lanes_;
  bool alternate_;
  llvm::Constant* identity_;
  bool one_block_;
  llvm::Type* type_;
  Value* array_ = nullptr;
  std::vector<Value*> slots_;
  std::unique_ptr<BlockTree> blocks_;
};

// Maximum and minimum of floats along the row on x86, in an order that does not show. An
// instruction compares numbers and passes over NaN, which are noted apart. AVX-512DQ's range
// instruction orders zeros; elsewhere the signs of all elements are noted too, which decide if the
// result is a zero.
class RangeReducer final : public Reducer {
 public:
  static bool suits(CpuFunction& k, const atlas::Reduction& r, const RowShape& shape) {
    return k.traits.max_gives_second && shape.along_row && !r.tree && shape.lanes > 1 &&
           compute_type(r.type) == r.type && is_float(r.type) &&
           (r.op == Op::reduce_max || r.op == Op::reduce_min) &&
           (!ranges(k) || shape.lanes * size_of(r.type) == k.target.vector_bytes);
  }

  RangeReducer(Scope& scope, const atlas::Reduction& r, const RowShape& shape)
      : k_(function_of(scope)), r_(r), lanes_(shape.lanes) {
    type_ = k_.lane_type(r.type, lanes_);
    identity_ = llvm::ConstantVector::getSplat(
        llvm::ElementCount::getFixed(static_cast<unsigned>(lanes_)), k_.identity(r.op, r.type));
    const int vectors = partials / lanes_,
              registers = std::max(1, lanes_ * size_of(r.type) / k_.target.vector_bytes);
    scope.seek();
    best_ = states(ranges(k_) ? vectors : std::min(vectors, std::max(1, 4 / registers)), identity_,
                   "best");
    if (!ranges(k_))
      signs_ = states(std::min(vectors, std::max(1, 2 / registers)), identity_, "signs");
    llvm::Type* bits = ranges(k_) ? k_.widen(k_.ir.getInt1Ty(), lanes_) : words();
    nan_ = states(std::min(vectors, std::max(1, 2 / registers)), llvm::Constant::getNullValue(bits),
                  "nan");
  }

  void update(Scope&, int copy, LaneValue value, LaneValue, Value*, Value* mask) override {
    auto& ir = k_.ir;
    auto c = static_cast<size_t>(copy);
    Value* x = splat(k_, value, lanes_);
    if (mask) x = ir.CreateSelect(mask, x, identity_);
    join(best_[c % best_.size()], x, [&](Value* was) { return larger(x, was); });
    if (!signs_.empty())
      join(signs_[c % signs_.size()], x, [&](Value* was) { return join_signs(was, x); });
    // One comparison serves two vectors of a whole group.
    if (!mask && copy % 2 == 0) {
      waiting_ = x;
      return;
    }
    Value* unordered = ir.CreateFCmpUNO(x, mask ? x : waiting_);
    unordered = ir.CreateSExt(unordered, nan_[0]->getAllocatedType());
    join(nan_[c / 2 % nan_.size()], unordered,
         [&](Value* was) { return ir.CreateOr(was, unordered); });
  }

  void advance(Scope&, Value*) override {}

  LaneValue finish(Scope& scope, Value*) override {
    scope.seek();
    auto& ir = k_.ir;
    auto all = [&](const std::vector<llvm::AllocaInst*>& of, auto&& op) {
      Value* result = nullptr;
      for (llvm::AllocaInst* slot : of) {
        Value* v = ir.CreateLoad(slot->getAllocatedType(), slot);
        result = result ? op(result, v) : v;
      }
      return result;
    };
    // Butterflies of whole vectors: every lane ends with the result, and no narrower maximum, which
    // takes many instructions, is needed.
    auto across = [&](Value* v, auto&& op) {
      for (int half = lanes_ / 2; half > 0; half /= 2) {
        std::vector<int> order;
        for (int l = 0; l < lanes_; ++l) order.push_back(l ^ half);
        v = op(v, ir.CreateShuffleVector(v, order));
      }
      return ir.CreateExtractElement(v, uint64_t{0});
    };
    auto best = [&](Value* x, Value* y) { return larger(x, y); };
    Value* result = across(all(best_, best), best);
    if (!signs_.empty()) {
      auto sign = [&](Value* x, Value* y) { return join_signs(x, y); };
      Value* zero = llvm::Constant::getNullValue(result->getType());
      Value* signed_zero =
          ir.CreateBinaryIntrinsic(Intrinsic::copysign, zero, across(all(signs_, sign), sign));
      result = ir.CreateSelect(ir.CreateFCmpOEQ(result, zero), signed_zero, result);
    }
    Value* nan = all(nan_, [&](Value* x, Value* y) { return ir.CreateOr(x, y); });
    llvm::Constant* no_number = llvm::ConstantFP::getNaN(k_.type_of(r_.type));
    nan = ir.CreateICmpNE(nan, llvm::Constant::getNullValue(nan->getType()));
    return {ir.CreateSelect(ir.CreateOrReduce(nan), no_number, result), false};
  }

 private:
  static bool ranges(CpuFunction& k) { return k.target.isa == Isa::avx512; }

  std::vector<llvm::AllocaInst*> states(int count, llvm::Constant* first, const char* name) {
    std::vector<llvm::AllocaInst*> slots;
    for (int c = 0; c < count; ++c) {
      slots.push_back(k_.slot(first->getType(), name));
      k_.ir.CreateStore(first, slots.back());
    }
    return slots;
  }
  template <class Op>
  void join(llvm::AllocaInst* slot, Value* x, Op&& op) {
    k_.ir.CreateStore(op(k_.ir.CreateLoad(x->getType(), slot)), slot);
  }

  // Of x and a y that is a number.
  Value* larger(Value* x, Value* y) {
    auto& ir = k_.ir;
    const bool max = r_.op == Op::reduce_max;
    if (ranges(k_)) return k_.larger_number(max, x, y);
    return ir.CreateSelect(max ? ir.CreateFCmpOGT(x, y) : ir.CreateFCmpOLT(x, y), x, y);
  }

  // The sign that a zero has as the result: of a maximum - if all have it, of a minimum if any has.
  Value* join_signs(Value* x, Value* y) {
    auto& ir = k_.ir;
    x = ir.CreateBitCast(x, words());
    y = ir.CreateBitCast(y, words());
    return ir.CreateBitCast(r_.op == Op::reduce_max ? ir.CreateAnd(x, y) : ir.CreateOr(x, y),
                            type_);
  }

  llvm::Type* words() {
    return k_.widen(k_.ir.getIntNTy(static_cast<unsigned>(8 * size_of(r_.type))), lanes_);
  }

  CpuFunction& k_;
  const atlas::Reduction& r_;
  int lanes_;
  llvm::Type* type_;
  llvm::Constant* identity_;
  std::vector<llvm::AllocaInst*> best_, signs_, nan_;
  Value* waiting_ = nullptr;
};

// Sums and the others with one element at a time (of every lane's own row): the partials are an
// array in memory.
class SerialReducer final : public Reducer {
 public:
  SerialReducer(Scope& scope, const atlas::Reduction& r, const RowShape& shape)
      : k_(function_of(scope)), r_(r), lanes_(shape.lanes) {
    type_ = k_.lane_type(r.type, lanes_);
    llvm::Constant* one = k_.identity(r.op, r.type);
    identity_ = lanes_ > 1 ? llvm::ConstantVector::getSplat(
                                 llvm::ElementCount::getFixed(static_cast<unsigned>(lanes_)), one)
                           : one;
    one_block_ =
        !r.tree && (in_any_order(r) || provably_nonnegative(Expr(block_elements) - shape.total));
    if (!r.tree) {
      if (in_any_order(r))
        states_ = used_ = 1;
      else if (shape.total.is_const() && shape.total.constant_value() < partials)
        used_ = std::max<int64_t>(1, shape.total.constant_value());
      array_ = k_.slot(type_, "partials", states_);
      clear(scope);
    }
    if (!one_block_) {
      blocks_ = std::make_unique<BlockTree>(k_, r, type_);
      blocks_->reset(scope);
    }
  }

  void update(Scope& scope, int, LaneValue value, LaneValue, Value* position, Value*) override {
    auto& ir = k_.ir;
    Value* x = splat(k_, value, lanes_);
    if (r_.tree) {
      blocks_->push(scope, x);
      return;
    }
    Value* p = ir.CreateGEP(type_, array_, ir.CreateAnd(position, k_.i64(states_ - 1)));
    ir.CreateStore(combine(k_, r_.op, r_.type, ir.CreateLoad(type_, p), x), p);
  }

  void advance(Scope& scope, Value* count) override {
    if (one_block_ || r_.tree) return;
    scope.seek();
    Value* full = k_.ir.CreateICmpEQ(k_.ir.CreateAnd(count, block_elements - 1), k_.i64(0));
    emit_if(scope, full, [&](Scope& s) { flush(s); });
  }

  LaneValue finish(Scope& scope, Value* count) override {
    bool varying = lanes_ > 1;
    if (one_block_) return {tree(scope), varying};
    if (!r_.tree) {
      scope.seek();
      Value* some = k_.ir.CreateICmpNE(k_.ir.CreateAnd(count, block_elements - 1), k_.i64(0));
      emit_if(scope, some, [&](Scope& s) { flush(s); });
    }
    return {blocks_->finish(scope, identity_), varying};
  }

 private:
  Value* at(Value* index) { return k_.ir.CreateGEP(type_, array_, index); }

  void clear(Scope& scope) {
    emit_loop(scope, k_.i64(0), k_.i64(used_), k_.i64(1), true,
              [&](Scope&, Value* p) { k_.ir.CreateStore(identity_, at(p)); });
  }
  void flush(Scope& scope) {
    blocks_->push(scope, tree(scope));
    clear(scope);
  }
  // Partials beyond used_ are identities; combining with one changes nothing but the sign of a zero
  // that cannot be there.
  Value* tree(Scope& scope) {
    int64_t used = used_;
    for (int64_t half = partials / 2; half > 0; half /= 2) {
      int64_t pairs = std::min(half, used - half);
      if (pairs <= 0) continue;
      emit_loop(scope, k_.i64(0), k_.i64(pairs), k_.i64(1), true, [&](Scope&, Value* p) {
        Value* second = at(k_.ir.CreateAdd(p, k_.i64(half)));
        Value* x = k_.ir.CreateLoad(type_, at(p));
        k_.ir.CreateStore(combine(k_, r_.op, r_.type, x, k_.ir.CreateLoad(type_, second)), at(p));
      });
      used = half;
    }
    scope.seek();
    return k_.ir.CreateLoad(type_, at(k_.i64(0)));
  }

  CpuFunction& k_;
  const atlas::Reduction& r_;
  int lanes_;
  llvm::Type* type_;
  llvm::Constant* identity_;
  bool one_block_ = false;
  int64_t states_ = partials, used_ = partials;  ///< the others are never touched
  Value* array_ = nullptr;
  std::unique_ptr<BlockTree> blocks_;
};

// argmax and argmin: best value, its place and what to report for it. Along the row a place is the
// number of a round of as many vectors as there are states. An empty state has the largest place.
class BestReducer final : public Reducer {
 public:
  BestReducer(Scope& scope, const atlas::Reduction& r, const RowShape& shape)
      : k_(function_of(scope)), r_(r), shape_(shape), lanes_(shape.lanes) {
    constexpr int most = 4;  // no order shows, and each takes two registers
    type_ = k_.lane_type(r.type, lanes_);
    const int copies = shape.along_row ? std::min(most, partials / lanes_) : 1;
    if (shape.along_row) round_ = copies * lanes_;
    // As wide as the elements, so that one comparison chooses both.
    const bool small = provably_less(shape.total, Expr(int64_t{1} << 31));
    auto& ir = k_.ir;
    word_ = k_.widen(small && size_of(r.type) <= 4 ? ir.getInt32Ty() : ir.getInt64Ty(), lanes_);
    auto extremum = r.op == Op::reduce_argmax ? Op::reduce_max : Op::reduce_min;
    scope.seek();
    for (int c = 0; c < copies; ++c) {
      State s{k_.slot(type_, "best"), k_.slot(word_, "where"), nullptr};
      ir.CreateStore(splat(k_, {k_.identity(extremum, r.type), false}, lanes_), s.value);
      ir.CreateStore(empty(word_), s.place);
      if (r.position != atlas::no_value) {
        llvm::Type* type = k_.widen(ir.getInt64Ty(), lanes_);
        s.reported = k_.slot(type, "reported");
        ir.CreateStore(llvm::Constant::getNullValue(type), s.reported);
      }
      states_.push_back(s);
    }
  }

  void update(Scope&, int copy, LaneValue value, LaneValue reported, Value* position,
              Value* mask) override {
    auto& ir = k_.ir;
    const auto c = static_cast<size_t>(copy), count = states_.size();
    State& s = states_[c % count];
    Value *best = ir.CreateLoad(type_, s.value), *x = splat(k_, value, lanes_);
    llvm::Type* element = word_->getScalarType();
    Value* number = shape_.along_row ? ir.CreateUDiv(position, k_.i64(round_)) : position;
    Value* here = splat(k_, {ir.CreateTrunc(number, element), false}, lanes_);
    if (c >= count) here = ir.CreateAdd(here, llvm::ConstantInt::get(word_, c / count));
    Value* was = ir.CreateLoad(word_, s.place);
    Value* take = better(x, best);
    if (s.reported) take = ir.CreateOr(take, ir.CreateICmpEQ(was, empty(word_)));
    if (mask) take = ir.CreateAnd(take, mask);
    ir.CreateStore(ir.CreateSelect(take, x, best), s.value);
    ir.CreateStore(ir.CreateSelect(take, here, was), s.place);
    if (s.reported) {
      Value* y = splat(k_, reported, lanes_);
      ir.CreateStore(ir.CreateSelect(take, y, ir.CreateLoad(y->getType(), s.reported)), s.reported);
    }
  }

  void advance(Scope&, Value*) override {}

  LaneValue finish(Scope& scope, Value*) override {
    scope.seek();
    auto& ir = k_.ir;
    std::vector<State> now;
    for (size_t c = 0; c < states_.size(); ++c) {
      const State& s = states_[c];
      Value* place = ir.CreateLoad(word_, s.place);
      if (shape_.along_row) place = position_of(place, static_cast<int>(c));
      now.push_back(
          {ir.CreateLoad(type_, s.value), place,
           s.reported ? ir.CreateLoad(k_.widen(ir.getInt64Ty(), lanes_), s.reported) : nullptr});
    }
    for (size_t half = now.size() / 2; half > 0; half /= 2)
      for (size_t c = 0; c < half; ++c) now[c] = merge(now[c], now[c + half]);
    State r = now[0];
    if (shape_.along_row)
      for (int half = lanes_ / 2; half > 0; half /= 2)
        r = merge(part(r, 0, half), part(r, half, half));
    Value* nothing = ir.CreateICmpEQ(r.place, empty(r.place->getType()));
    Value* result = r.reported ? r.reported : r.place;
    result = ir.CreateSelect(nothing, llvm::Constant::getNullValue(result->getType()), result);
    return {ir.CreateZExt(result, result->getType()->getWithNewBitWidth(64)),
            !shape_.along_row && lanes_ > 1};
  }

 private:
  struct State {
    Value *value, *place, *reported;
  };

  static llvm::Constant* empty(llvm::Type* type) { return llvm::Constant::getAllOnesValue(type); }

  // The row positions of a state's lanes.
  Value* position_of(Value* place, int copy) {
    auto& ir = k_.ir;
    llvm::Type* element = word_->getScalarType();
    Value* first =
        ir.CreateMul(place, llvm::ConstantInt::get(word_, static_cast<uint64_t>(round_)));
    Value* within = splat(
        k_, {llvm::ConstantInt::get(element, static_cast<uint64_t>(copy * lanes_)), false}, lanes_);
    if (lanes_ > 1) within = ir.CreateAdd(within, iota(element, lanes_));
    return ir.CreateSelect(ir.CreateICmpEQ(place, empty(word_)), place,
                           ir.CreateAdd(first, within));
  }

  // x in place of an earlier best: the first NaN, or what is better than a number.
  Value* better(Value* x, Value* best) {
    auto& ir = k_.ir;
    const bool max = r_.op == Op::reduce_argmax;
    if (!is_float(r_.type)) {
      std::array<Value*, 2> order{best, x};
      if (!max) std::swap(order[0], order[1]);
      return emit_arithmetic(k_, Op::lt, r_.type, order);
    }
    if (compute_type(r_.type) != r_.type) {
      x = emit_cast(k_, Op::cast, x, r_.type, DType::f32);
      best = emit_cast(k_, Op::cast, best, r_.type, DType::f32);
    }
    Value* wins = max ? ir.CreateFCmpUGT(x, best) : ir.CreateFCmpULT(x, best);
    return ir.CreateAnd(wins, ir.CreateFCmpORD(best, best));
  }

  State merge(const State& a, const State& b) {
    auto& ir = k_.ir;
    Value* tie =
        ir.CreateAnd(ir.CreateNot(better(a.value, b.value)), ir.CreateICmpULT(b.place, a.place));
    Value* second = ir.CreateOr(better(b.value, a.value), tie);
    second = ir.CreateAnd(second, ir.CreateICmpNE(b.place, empty(b.place->getType())));
    return {ir.CreateSelect(second, b.value, a.value), ir.CreateSelect(second, b.place, a.place),
            a.reported ? ir.CreateSelect(second, b.reported, a.reported) : nullptr};
  }

  State part(const State& s, int first, int count) {
    std::vector<int> order;
    for (int l = 0; l < count; ++l) order.push_back(first + l);
    auto take = [&](Value* v) -> Value* {
      if (!v) return nullptr;
      return count == 1 ? k_.ir.CreateExtractElement(v, static_cast<uint64_t>(first))
                        : k_.ir.CreateShuffleVector(v, order);
    };
    return {take(s.value), take(s.place), take(s.reported)};
  }

  CpuFunction& k_;
  const atlas::Reduction& r_;
  RowShape shape_;
  int lanes_;
  int round_ = 1;  ///< elements of a round
  llvm::Type *type_, *word_;
  std::vector<State> states_;
};

}  // namespace

std::unique_ptr<Reducer> Reducer::make(Scope& scope, const atlas::Reduction& r,
                                       const RowShape& shape) {
  if (ir::info(r.op).kind == ir::OpKind::reduce_index)
    return std::make_unique<BestReducer>(scope, r, shape);
  if (RangeReducer::suits(function_of(scope), r, shape))
    return std::make_unique<RangeReducer>(scope, r, shape);
  if (shape.along_row) return std::make_unique<LaneReducer>(scope, r, shape);
  return std::make_unique<SerialReducer>(scope, r, shape);
}

llvm::Constant* iota(llvm::Type* element, int lanes) {
  std::vector<llvm::Constant*> steps;
  for (int l = 0; l < lanes; ++l)
    steps.push_back(llvm::ConstantInt::get(element, static_cast<uint64_t>(l)));
  return llvm::ConstantVector::get(steps);
}

Value* fold_lanes(CpuFunction& k, Value* v, const std::function<Value*(Value*, Value*)>& op) {
  int lanes = static_cast<int>(llvm::cast<llvm::FixedVectorType>(v->getType())->getNumElements());
  for (int half = lanes / 2; half > 0; half /= 2) {
    std::vector<int> low, high;
    for (int l = 0; l < half; ++l) {
      low.push_back(l);
      high.push_back(l + half);
    }
    if (half == 1)
      return op(k.ir.CreateExtractElement(v, uint64_t{0}),
                k.ir.CreateExtractElement(v, uint64_t{1}));
    v = op(k.ir.CreateShuffleVector(v, low), k.ir.CreateShuffleVector(v, high));
  }
  return v;
}

}  // namespace hologram::cpu
