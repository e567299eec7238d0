// strips/reducer.cpp: reductions of strips, in the order that atlas::Reduction states.
#include "strips/reducer.h"

#include <algorithm>
#include <cstring>

#include "atlas/order.h"
#include "ir/scalar.h"

namespace hologram::strips {

using atlas::sum_block;
using atlas::sum_partials;
using ir::Op;

std::optional<ReductionPlan> ReductionPlan::of(const atlas::Reduction& r, const Vectors& vectors) {
  if (ir::info(r.op).kind == ir::OpKind::reduce_index) return std::nullopt;
  const Op op = r.op == Op::reduce_sum    ? Op::add
                : r.op == Op::reduce_prod ? Op::mul
                : r.op == Op::reduce_max  ? Op::max
                                          : Op::min;
  VectorFn combine = vectors.find(op, r.type, r.type);
  if (!combine) return std::nullopt;
  return ReductionPlan{combine, r.value, size_of(r.type), ir::identity_of(r.op, r.type), r.tree};
}

int64_t Reducer::bytes(const ReductionPlan& plan, bool points) {
  return ((points ? most_lanes : 1) * sum_partials * plan.bytes + 63) / 64 * 64;
}

void Reducer::begin(int64_t points) {
  points_ = points;
  done_ = 0;
  counter_.clear();
  if (stride_ == plan_.bytes) fill(memory_, plan_.identity, plan_.bytes, sum_partials);
}

void Reducer::push(const char* values, int64_t row, int64_t first, int64_t n) {
  if (plan_.tree) {
    std::memcpy(memory_ + first * plan_.bytes, values, static_cast<size_t>(n * plan_.bytes));
    if (first + n == points_) count(memory_);
    return;
  }
  const int64_t inside = row % sum_block;
  if (inside == 0 && row > 0 && first == 0) flush(sum_partials);
  char* p = partial(inside % sum_partials);
  if (inside < sum_partials && first == 0) fill(p, plan_.identity, plan_.bytes, points_);
  p += first * plan_.bytes;
  plan_.combine(p, p, values, nullptr, n);
}

void Reducer::push(const char* values, int64_t n) {
  if (plan_.tree)
    for (; n > 0; --n, values += plan_.bytes) count(values);
  while (n > 0) {
    if (done_ == sum_block) {
      flush(sum_partials);
      fill(memory_, plan_.identity, plan_.bytes, sum_partials);
      done_ = 0;
    }
    const int64_t at = done_ % sum_partials, some = std::min(n, sum_partials - at);
    plan_.combine(partial(at), partial(at), values, nullptr, some);
    values += some * plan_.bytes;
    n -= some;
    done_ += some;
  }
}

// The halving tree, then the binary counter. Partials behind `partials` are the identity, which
// changes nothing: sums that start from +0 are never -0.
void Reducer::flush(int64_t partials) {
  for (int64_t half = sum_partials / 2; half > 0; half /= 2) {
    const int64_t pairs = std::min(half, partials - half);
    if (stride_ == plan_.bytes) {
      if (pairs > 0) plan_.combine(memory_, memory_, partial(half), nullptr, pairs);
    } else {
      for (int64_t k = 0; k < pairs; ++k)
        plan_.combine(partial(k), partial(k), partial(k + half), nullptr, points_);
    }
    partials = std::min(partials, half);
  }
  count(memory_);
}

// One more result for each point.
void Reducer::count(const char* results) {
  std::vector<char> sum(results, results + points_ * plan_.bytes);
  int level = 0;
  while (!counter_.empty() && counter_.back().first == level) {
    plan_.combine(sum.data(), counter_.back().second.data(), sum.data(), nullptr, points_);
    counter_.pop_back();
    ++level;
  }
  counter_.emplace_back(level, std::move(sum));
}

void Reducer::finish(int64_t rows, char* out) {
  if (rows <= 0) return fill(out, plan_.identity, plan_.bytes, points_);
  const int64_t rest = (rows - 1) % sum_block + 1;
  if (!plan_.tree) flush(std::min<int64_t>(rest, sum_partials));
  std::vector<char> sum = std::move(counter_.back().second);
  counter_.pop_back();
  for (; !counter_.empty(); counter_.pop_back())
    plan_.combine(sum.data(), counter_.back().second.data(), sum.data(), nullptr, points_);
  std::memcpy(out, sum.data(), sum.size());
}

}  // namespace hologram::strips
