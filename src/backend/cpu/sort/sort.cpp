// backend/cpu/sort/sort.cpp: sort blocks: a stable sort of each row, short ones by counting, others
// by radix.
//
// A row's keys become unsigned numbers in the order wanted. Entries, a number and its element, are
// then moved by one byte of the number after the other, the lowest first; a byte that all numbers
// share is passed over. Where not all places of a long row are wanted, only entries in the buckets
// of leading bits that these places fall into are kept, again and again while they are many; where
// very few of the first are, only elements below the last of them so far. In a short row an entry's
// place is the number of entries below it, counted for whole vectors of entries.
#include "backend/cpu/sort/sort.h"

#include <algorithm>
#include <array>

#include "backend/cpu/operands/index_builder.h"
#include "codegen/nest.h"
#include "codegen/sort_key.h"

namespace hologram::cpu {
namespace {

constexpr int digit_bits = 8, digit_values = 1 << digit_bits;
constexpr int leading_bits = 11;       // of the buckets that choose entries
constexpr int64_t worth_choosing = 4;  // elements per place from which on they are chosen first
constexpr int64_t worth_passing = 32;  // and from which on most are only looked at
constexpr int64_t passed = 64;         // elements that are looked at with one limit
constexpr int64_t padding = 16;        // entries that whole vectors may reach beyond a row
constexpr int counted_vectors = 16;    // of the longest row whose places are counted
constexpr int counted_together = 4;    // vectors of such a row

int key_bits(DType t) { return size_of(t) * 8; }
int words_of(const Target& t) { return std::max(2, t.vector_bytes / 8); }

class SortEmitter : IndexBuilder {
 public:
  explicit SortEmitter(CpuFunction& k)
      : IndexBuilder(k),
        b_(k.program.sort()),
        ir_(k.ir),
        bits_(key_bits(b_.key_type)),
        apart_(bits_ == 64),
        digits_(bits_ / digit_bits),
        lanes_(std::max(1, std::min(16, k.target.vector_bytes / std::max(4, bits_ / 8)))),
        element_axis_(b_.batch_rank),
        place_axis_(b_.batch_rank + 1) {}

  void run() {
    prepare();
    emit_loop(k_.root(), k_.begin, k_.end, k_.i64(1), true,
              [&](Scope& scope, Value* unit) { row(scope, unit); });
    k_.root().seek();
    k_.finish();
  }

 private:
  // Entries: the number above the element's number in one i64, or apart for numbers of 64 bits.
  struct Entries {
    Value *numbers, *elements;
  };

  llvm::Type* word() { return ir_.getInt64Ty(); }
  Value* at(Value* base, Value* index) { return ir_.CreateGEP(word(), base, index); }
  Value* element_at(Value* base, Value* index) {
    return ir_.CreateGEP(ir_.getInt32Ty(), base, index);
  }
  Value* load(llvm::Type* type, Value* p) { return ir_.CreateAlignedLoad(type, p, llvm::Align(4)); }
  void store(Value* v, Value* p) { ir_.CreateAlignedStore(v, p, llvm::Align(4)); }

  void prepare() {
    n_ = number(b_.axes[static_cast<size_t>(element_axis_)].extent);
    count_ = number(b_.axes[static_cast<size_t>(place_axis_)].extent);
    k_.root().seek();
    Value* room = round_up(add(n_, padding), 16);
    Value* memory = emit_scratch(k_.root(), mul(room, apart_ ? 24 : 16));
    k_.root().seek();
    for (int side = 0; side < 2; ++side) {
      sides_[side].numbers = k_.slot(ir_.getPtrTy(), "numbers");
      sides_[side].elements = k_.slot(ir_.getPtrTy(), "elements");
    }
    Value* second = at(memory, room);
    first_ = {memory, at(memory, mul(room, 2))};
    second_ = {second, element_at(first_.elements, room)};
    used_ = k_.slot(word(), "used");
    place_ = k_.slot(word(), "place");
    if (passes()) {
      all_ = k_.slot(ir_.getInt1Ty(), "all");
      limit_ = k_.slot(key_type(), "limit");
      lane_keys_ = k_.slot(key_type(), "keys", lanes_);
    }
    ranks_ = k_.slot(word(), "ranks", counted_vectors * words_of(k_.target));
    histogram_ = k_.slot(ir_.getInt32Ty(), "histogram", digits_ * digit_values);
    if (chooses()) buckets_ = k_.slot(ir_.getInt32Ty(), "buckets", int64_t{1} << leading());
  }

