// backend/cuda/loops/reduce.cpp: the reductions of a row stage, in the order that Atlas states.
#include "backend/cuda/loops/reduce.h"

#include <algorithm>

#include "atlas/order.h"
#include "backend/cuda/loops/counter.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

using atlas::Reduction;
using ir::Op;

bool is_arg(const Reduction& r) { return ir::info(r.op).kind == ir::OpKind::reduce_index; }

class Reducer {
 public:
  Reducer(Scope& point, Team& team, const atlas::Stage& stage, Value* count,
          const std::function<void(Scope&, Value*)>& fix)
      : k_(static_cast<CudaFunction&>(point.function())),
        ir_(k_.ir),
        point_(point),
        team_(team),
        stage_(stage),
        count_(count),
        fix_(fix),
        partials_(atlas::sum_partials / team.size()) {}

  std::vector<Value*> run() {
    point_.seek();
    for (const Reduction& r : stage_.reductions)
      if (is_arg(r)) {
        first_best_.push_back(bests_.size());
        for (Value* v : no_best(r)) bests_.push_back(v);
      } else {
        counters_.emplace_back(k_, team_, r.op, r.type);
        sums_.push_back(counters_.back().initial());
      }
    const bool tree = !stage_.reductions.empty() && stage_.reductions[0].tree;
    blocks_ = k_.i64(0);
    tree ? walk_sums() : walk_blocks();
    return results();
  }

 private:
  // An argmax so far: the value, its number in the row (-1: none yet) and the position to report.
  State no_best(const Reduction& r) {
    return {llvm::Constant::getNullValue(k_.type_of(r.type)), k_.i64(-1), k_.i64(0)};
  }

  Value* better(const Reduction& r, Value* x, Value* best) {
    auto compare = [&](Op op, Value* a, Value* b) {
      return emit_arithmetic(k_, op, r.type, std::array{a, b});
    };
    Value* beats = r.op == Op::reduce_argmax ? compare(Op::lt, best, x) : compare(Op::lt, x, best);
    if (!is_float(r.type)) return beats;
    Value *x_nan = compare(Op::ne, x, x), *best_nan = compare(Op::ne, best, best);
    return ir_.CreateAnd(ir_.CreateOr(beats, x_nan), ir_.CreateNot(best_nan));
  }

  State choose(Value* second, const State& a, const State& b) {
    State out;
    for (size_t n = 0; n < a.size(); ++n) out.push_back(ir_.CreateSelect(second, b[n], a[n]));
    return out;
  }

  // Of members: the better one, of equals the earlier one.
  State merge_best(const Reduction& r, const State& a, const State& b) {
    Value *a_none = ir_.CreateICmpSLT(a[1], k_.i64(0)),
          *b_none = ir_.CreateICmpSLT(b[1], k_.i64(0));
    Value* earlier =
        ir_.CreateAnd(ir_.CreateNot(better(r, a[0], b[0])), ir_.CreateICmpSLT(b[1], a[1]));
    Value* wins = ir_.CreateOr(better(r, b[0], a[0]), earlier);
    Value* second = ir_.CreateAnd(ir_.CreateNot(b_none), ir_.CreateOr(a_none, wins));
    return choose(second, a, b);
  }

