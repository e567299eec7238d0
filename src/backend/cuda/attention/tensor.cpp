// backend/cuda/attention/tensor.cpp: attention of 16-bit floats by mma.m16n8k16.
//
// A warp has 16 rows: their queries in registers, scores of a step's keys and sums of values as
// the instruction leaves them, which is how it takes the exponentials. Keys and values of a step
// are in shared memory, each on their way through registers while the other is multiplied. Where
// there are few rows, two or four warps share them, and each has some of a step's keys.
#include "backend/cuda/attention/tensor.h"

#include <algorithm>

#include "backend/cuda/attention/rows.h"
#include "backend/cuda/matrices.h"
#include "backend/cuda/warp.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

constexpr int tile = 16;        // rows of a warp
constexpr int pad = 8;          // elements between rows in shared memory, which stay aligned
constexpr int most_slice = 64;  // rows of results in shared memory
constexpr int result_pad = 4;

int row_warps(const AttentionPlan& p) { return p.rows / tile; }
// Warps that share rows: with fewer of these, more share what is on its way through registers. Each
// has 16 keys of a step at least.
int key_warps(const AttentionPlan& p) {
  return std::min(p.few() ? 4 : p.rows == 64 ? 2 : 1, p.key_block / tile);
}

class TensorAttention {
 public:
  TensorAttention(CudaFunction& k, const AttentionPlan& plan)
      : k_(k),
        ir_(k.ir),
        plan_(plan),
        threads_(tensor_attention_threads(plan)),
        rows_(k, plan, threads_),
        operand_(k.program.attention().operand_type),
        depth_(static_cast<int>((plan.depth.constant_value() + 15) / 16 * 16)),
        own_keys_(plan.key_block / key_warps(plan)) {}

  void run() {
    Scope& scope = rows_.scope();
    scope.seek();
    allocate();
    Value* warp = ir_.CreateLShr(k_.thread(), 5);
    lane_ = ir_.CreateAnd(k_.thread(), 31);
    Value* rows = number(row_warps(plan_));
    row_ = ir_.CreateMul(ir_.CreateURem(warp, rows), number(tile));
    copy_ = ir_.CreateUDiv(warp, rows);
    own_key_ = ir_.CreateMul(copy_, number(own_keys_));
    load_queries(scope);
    Value *begin = rows_.key_begin(), *end = rows_.key_end(), *step = k_.i64(plan_.key_block);
    Value* some = ir_.CreateICmpSLT(begin, end);
    emit_if(scope, some, [&](Scope& first) {
      first.seek();
      rows_.write(first, fetch_keys(first, begin), memory_, number(0));
    });
    scope.seek();
    rows_.barrier();
    State state(2 * halves + static_cast<size_t>(plan_.columns / 2), zero());
    for (size_t h = 0; h < halves; ++h) state[h] = rows_.lowest();
    state = emit_loop(scope, begin, end, step, false, std::move(state),
                      [&](Scope& part, Value* key, State now) {
                        Value* next = ir_.CreateAdd(key, step);
                        next = ir_.CreateSelect(ir_.CreateICmpSLT(next, end), next, key);
                        return add_step(part, key, next, std::move(now));
                      });
    scope.seek();
    finish(std::move(state));
    k_.root().move_to(ir_.GetInsertBlock());
    k_.root().seek();
    k_.finish();
  }

 private:
  // Of each half of the lane's rows the maximum and the sum of exponentials, then its sums of
  // values as mma has them.
  using State = std::vector<Value*>;
  static constexpr size_t halves = 2;

  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  llvm::Constant* zero() const { return rows_.zero(); }
  static int stride(const Factor& f, int count, int depth) {
    return (f.depth_run ? depth : count) + pad;
  }
  static int size(const Factor& f, int count, int depth) {
    return (f.depth_run ? count : depth) * stride(f, count, depth);
  }
  int slice() const { return std::min(plan_.rows, most_slice / key_warps(plan_)); }
  int result_stride() const { return plan_.columns + result_pad; }

  // Keys and values; before and behind these, the queries and results take their place.
  void allocate() {
    const int keys = size(rows_.keys(), plan_.key_block, depth_),
              values = size(rows_.values(), plan_.columns, plan_.key_block),
              queries = size(rows_.queries(), plan_.rows, depth_),
              results = 2 * key_warps(plan_) * slice() * result_stride();
    memory_ = k_.shared(ir_.getInt16Ty(), std::max({keys + values, queries, results}), "factors");
    values_ = number(keys);
    maxima_ = k_.shared(ir_.getFloatTy(), key_warps(plan_) * plan_.rows, "rows");
    totals_ = k_.shared(ir_.getFloatTy(), key_warps(plan_) * plan_.rows, "rows");
  }