  int leading() const { return std::min(leading_bits, bits_); }
  bool chooses() const {
    const Expr &n = b_.axes[static_cast<size_t>(element_axis_)].extent,
               &count = b_.axes[static_cast<size_t>(place_axis_)].extent;
    return !provably_less(n, count * Expr(worth_choosing));
  }

  bool passes() const {
    const Expr &n = b_.axes[static_cast<size_t>(element_axis_)].extent,
               &count = b_.axes[static_cast<size_t>(place_axis_)].extent;
    return b_.first == 0 && !provably_less(n, count * Expr(worth_passing));
  }
  llvm::Type* key_type() { return ir_.getIntNTy(static_cast<unsigned>(bits_)); }

  Value* now(int side, bool elements = false) {
    return ir_.CreateLoad(ir_.getPtrTy(), elements ? sides_[side].elements : sides_[side].numbers);
  }
  void set(int side, const Entries& e) {
    ir_.CreateStore(e.numbers, sides_[side].numbers);
    ir_.CreateStore(e.elements, sides_[side].elements);
  }
  void swap() {
    Entries a{now(0), now(0, true)}, b{now(1), now(1, true)};
    set(0, b);
    set(1, a);
  }

  void row(Scope& scope, Value* unit) {
    scope.seek();
    set_batch_axes(scope, b_.axes, b_.batch_rank, unit);
    scope.seek();
    set(0, first_);
    set(1, second_);
    ir_.CreateStore(k_.i64(b_.first), place_);
    Value* is_short = few(n_);  // known if the row's length is
    Value* passed_over = ir_.getFalse();
    if (passes())
      passed_over = ir_.CreateAnd(
          ir_.CreateAnd(ir_.CreateNot(is_short), ir_.CreateICmpSGT(count_, k_.i64(0))),
          ir_.CreateICmpSLE(mul(count_, worth_passing), n_));
    emit_if(scope, passed_over, [&](Scope& s) { pass_over(s); });
    scope.seek();
    emit_if(scope, ir_.CreateNot(passed_over), [&](Scope& s) {
      entries(s);
      s.seek();
      emit_if(s, is_short, [&](Scope& row) { count_places(row, n_); });
      s.seek();
      emit_if(s, ir_.CreateNot(is_short), [&](Scope& row) { long_row(row); });
    });
    places(scope);
  }

  Value* few(Value* entries) {
    return ir_.CreateICmpSLE(entries, k_.i64(counted_vectors * words_of(k_.target)));
  }

  void order(Scope& scope, Value* used) {
    scope.seek();
    Value* counted = few(used);
    emit_if(scope, counted, [&](Scope& s) { count_places(s, used); });
    scope.seek();
    emit_if(scope, ir_.CreateNot(counted), [&](Scope& s) { sort(s, used); });
    scope.seek();
  }

  void long_row(Scope& scope) {
    scope.seek();
    if (!chooses()) return sort(scope, n_);
    ir_.CreateStore(n_, used_);
    auto rounds = [&](Scope& s) {
      constexpr int64_t most = (64 + leading_bits - 1) / leading_bits;
      emit_loop(s, k_.i64(0), k_.i64(most), k_.i64(1), true, [&](Scope& round, Value*) {
        Value* used = ir_.CreateLoad(word(), used_);
        Value* many = ir_.CreateAnd(ir_.CreateNot(few(used)),
                                    ir_.CreateICmpSGT(used, mul(count_, worth_choosing / 2)));
        emit_if(round, many, [&](Scope& one) { choose(one, used); });
      });
    };
    emit_if(scope, ir_.CreateICmpSLE(mul(count_, worth_choosing), n_), rounds);
    scope.seek();
    order(scope, ir_.CreateLoad(word(), used_));
  }