  // Runs the body on element `row` and takes what it reduces into partial sum number `partial`.
  void take(Scope& scope, Value* row, int partial, std::vector<Value*>& partials, State& bests) {
    fix_(scope, row);
    const std::vector<LaneValue> values = emit_body(scope, stage_.body);
    size_t sum = 0, arg = 0;
    for (const Reduction& r : stage_.reductions) {
      Value* x = values[r.value].v;
      if (!is_arg(r)) {
        Value*& p = partials[sum++ * static_cast<size_t>(partials_) + static_cast<size_t>(partial)];
        p = combine(k_, r.op, r.type, p, x);
        continue;
      }
      const size_t at = first_best_[arg++];
      const State now(bests.begin() + static_cast<std::ptrdiff_t>(at),
                      bests.begin() + static_cast<std::ptrdiff_t>(at + 3));
      Value* position = r.position == atlas::no_value ? row : values[r.position].v;
      Value* wins = ir_.CreateOr(ir_.CreateICmpSLT(now[1], k_.i64(0)), better(r, x, now[0]));
      const State next = choose(wins, now, {x, row, position});
      std::copy(next.begin(), next.end(), bests.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }

  // Elements [begin, end) of a block, from which partial sums start.
  std::pair<std::vector<Value*>, State> block(Scope& scope, Value* begin, Value* end, State bests) {
    std::vector<Value*> carried;
    for (const Reduction& r : stage_.reductions)
      if (!is_arg(r))
        carried.insert(carried.end(), static_cast<size_t>(partials_), k_.identity(r.op, r.type));
    const size_t sums = carried.size();
    carried.insert(carried.end(), bests.begin(), bests.end());
    auto with = [&](Scope& inner, std::vector<Value*> now, auto&& f) {
      std::vector<Value*> p(now.begin(), now.begin() + static_cast<std::ptrdiff_t>(sums));
      State b(now.begin() + static_cast<std::ptrdiff_t>(sums), now.end());
      f(inner, p, b);
      p.insert(p.end(), b.begin(), b.end());
      return p;
    };
    auto row_of = [&](Value* from, int m) {
      return ir_.CreateAdd(ir_.CreateAdd(from, team_.rank()), k_.i64(int64_t{m} * team_.size()));
    };
    scope.seek();
    Value* wholes = ir_.CreateSub(end, k_.i64(atlas::sum_partials - 1));
    carried = emit_loop(scope, begin, wholes, k_.i64(atlas::sum_partials), false, carried,
                        [&](Scope& inner, Value* from, std::vector<Value*> now) {
                          return with(inner, now, [&](Scope& s, std::vector<Value*>& p, State& b) {
                            for (int m = 0; m < partials_; ++m) {
                              s.seek();
                              Scope copy(s, false);
                              take(copy, row_of(from, m), m, p, b);
                              copy.seek();
                              s.move_to(ir_.GetInsertBlock());
                            }
                          });
                        });
    scope.seek();
    Value* whole = ir_.CreateAnd(ir_.CreateSub(end, begin), k_.i64(-int64_t{atlas::sum_partials}));
    Value* rest = ir_.CreateAdd(begin, whole);
    for (int m = 0; m < partials_; ++m) {
      scope.seek();
      carried = emit_loop(
          scope, row_of(rest, m), end, k_.i64(atlas::sum_block), false, carried,
          [&](Scope& inner, Value* row, std::vector<Value*> now) {
            return with(inner, now,
                        [&](Scope& s, std::vector<Value*>& p, State& b) { take(s, row, m, p, b); });
          });
    }
    scope.seek();
    return {{carried.begin(), carried.begin() + static_cast<std::ptrdiff_t>(sums)},
            {carried.begin() + static_cast<std::ptrdiff_t>(sums), carried.end()}};
  }

  // The sum of a block's partials.
  Value* halved(const Reduction& r, std::vector<Value*> p) {
    for (size_t half = p.size() / 2; half > 0; half /= 2)
      for (size_t j = 0; j < half; ++j) p[j] = combine(k_, r.op, r.type, p[j], p[j + half]);
    return team_.tree({p[0]}, [&](const State& a, const State& b) -> State {
      return {combine(k_, r.op, r.type, a[0], b[0])};
    })[0];
  }

  std::vector<const Reduction*> sums() const {
    std::vector<const Reduction*> all;
    for (const Reduction& r : stage_.reductions)
      if (!is_arg(r)) all.push_back(&r);
    return all;
  }

  // Carried through the loop over blocks: how many there were, counters, bests.
  template <class F>
  void walk(int64_t step, F&& fill) {
    point_.seek();
    std::vector<Value*> carried{blocks_};
    carried.insert(carried.end(), sums_.begin(), sums_.end());
    carried.insert(carried.end(), bests_.begin(), bests_.end());
    carried = emit_loop(point_, k_.i64(0), count_, k_.i64(step), false, carried,
                        [&](Scope& scope, Value* begin, std::vector<Value*> now) {
                          unpack(now);
                          fill(scope, begin);
                          now.assign({blocks_});
                          now.insert(now.end(), sums_.begin(), sums_.end());
                          now.insert(now.end(), bests_.begin(), bests_.end());
                          return now;
                        });
    unpack(carried);
  }
  void unpack(const std::vector<Value*>& now) {
    blocks_ = now[0];
    const auto bests = now.begin() + 1 + static_cast<std::ptrdiff_t>(sums_.size());
    sums_.assign(now.begin() + 1, bests);
    bests_.assign(bests, now.end());
  }

  void walk_blocks() {
    const std::vector<const Reduction*> own = sums();
    walk(atlas::sum_block, [&](Scope& scope, Value* begin) {
      scope.seek();
      Value* end = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, count_,
                                             ir_.CreateAdd(begin, k_.i64(atlas::sum_block)));
      auto [partials, bests] = block(scope, begin, end, bests_);
      bests_ = bests;
      for (size_t n = 0; n < own.size(); ++n) {
        scope.seek();
        const auto from = partials.begin() + static_cast<std::ptrdiff_t>(n) * partials_;
        Value* sum = halved(*own[n], {from, from + partials_});
        sums_[n] = counters_[n].push(scope, sums_[n], blocks_, sum, k_.i64(0));
      }
      scope.seek();
      blocks_ = ir_.CreateAdd(blocks_, k_.i64(1));
    });
  }

  // Elements that are blocks' sums themselves, 32 at a time (warps only).
  void walk_sums() {
    const std::vector<const Reduction*> own = sums();
    walk(32, [&](Scope& scope, Value* begin) {
      scope.seek();
      Value* row = ir_.CreateAdd(begin, team_.rank());
      Value* last = ir_.CreateSub(count_, k_.i64(1));
      Scope inner(scope, false);
      inner.set_lanes(-1, 1, ir_.CreateICmpSLT(row, count_));
      fix_(inner, ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, row, last));
      const std::vector<LaneValue> values = emit_body(inner, stage_.body);
      inner.seek();
      scope.move_to(ir_.GetInsertBlock());
      Value* left = ir_.CreateSub(count_, begin);
      Value* full = ir_.CreateICmpSGE(left, k_.i64(32));
      Value* pushes = ir_.CreateSelect(full, k_.i64(1), left);
      Value* level = ir_.CreateSelect(full, k_.i64(5), k_.i64(0));
      Value* before = blocks_;
      for (size_t n = 0; n < own.size(); ++n) {
        scope.seek();
        const Reduction& r = *own[n];
        Value* x = values[r.value].v;
        Value* all = neighbours(r, x);
        auto push = [&](Scope& s, Value* at, std::vector<Value*> now) -> std::vector<Value*> {
          s.seek();
          Value* sum = ir_.CreateSelect(full, all, team_.from(x, at));
          return {counters_[n].push(s, now[0], ir_.CreateAdd(before, at), sum, level)};
        };
        sums_[n] = emit_loop(scope, k_.i64(0), pushes, k_.i64(1), false, {sums_[n]}, push)[0];
      }
      scope.seek();
      blocks_ = ir_.CreateAdd(before, ir_.CreateSelect(full, k_.i64(32), left));
    });
  }