  Matrices matrices(const Factor& f, Value* base, int count, int depth) const {
    return {memory_, base, stride(f, count, depth), f.depth_run};
  }

  void load_queries(Scope& scope) {
    const Factor& q = rows_.queries();
    const auto pieces =
        rows_.fetch(scope, q, k_.i64(0), plan_.rows, depth_, stride(q, plan_.rows, depth_));
    rows_.write(scope, pieces, memory_, number(0));
    scope.seek();
    rows_.barrier();
    const Matrices from = matrices(q, number(0), plan_.rows, depth_);
    for (int d = 0; d < depth_; d += 16)
      queries_.push_back(load_matrices(k_, from, row_, number(d), false));
    rows_.barrier();
  }

  std::vector<Operands::Piece> fetch_keys(Scope& at, Value* key) {
    Factor keys = rows_.keys();
    keys.first = key;
    return rows_.fetch(at, keys, k_.i64(0), plan_.key_block, depth_,
                       stride(keys, plan_.key_block, depth_));
  }

  State add_step(Scope& part, Value* key, Value* next, State state) {
    const Factor& v = rows_.values();
    const auto values = rows_.fetch(part, v, key, plan_.columns, plan_.key_block,
                                    stride(v, plan_.columns, plan_.key_block));
    part.seek();
    sync_warp(ir_);  // what follows is the whole warp's, and fetching may have parted it
    std::vector<Value*> scores = multiply_keys();
    rows_.write(part, values, memory_, values_);
    part.seek();
    rows_.barrier();
    const auto keys = fetch_keys(part, next);
    part.seek();
    const std::vector<Value*> weights = take_exponentials(part, key, scores, state);
    part.seek();
    sync_warp(ir_);
    multiply_values(weights, state);
    rows_.write(part, keys, memory_, number(0));
    part.seek();
    rows_.barrier();
    return state;
  }

  std::vector<Value*> multiply_keys() {
    std::vector<Value*> scores(static_cast<size_t>(own_keys_ / 2), zero());
    const Matrices from = matrices(rows_.keys(), number(0), plan_.key_block, depth_);
    for (int d = 0; d < depth_; d += 16)
      for (int n = 0; n < own_keys_; n += 16) {
        const auto two =
            load_matrices(k_, from, ir_.CreateAdd(own_key_, number(n)), number(d), true);
        Value** sums = scores.data() + n / 2;
        multiply_matrices(k_, operand_, queries_[static_cast<size_t>(d / 16)], {two[0], two[1]},
                          sums);
        multiply_matrices(k_, operand_, queries_[static_cast<size_t>(d / 16)], {two[2], two[3]},
                          sums + 4);
      }
    return scores;
  }

  // Of the row's four lanes.
  Value* across_row(Value* v, const std::function<Value*(Value*, Value*)>& merge) {
    for (int distance = 1; distance <= 2; distance *= 2)
      v = merge(v, shuffle(ir_, v, number(distance), true));
    return v;
  }