  /// Keeps the elements below the last of the first places' among those before, and sorts what is
  /// kept when it has grown.
  void pass_over(Scope& scope) {
    using llvm::Intrinsic::smax, llvm::Intrinsic::smin;
    scope.seek();
    ir_.CreateStore(k_.i64(0), used_);
    ir_.CreateStore(ir_.getTrue(), all_);
    ir_.CreateStore(llvm::Constant::getNullValue(key_type()), limit_);
    Value* room = ir_.CreateBinaryIntrinsic(smax, mul(count_, 4), k_.i64(passed));
    auto wide = [&](Value* x) { return splat(k_, {x, false}, lanes_); };
    emit_loop(scope, k_.i64(0), n_, k_.i64(passed), true, [&](Scope& part, Value* first) {
      Value* some = ir_.CreateBinaryIntrinsic(smin, sub(n_, first), k_.i64(passed));
      Value* limit = wide(ir_.CreateLoad(key_type(), limit_));
      Value* all = ir_.CreateLoad(ir_.getInt1Ty(), all_);
      emit_if(part, all, [&](Scope& taken) {
        Value* used = ir_.CreateLoad(word(), used_);
        const Entries entries{now(0), now(0, true)};
        for_vectors(taken, some, lanes_, [&](Scope& s, Value* offset, Value* mask) {
          s.seek();
          Value* from = add(first, offset);
          put(entries, keys_of(s, from, mask), add(used, offset), from);
        });
        taken.seek();
        ir_.CreateStore(add(used, some), used_);
      });
      part.seek();
      emit_if(part, ir_.CreateNot(all), [&](Scope& filtered) {
        for_vectors(filtered, some, lanes_, [&](Scope& s, Value* offset, Value* mask) {
          s.seek();
          Value* from = add(first, offset);
          Value* keys = keys_of(s, from, mask);
          Value* takes = ir_.CreateICmpULT(keys, limit);
          keep(s, keys, mask ? ir_.CreateAnd(takes, mask) : takes, from);
        });
      });
      part.seek();
      Value* ends = ir_.CreateICmpSGE(add(first, passed), n_);
      Value* full = ir_.CreateICmpSGE(ir_.CreateLoad(word(), used_), room);
      emit_if(part, ir_.CreateOr(ends, full), [&](Scope& s) {
        order(s, ir_.CreateLoad(word(), used_));
        Value* last = load(word(), at(now(0), add(count_, -1)));
        if (!apart_) last = ir_.CreateLShr(last, 32);
        ir_.CreateStore(ir_.CreateTrunc(last, key_type()), limit_);
        ir_.CreateStore(ir_.getFalse(), all_);
        ir_.CreateStore(count_, used_);
      });
    });
  }

  /// Appends those of a vector's elements that `takes` names, mostly none, to the entries.
  void keep(Scope& scope, Value* keys, Value* takes, Value* from) {
    Value* bits = ir_.CreateBitCast(takes, ir_.getIntNTy(static_cast<unsigned>(lanes_)));
    bits = ir_.CreateZExt(bits, word());
    emit_if(scope, ir_.CreateICmpNE(bits, k_.i64(0)), [&](Scope& some) {
      ir_.CreateAlignedStore(keys, lane_keys_, llvm::Align(1));
      Value *numbers = now(0), *elements = now(0, true), *used = ir_.CreateLoad(word(), used_);
      Value* end = add(used, ir_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, bits));
      ir_.CreateStore(end, used_);
      emit_loop(
          some, used, end, k_.i64(1), true, {bits},
          [&](Scope&, Value* to, std::vector<Value*> left) -> std::vector<Value*> {
            Value* lane = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, left[0], ir_.getTrue());
            Value* key = ir_.CreateLoad(key_type(), ir_.CreateGEP(key_type(), lane_keys_, lane));
            Value *element = add(from, lane), *number = ir_.CreateZExt(key, word());
            if (apart_)
              store(ir_.CreateTrunc(element, ir_.getInt32Ty()), element_at(elements, to));
            else
              number = ir_.CreateOr(ir_.CreateShl(number, 32), element);
            store(number, at(numbers, to));
            return {ir_.CreateAnd(left[0], ir_.CreateSub(left[0], k_.i64(1)))};
          });
    });
    scope.seek();
  }

