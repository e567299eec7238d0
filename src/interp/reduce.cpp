// interp/reduce.cpp: reductions in the order that every backend keeps.
#include <algorithm>
#include <bit>
#include <cmath>

#include "atlas/order.h"
#include "base/error.h"
#include "interp/lanes.h"
#include "ir/scalar.h"

namespace hologram::interp {
namespace {

using ir::Op;

bool is_arg(Op op) { return ir::info(op).kind == ir::OpKind::reduce_index; }

bool is_nan(DType type, uint64_t bits) {
  return is_float(type) && std::isnan(ir::as_double(type, bits));
}

// Whether x takes the place of the best so far, `best`, which came earlier.
bool better(Op op, DType type, uint64_t x, uint64_t best) {
  if (is_nan(type, best)) return false;
  if (is_nan(type, x)) return true;
  std::array<uint64_t, 2> args =
      op == Op::reduce_argmax ? std::array{best, x} : std::array{x, best};
  return ir::eval_scalar(Op::lt, type, args, DType::b8) != 0;
}

}  // namespace

uint64_t combine(Op reduce, DType type, uint64_t x, uint64_t y) {
  if (reduce == Op::reduce_sum && type == DType::f32)
    return std::bit_cast<uint32_t>(std::bit_cast<float>(static_cast<uint32_t>(x)) +
                                   std::bit_cast<float>(static_cast<uint32_t>(y)));
  Op op = reduce == Op::reduce_sum    ? Op::add
          : reduce == Op::reduce_prod ? Op::mul
          : reduce == Op::reduce_max  ? Op::max
                                      : Op::min;
  return ir::eval_scalar(op, type, std::array{x, y}, type);
}

namespace {

bool carries_wide(Op reduce, DType type) {
  return type == DType::f32 && (reduce == Op::reduce_sum || reduce == Op::reduce_prod);
}

uint64_t convert(DType from, uint64_t bits, DType to) {
  return from == to ? bits : ir::eval_scalar(Op::cast, from, std::array{bits}, to);
}

}  // namespace

uint64_t first_carry(Op reduce, DType type) {
  return ir::identity_of(reduce, carries_wide(reduce, type) ? DType::f64 : type);
}

void scan(Op reduce, DType type, uint64_t* carry, const uint64_t* x, uint64_t* out, int n) {
  constexpr int block = atlas::scan_block;
  static_assert(lanes % block == 0);
  DType wide = carries_wide(reduce, type) ? DType::f64 : type;
  for (int begin = 0; begin < n; begin += block) {
    int count = std::min(block, n - begin);
    uint64_t* v = out + begin;
    std::copy_n(x + begin, count, v);
    for (int s = 1; s < block; s *= 2)
      for (int l = 0; l < count; ++l)
        if (l & s) v[l] = combine(reduce, type, v[l / s * s - 1], v[l]);
    uint64_t last = v[count - 1], before = convert(wide, *carry, type);
    for (int l = 0; l < count; ++l) v[l] = combine(reduce, type, before, v[l]);
    *carry = combine(reduce, wide, *carry, convert(type, last, wide));
  }
}

Reducer::Reducer(Op op, DType type, bool tree) : op_(op), type_(type), tree_(tree) {
  partial_.fill(ir::identity_of(op, type));
}

void Reducer::push_best(const uint64_t* values, const uint64_t* positions, int n) {
  for (int l = 0; l < n; ++l, ++count_) {
    if (count_ != 0 && !better(op_, type_, values[l], best_)) continue;
    best_ = values[l];
    best_position_ = positions ? positions[l] : static_cast<uint64_t>(count_);
  }
}

void Reducer::push(const uint64_t* values, const uint64_t* positions, int n) {
  if (is_arg(op_)) return push_best(values, positions, n);
  for (int l = 0; l < n; ++l) {
    if (tree_) {
      push_block(values[l]);
      continue;
    }
    uint64_t& p = partial_[static_cast<size_t>(in_block_ % atlas::sum_partials)];
    p = combine(op_, type_, p, values[l]);
    if (++in_block_ == atlas::sum_block) flush();
  }
}

void Reducer::flush() {
  for (size_t half = atlas::sum_partials / 2; half > 0; half /= 2)
    for (size_t k = 0; k < half; ++k)
      partial_[k] = combine(op_, type_, partial_[k], partial_[k + half]);
  push_block(partial_[0]);
  partial_.fill(ir::identity_of(op_, type_));
  in_block_ = 0;
}

void Reducer::push_block(uint64_t value) {
  int level = 0;
  while (!counter_.empty() && counter_.back().first == level) {
    value = combine(op_, type_, counter_.back().second, value);
    counter_.pop_back();
    ++level;
  }
  counter_.emplace_back(level, value);
}

uint64_t Reducer::finish() {
  if (is_arg(op_)) {
    count_ = 0;
    return std::exchange(best_position_, 0);
  }
  if (in_block_ > 0) flush();
  if (counter_.empty()) return ir::identity_of(op_, type_);
  uint64_t sum = counter_.back().second;
  for (size_t k = counter_.size() - 1; k-- > 0;) sum = combine(op_, type_, counter_[k].second, sum);
  counter_.clear();
  return sum;
}

}  // namespace hologram::interp