  // Exponentials as the left factor of the products with values; the state's maxima, sums and sums
  // of values are brought up to date.
  std::vector<Value*> take_exponentials(Scope& part, Value* key, std::vector<Value*>& scores,
                                        State& state) {
    for (size_t h = 0; h < halves; ++h) {
      Scope row(part, false);
      row.seek();
      Value* query = rows_.set_row(row, row_of(h));
      Value* first = ir_.CreateAdd(own_key_, ir_.CreateShl(ir_.CreateAnd(lane_, 3), 1));
      first = ir_.CreateAdd(key, ir_.CreateZExt(first, ir_.getInt64Ty()));
      Value* largest = state[h];
      for (int n = 0; n < own_keys_ / 8; ++n)
        for (int c = 0; c < 2; ++c) {
          Value*& x = scores[at(n, h, c)];
          row.seek();
          x = rows_.score(row, query, ir_.CreateAdd(first, k_.i64(8 * n + c)), x);
          largest = rows_.larger(x, largest);
        }
      row.seek();
      sync_warp(ir_);
      largest = across_row(largest, [&](Value* x, Value* y) { return rows_.larger(x, y); });
      Value* finite = rows_.finite(largest);
      Value* shrink = rows_.exponential(row, state[h], finite);
      state[h] = largest;
      Value* total = ir_.CreateFMul(state[halves + h], shrink);
      for (int n = 0; n < own_keys_ / 8; ++n)
        for (int c = 0; c < 2; ++c) {
          Value*& x = scores[at(n, h, c)];
          x = rows_.exponential(row, x, finite);
          total = ir_.CreateFAdd(total, x);
        }
      state[halves + h] = total;
      for (size_t n = 0; n < static_cast<size_t>(plan_.columns / 8); ++n)
        for (size_t c = 0; c < 2; ++c) {
          Value*& sum = state[2 * halves + 4 * n + 2 * h + c];
          sum = ir_.CreateFMul(sum, shrink);
        }
      row.seek();
      part.move_to(ir_.GetInsertBlock());
    }
    std::vector<Value*> weights;
    for (size_t n = 0; n < scores.size(); n += 2)
      weights.push_back(round_pair(k_, operand_, scores[n], scores[n + 1]));
    return weights;
  }
  // Column 8 n + 2 (lane % 4) + c of row lane / 4 + 8 h.
  static size_t at(int n, size_t h, int c) {
    return static_cast<size_t>(4 * n) + 2 * h + static_cast<size_t>(c);
  }

  void multiply_values(const std::vector<Value*>& weights, State& state) {
    const Matrices from = matrices(rows_.values(), values_, plan_.columns, plan_.key_block);
    for (int n = 0; n < own_keys_; n += 16) {
      // Two tiles of scores are one of the left factor: rows 0 to 7 and 8 to 15 of keys 0 to 7,
      // then of keys 8 to 15.
      const auto first = weights.begin() + n / 4;
      const std::vector<Value*> left(first, first + 4);
      for (int c = 0; c < plan_.columns; c += 16) {
        const auto two =
            load_matrices(k_, from, number(c), ir_.CreateAdd(own_key_, number(n)), true);
        Value** sums = state.data() + 2 * halves + c / 2;
        multiply_matrices(k_, operand_, left, {two[0], two[1]}, sums);
        multiply_matrices(k_, operand_, left, {two[2], two[3]}, sums + 4);
      }
    }
  }

  // The maxima of the warps that share rows become the rows'.
  void join_maxima(State& state) {
    Scope& scope = rows_.scope();
    emit_if(scope, leads_row(), [&](Scope& some) {
      some.seek();
      for (size_t h = 0; h < halves; ++h) {
        Value* place = ir_.CreateAdd(ir_.CreateMul(copy_, number(plan_.rows)), row_of(h));
        ir_.CreateStore(state[h], real(maxima_, place));
      }
    });
    scope.seek();
    rows_.barrier();
    for (size_t h = 0; h < halves; ++h) {
      Value *largest = rows_.lowest(), *row = row_of(h);
      for (int w = 0; w < key_warps(plan_); ++w) {
        Value* place = ir_.CreateAdd(row, number(w * plan_.rows));
        largest = rows_.larger(ir_.CreateLoad(ir_.getFloatTy(), real(maxima_, place)), largest);
      }
      Value* shrink = rows_.exponential(scope, state[h], rows_.finite(largest));
      state[h] = largest;
      state[halves + h] = ir_.CreateFMul(state[halves + h], shrink);
      for (size_t n = 2 * halves + 2 * h; n < state.size(); n += 4)
        for (size_t c = 0; c < 2; ++c) state[n + c] = ir_.CreateFMul(state[n + c], shrink);
    }
    rows_.barrier();
  }

  // Of the lane's rows, among those of the CTA.
  Value* row_of(size_t h) {
    return ir_.CreateAdd(ir_.CreateAdd(row_, ir_.CreateLShr(lane_, 2)),
                         number(static_cast<int>(8 * h)));
  }
  // Of the four lanes that have a row.
  Value* leads_row() { return ir_.CreateICmpEQ(ir_.CreateAnd(lane_, 3), number(0)); }

  Value* real(Value* memory, Value* n) { return ir_.CreateGEP(ir_.getFloatTy(), memory, n); }