  /// Moves each of `used` entries, few, to the place that is the number of entries below it.
  void count_places(Scope& scope, Value* used) {
    const int words = words_of(k_.target);
    llvm::Type* vector = k_.widen(word(), words);
    auto* one = llvm::ConstantInt::get(vector, 1);
    auto wide = [&](Value* x) { return ir_.CreateVectorSplat(static_cast<unsigned>(words), x); };
    std::vector<llvm::Constant*> steps;
    for (int l = 0; l < words; ++l)
      steps.push_back(llvm::ConstantInt::get(word(), static_cast<uint64_t>(l)));
    scope.seek();
    Value *from = now(0), *from_elements = now(0, true), *to = now(1), *to_elements = now(1, true);
    auto count = [&](Scope& group, Value* begin, Value* end, std::vector<Value*> start,
                     auto below) {
      group.seek();
      return emit_loop(group, begin, end, k_.i64(1), false, std::move(start),
                       [&](Scope&, Value* j, std::vector<Value*> sum) -> std::vector<Value*> {
                         Value* other = wide(load(word(), at(from, j)));
                         for (size_t v = 0; v < sum.size(); ++v) {
                           Value* is = below(other, j, v);
                           sum[v] = k_.target.isa == Isa::avx512
                                        ? ir_.CreateSelect(is, ir_.CreateAdd(sum[v], one), sum[v])
                                        : ir_.CreateSub(sum[v], ir_.CreateSExt(is, vector));
                         }
                         return sum;
                       });
    };
    emit_loop(scope, k_.i64(0), used, k_.i64(counted_together * words), false,
              [&](Scope& group, Value* first) {
                std::vector<Value*> mine, numbers, none;
                for (int v = 0; v < counted_together; ++v) {
                  Value* offset = add(first, v * words);
                  mine.push_back(load(vector, at(from, offset)));
                  numbers.push_back(ir_.CreateAdd(wide(offset), llvm::ConstantVector::get(steps)));
                  none.push_back(llvm::Constant::getNullValue(vector));
                }
                auto less = [&](Value* other, Value*, size_t v) {
                  return ir_.CreateICmpULT(other, mine[v]);
                };
                std::vector<Value*> sums = none;
                Value* from_here = k_.i64(0);
                if (apart_) {  // equal numbers: by their elements, which those before are below
                  from_here = least(add(first, counted_together * words), used);
                  sums = count(group, k_.i64(0), first, sums, [&](Value* other, Value*, size_t v) {
                    return ir_.CreateICmpULE(other, mine[v]);
                  });
                  sums =
                      count(group, first, from_here, sums, [&](Value* other, Value* j, size_t v) {
                        Value* same = ir_.CreateAnd(ir_.CreateICmpEQ(other, mine[v]),
                                                    ir_.CreateICmpULT(wide(j), numbers[v]));
                        return ir_.CreateOr(ir_.CreateICmpULT(other, mine[v]), same);
                      });
                }
                sums = count(group, from_here, used, sums, less);
                group.seek();
                for (int v = 0; v < counted_together; ++v)
                  store(sums[static_cast<size_t>(v)], at(ranks_, add(first, v * words)));
              });
    scope.seek();
    emit_loop(scope, k_.i64(0), used, k_.i64(1), false, [&](Scope&, Value* i) {
      Value* place = load(word(), at(ranks_, i));
      store(load(word(), at(from, i)), at(to, place));
      if (apart_)
        store(load(ir_.getInt32Ty(), element_at(from_elements, i)), element_at(to_elements, place));
    });
    scope.seek();
    swap();
  }

  Value* element_numbers(Value* offset, unsigned width) {
    llvm::Type* type = ir_.getIntNTy(width);
    Value* first = ir_.CreateTrunc(offset, type);
    if (lanes_ == 1) return first;
    std::vector<llvm::Constant*> steps;
    for (int l = 0; l < lanes_; ++l)
      steps.push_back(llvm::ConstantInt::get(type, static_cast<uint64_t>(l)));
    return ir_.CreateAdd(ir_.CreateVectorSplat(static_cast<unsigned>(lanes_), first),
                         llvm::ConstantVector::get(steps));
  }