  // The sum of 32 neighbours, as a counter makes it: pairs, then pairs of pairs.
  Value* neighbours(const Reduction& r, Value* x) {
    for (int64_t distance = 1; distance < 32; distance *= 2)
      x = combine(k_, r.op, r.type, x,
                  team_.from(x, ir_.CreateXor(team_.rank(), k_.i64(distance))));
    return x;
  }

  std::vector<Value*> results() {
    std::vector<Value*> out;
    size_t sum = 0, arg = 0;
    for (const Reduction& r : stage_.reductions) {
      point_.seek();
      if (!is_arg(r)) {
        out.push_back(counters_[sum].finish(point_, sums_[sum], blocks_));
        ++sum;
        continue;
      }
      const auto from = bests_.begin() + static_cast<std::ptrdiff_t>(first_best_[arg++]);
      const State best = team_.tree(
          {from, from + 3}, [&](const State& a, const State& b) { return merge_best(r, a, b); });
      out.push_back(best[2]);
    }
    return out;
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  Scope& point_;
  Team& team_;
  const atlas::Stage& stage_;
  Value* count_;
  const std::function<void(Scope&, Value*)>& fix_;
  int partials_;
  std::vector<Counter> counters_;
  std::vector<Value*> sums_;  ///< what their counters carry
  State bests_;               ///< of all argmax, three values each
  std::vector<size_t> first_best_;
  Value* blocks_ = nullptr;
};

}  // namespace

std::vector<Value*> emit_reductions(Scope& point, Team& team, const atlas::Stage& stage,
                                    Value* count, const std::function<void(Scope&, Value*)>& fix) {
  return Reducer(point, team, stage, count, fix).run();
}

}  // namespace hologram::cuda