  void finish(State state) {
    Scope& scope = rows_.scope();
    sync_warp(ir_);
    for (size_t h = 0; h < halves; ++h)
      state[halves + h] =
          across_row(state[halves + h], [&](Value* x, Value* y) { return ir_.CreateFAdd(x, y); });
    if (key_warps(plan_) > 1) join_maxima(state);
    emit_if(scope, leads_row(), [&](Scope& some) {
      some.seek();
      for (size_t h = 0; h < halves; ++h) {
        Value* place = ir_.CreateAdd(ir_.CreateMul(copy_, number(plan_.rows)), row_of(h));
        ir_.CreateStore(state[h], real(maxima_, place));
        ir_.CreateStore(state[halves + h], real(totals_, place));
      }
    });
    for (int first = 0; first < plan_.rows; first += slice()) {
      scope.seek();
      if (first > 0) rows_.barrier();
      Value* mine = ir_.CreateAnd(ir_.CreateICmpSGE(row_, number(first)),
                                  ir_.CreateICmpSLT(row_, number(first + slice())));
      emit_if(scope, mine, [&](Scope& some) {
        some.seek();
        put(state, ir_.CreateSub(row_, number(first)));
      });
      scope.seek();
      rows_.barrier();
      rows_.finish(results(first), first, slice());
    }
  }

  // The lane's sums of values, its rows from `row` of the slice on.
  void put(const State& state, Value* row) {
    auto* pair = llvm::FixedVectorType::get(ir_.getFloatTy(), 2);
    row = ir_.CreateAdd(row, ir_.CreateLShr(lane_, 2));
    row = ir_.CreateAdd(row, ir_.CreateMul(copy_, number(slice())));
    Value* column = ir_.CreateShl(ir_.CreateAnd(lane_, 3), 1);
    for (int n = 0; n < plan_.columns / 8; ++n)
      for (size_t h = 0; h < halves; ++h) {
        Value* const* from = state.data() + 2 * halves + at(n, h, 0);
        Value* two = ir_.CreateInsertElement(llvm::PoisonValue::get(pair), from[0], uint64_t{0});
        two = ir_.CreateInsertElement(two, from[1], uint64_t{1});
        Value* place = ir_.CreateMul(ir_.CreateAdd(row, number(static_cast<int>(8 * h))),
                                     number(result_stride()));
        place = ir_.CreateAdd(ir_.CreateAdd(place, column), number(8 * n));
        ir_.CreateAlignedStore(two, real(memory_, place), llvm::Align(8));
      }
  }

  AttentionRows::Results results(int first) {
    llvm::Type* type = ir_.getFloatTy();
    // The warps' sums, in the order of their keys.
    auto sum_of = [this, type](Value* memory, Value* place, int apart) {
      Value* sum = ir_.CreateLoad(type, real(memory, place));
      for (int w = 1; w < key_warps(plan_); ++w) {
        Value* other = real(memory, ir_.CreateAdd(place, number(w * apart)));
        sum = ir_.CreateFAdd(sum, ir_.CreateLoad(type, other));
      }
      return sum;
    };
    AttentionRows::Results out;
    out.sum = [this, sum_of, first](Value* row, Value* column) {
      Value* r = ir_.CreateSub(row, number(first));
      Value* place = ir_.CreateAdd(ir_.CreateMul(r, number(result_stride())), column);
      return sum_of(memory_, place, slice() * result_stride());
    };
    out.maximum = [this, type](Value* row) { return ir_.CreateLoad(type, real(maxima_, row)); };
    out.total = [this, sum_of](Value* row) { return sum_of(totals_, row, plan_.rows); };
    return out;
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  const AttentionPlan& plan_;
  int threads_;
  AttentionRows rows_;
  DType operand_;
  int depth_, own_keys_;  // own_keys_: of a warp, in a step
  Value *memory_ = nullptr, *maxima_ = nullptr, *totals_ = nullptr;  // shared
  Value* values_ = nullptr;                                          // where they begin, i32
  Value* copy_ = nullptr;  // which of the warps that share rows it is, i32
  Value *lane_ = nullptr, *row_ = nullptr, *own_key_ = nullptr;  // the warp's rows and keys, i32
  std::vector<std::vector<Value*>> queries_;                     // by 16 of the depth
};

}  // namespace

int tensor_attention_threads(const AttentionPlan& plan) {
  return 32 * row_warps(plan) * key_warps(plan);
}

void emit_tensor_attention(CudaFunction& k, const AttentionPlan& plan) {
  TensorAttention(k, plan).run();
}

}  // namespace hologram::cuda