  /// The keys of a vector of elements, as numbers.
  Value* keys_of(Scope& s, Value* from, Value* mask) {
    s.set_axis(element_axis_, from);
    s.set_lanes(element_axis_, lanes_, mask);
    Value* x = splat(k_, emit_body(s, b_.key).back(), lanes_);
    s.seek();
    return emit_sort_key(k_, b_.key_type, b_.descending, x);
  }

  /// A vector of keys and their elements, from `from` on, as entries from place `to` on.
  void put(const Entries& entries, Value* keys, Value* to, Value* from) {
    if (apart_) {
      store(keys, at(entries.numbers, to));
      return store(element_numbers(from, 32), element_at(entries.elements, to));
    }
    keys = ir_.CreateZExt(keys, k_.widen(word(), lanes_));
    keys = ir_.CreateOr(ir_.CreateShl(keys, llvm::ConstantInt::get(keys->getType(), 32)),
                        element_numbers(from, 64));
    store(keys, at(entries.numbers, to));
  }

  void entries(Scope& scope) {
    for_vectors(scope, n_, lanes_, [&](Scope& s, Value* offset, Value* mask) {
      s.seek();
      put(first_, keys_of(s, offset, mask), offset, offset);
    });
  }

  void clear(Scope& scope, Value* table, int64_t words) {
    auto* sixteen = llvm::FixedVectorType::get(ir_.getInt32Ty(), 16);
    scope.seek();
    emit_loop(scope, k_.i64(0), k_.i64(words), k_.i64(16), true, [&](Scope&, Value* i) {
      store(llvm::Constant::getNullValue(sixteen), element_at(table, i));
    });
    scope.seek();
  }

  void count_up(Value* table, Value* i) {
    Value* p = element_at(table, i);
    store(ir_.CreateAdd(load(ir_.getInt32Ty(), p), ir_.getInt32(1)), p);
  }

  /// The least and the greatest of the first `used` entries' numbers.
  std::array<Value*, 2> range_of(Scope& scope, Value* source, Value* used) {
    using llvm::Intrinsic::umax, llvm::Intrinsic::umin;
    const int words = words_of(k_.target);
    auto walk = [&](Value* from, Value* to, int step, std::vector<Value*> start) {
      llvm::Type* type = start[0]->getType();
      return emit_loop(scope, from, to, k_.i64(step), false, start,
                       [&](Scope&, Value* i, std::vector<Value*> now) -> std::vector<Value*> {
                         Value* e = load(type, at(source, i));
                         return {ir_.CreateBinaryIntrinsic(umin, now[0], e),
                                 ir_.CreateBinaryIntrinsic(umax, now[1], e)};
                       });
    };
    scope.seek();
    Value *whole = ir_.CreateAnd(used, k_.i64(-words)),
          *none = llvm::Constant::getNullValue(k_.widen(word(), words));
    auto wide = walk(k_.i64(0), whole, words, {ir_.CreateNot(none), none});
    scope.seek();
    Value *low = ir_.CreateIntMinReduce(wide[0]), *high = ir_.CreateIntMaxReduce(wide[1]);
    auto all = walk(whole, used, 1, {low, high});
    scope.seek();
    return {all[0], all[1]};
  }

  /// Leaves only the entries whose leading bits are those of the first place's, of the last one's
  /// or between them: the leading ones of what numbers are above the least.
  void choose(Scope& scope, Value* used) {
    const std::array<Value*, 2> range = range_of(scope, now(0), used);
    emit_if(scope, ir_.CreateICmpNE(range[0], range[1]), [&](Scope& s) { choose(s, used, range); });
  }

  void choose(Scope& scope, Value* used, const std::array<Value*, 2>& range) {
    Value *source = now(0), *elements = now(0, true), *to = now(1), *to_elements = now(1, true);
    Value* zeros = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz,
                                             ir_.CreateSub(range[1], range[0]), ir_.getTrue());
    Value* shift = ir_.CreateBinaryIntrinsic(
        llvm::Intrinsic::smax, ir_.CreateSub(k_.i64(64 - leading()), zeros), k_.i64(0));
    auto bucket = [&](Value* e) { return ir_.CreateLShr(ir_.CreateSub(e, range[0]), shift); };
    clear(scope, buckets_, int64_t{1} << leading());
    emit_loop(scope, k_.i64(0), used, k_.i64(1), true,
              [&](Scope&, Value* i) { count_up(buckets_, bucket(load(word(), at(source, i)))); });
    scope.seek();
    Value* place = ir_.CreateLoad(word(), place_);
    Bucket first{k_.i64(0), k_.i64(0)};
    if (b_.first > 0) first = bucket_of(scope, place);
    const Bucket last = bucket_of(scope, add(add(place, count_), -1));
    ir_.CreateStore(sub(place, first.before), place_);
    Value* span = sub(last.number, first.number);
    auto kept = emit_loop(scope, k_.i64(0), used, k_.i64(1), true, {k_.i64(0)},
                          [&](Scope&, Value* i, std::vector<Value*> next) -> std::vector<Value*> {
                            Value* e = load(word(), at(source, i));
                            store(e, at(to, next[0]));
                            if (apart_)
                              store(load(ir_.getInt32Ty(), element_at(elements, i)),
                                    element_at(to_elements, next[0]));
                            Value* stays =
                                ir_.CreateICmpULE(ir_.CreateSub(bucket(e), first.number), span);
                            return {ir_.CreateAdd(next[0], ir_.CreateZExt(stays, word()))};
                          });
    scope.seek();
    ir_.CreateStore(kept[0], used_);
    swap();
  }

  struct Bucket {
    Value *number, *before;  ///< entries in the buckets before it
  };

  /// The bucket that a place falls into: its sixteen buckets first.
  Bucket bucket_of(Scope& scope, Value* place) {
    auto* sixteen = llvm::FixedVectorType::get(ir_.getInt32Ty(), 16);
    // Of what has been seen: the sum, the last step that began at the place or below, the sum
    // before it.
    auto search = [&](Value* from, Value* to, int64_t step, Value* before, auto size) {
      scope.seek();
      return emit_loop(scope, from, to, k_.i64(step), true, {before, from, before},
                       [&](Scope&, Value* i, std::vector<Value*> now) -> std::vector<Value*> {
                         Value* open = ir_.CreateICmpSLE(now[0], place);
                         return {ir_.CreateAdd(now[0], ir_.CreateZExt(size(i), word())),
                                 ir_.CreateSelect(open, i, now[1]),
                                 ir_.CreateSelect(open, now[0], now[2])};
                       });
    };
    auto group = search(k_.i64(0), k_.i64(int64_t{1} << leading()), 16, k_.i64(0), [&](Value* i) {
      return ir_.CreateAddReduce(load(sixteen, element_at(buckets_, i)));
    });
    auto one = search(group[1], add(group[1], 16), 1, group[2],
                      [&](Value* i) { return load(ir_.getInt32Ty(), element_at(buckets_, i)); });
    scope.seek();
    return {one[1], one[2]};
  }

  Value* digit(Value* entry, Value* shift) {
    return ir_.CreateAnd(ir_.CreateLShr(entry, shift), k_.i64(digit_values - 1));
  }

  void sort(Scope& scope, Value* used) {
    int64_t below = apart_ ? 0 : 32;
    scope.seek();
    clear(scope, histogram_, digits_ * digit_values);
    Value* source = now(0);
    emit_loop(scope, k_.i64(0), used, k_.i64(1), true, [&](Scope&, Value* i) {
      Value* e = load(word(), at(source, i));
      for (int d = 0; d < digits_; ++d)
        count_up(histogram_,
                 ir_.CreateAdd(digit(e, k_.i64(below + d * digit_bits)), k_.i64(d * digit_values)));
    });
    emit_loop(scope, k_.i64(0), k_.i64(digits_), k_.i64(1), true, [&](Scope& pass, Value* d) {
      Value* shift = add(mul(d, digit_bits), below);
      Value* table = element_at(histogram_, mul(d, digit_values));
      Value *from = now(0), *from_elements = now(0, true);
      Value* some = digit(load(word(), from), shift);
      Value* same = ir_.CreateZExt(load(ir_.getInt32Ty(), element_at(table, some)), word());
      emit_if(pass, ir_.CreateICmpNE(same, used), [&](Scope& s) {
        emit_loop(s, k_.i64(0), k_.i64(digit_values), k_.i64(1), true, {ir_.getInt32(0)},
                  [&](Scope&, Value* i, std::vector<Value*> sum) -> std::vector<Value*> {
                    Value* p = element_at(table, i);
                    Value* here = load(ir_.getInt32Ty(), p);
                    store(sum[0], p);
                    return {ir_.CreateAdd(sum[0], here)};
                  });
        s.seek();
        Value *to = now(1), *to_elements = now(1, true);
        emit_loop(s, k_.i64(0), used, k_.i64(1), true, [&](Scope&, Value* i) {
          Value* e = load(word(), at(from, i));
          Value* p = element_at(table, digit(e, shift));
          Value* place = load(ir_.getInt32Ty(), p);
          store(ir_.CreateAdd(place, ir_.getInt32(1)), p);
          place = ir_.CreateZExt(place, word());
          store(e, at(to, place));
          if (apart_)
            store(load(ir_.getInt32Ty(), element_at(from_elements, i)),
                  element_at(to_elements, place));
        });
        s.seek();
        swap();
      });
    });
  }

  void places(Scope& scope) {
    scope.seek();
    Value* first = ir_.CreateLoad(word(), place_);
    Value *numbers = at(now(0), first), *elements = element_at(now(0, true), first);
    for_vectors(scope, count_, lanes_, [&](Scope& s, Value* offset, Value* mask) {
      s.seek();
      s.set_axis(place_axis_, offset);
      s.set_lanes(place_axis_, lanes_, mask);
      Value* v;
      if (apart_) {
        v = load(k_.widen(ir_.getInt32Ty(), lanes_), element_at(elements, offset));
        v = ir_.CreateZExt(v, k_.widen(word(), lanes_));
      } else {
        v = load(k_.widen(word(), lanes_), at(numbers, offset));
        v = ir_.CreateAnd(v, llvm::ConstantInt::get(v->getType(), 0xffffffff));
      }
      s.set_accumulator(0, {v, lanes_ > 1});
      emit_body(s, b_.epilogue);
    });
    scope.seek();
  }

  const atlas::SortBlock& b_;
  llvm::IRBuilder<>& ir_;
  int bits_;
  bool apart_;
  int digits_, lanes_, element_axis_, place_axis_;
  Value *n_ = nullptr, *count_ = nullptr;
  Entries first_{}, second_{};
  // Where the entries are now, where they may move to, and how many there are.
  struct Side {
    llvm::AllocaInst *numbers, *elements;
  };
  std::array<Side, 2> sides_{};
  llvm::AllocaInst *used_ = nullptr, *histogram_ = nullptr, *buckets_ = nullptr, *ranks_ = nullptr;
  llvm::AllocaInst* place_ = nullptr;  ///< the first one wanted, among the entries
  // Of what is passed over: whether nothing is yet, else keys from which on; a vector's keys.
  llvm::AllocaInst *all_ = nullptr, *limit_ = nullptr, *lane_keys_ = nullptr;
};

}  // namespace

Launch launch_of(const SortPlan&, const atlas::Program& program, const Target& target) {
  const atlas::SortBlock& b = program.sort();
  Launch launch;
  launch.total = Expr(1);
  for (int k = 0; k < b.batch_rank; ++k) launch.total *= b.axes[static_cast<size_t>(k)].extent;
  // Picoseconds: an element's key and histogram, then its move for each byte.
  int64_t each = 1500 + 900 * key_bits(b.key_type) / digit_bits;
  const Expr& n = b.axes[static_cast<size_t>(b.batch_rank)].extent;
  launch.unit_work = Expr(200000) + n * Expr(each);
  if (n.is_const() && n.constant_value() <= counted_vectors * words_of(target))
    launch.unit_work = Expr(50000) + n * Expr(1000 + n.constant_value() * 160 / words_of(target));
  return launch;
}

void emit(CpuFunction& k, const SortPlan&) { SortEmitter(k).run(); }

}  // namespace hologram::cpu
