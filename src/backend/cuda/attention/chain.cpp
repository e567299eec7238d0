// backend/cuda/attention/chain.cpp: attention as chains of multiply-adds.
//
// 16 x 16 threads compute the scores of some rows and 128 keys, which go to shared memory; a warp
// turns whole rows of them into exponentials; the threads then add the products with the values,
// of which each has some rows and columns.
#include "backend/cuda/attention/chain.h"

#include <algorithm>

#include "atlas/order.h"
#include "backend/cuda/attention/rows.h"
#include "backend/cuda/warp.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

class ChainAttention {
 public:
  ChainAttention(CudaFunction& k, const AttentionPlan& plan)
      : k_(k),
        ir_(k.ir),
        plan_(plan),
        rows_(k, plan, threads),
        type_(k.type_of(plan.type)),
        own_(plan.rows / side),
        step_(plan.type == DType::f64 ? 8 : 16),
        stride_(plan.key_block + pad),
        queries_stride_(plan.rows + pad) {}

  void run() {
    Scope& scope = rows_.scope();
    scope.seek();
    scores_ = k_.shared(type_, plan_.rows * stride_, "scores");
    factors_ = k_.shared(type_, step_ * (queries_stride_ + stride_), "factors");
    keys_ = ir_.CreateConstGEP1_32(type_, factors_, static_cast<unsigned>(step_ * queries_stride_));
    maxima_ = k_.shared(type_, plan_.rows, "rows");
    shrink_ = k_.shared(type_, plan_.rows, "rows");
    across_ = ir_.CreateAnd(k_.thread(), side - 1);
    down_ = ir_.CreateMul(ir_.CreateLShr(k_.thread(), 4), number(own_));
    emit_if(scope, ir_.CreateICmpULT(k_.thread(), number(plan_.rows)), [&](Scope& some) {
      some.seek();
      ir_.CreateStore(rows_.lowest(), ir_.CreateGEP(type_, maxima_, k_.thread()));
    });
    scope.seek();
    rows_.barrier();
    const size_t sums = static_cast<size_t>(own_ * (1 + columns_each(plan_.columns)));
    std::vector<Value*> state =
        emit_loop(scope, rows_.key_begin(), rows_.key_end(), k_.i64(plan_.key_block), false,
                  std::vector<Value*>(sums, rows_.zero()),
                  [&](Scope& part, Value* key, std::vector<Value*> now) {
                    find_scores(part, key);
                    take_exponentials(part, key);
                    part.seek();
                    rows_.barrier();
                    return add_values(part, key, std::move(now));
                  });
    scope.seek();
    finish(state);
    k_.root().move_to(ir_.GetInsertBlock());
    k_.root().seek();
    k_.finish();
  }

 private:
  static constexpr int threads = chain_attention_threads, side = 16, warps = threads / 32;
  static constexpr int pad = 4;  // elements between rows in shared memory, which stay aligned

  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  static int columns_each(int columns) { return columns / side; }
  Value* at(Value* memory, Value* n) { return ir_.CreateGEP(type_, memory, n); }
  Value* add(Value* x, Value* y) {
    return emit_arithmetic(k_, ir::Op::add, plan_.type, std::array{x, y});
  }
  Value* times(Value* x, Value* y) {
    return emit_arithmetic(k_, ir::Op::mul, plan_.type, std::array{x, y});
  }

  // Vectors of up to four neighbours in a row of `columns`: the thread's columns are `side` of them
  // apart.
  struct Vectors {
    int width, count;
  };
  static Vectors vectors(int columns) {
    const int width = std::min(4, columns_each(columns));
    return {width, columns_each(columns) / width};
  }
  Value* first_column(const Vectors& v, int n) {
    return ir_.CreateAdd(ir_.CreateMul(across_, number(v.width)), number(n * side * v.width));
  }
  std::vector<Value*> load(Value* memory, Value* first, int count) {
    if (count == 1) return {ir_.CreateLoad(type_, at(memory, first))};
    auto* vector = llvm::FixedVectorType::get(type_, static_cast<unsigned>(count));
    Value* all = ir_.CreateAlignedLoad(vector, at(memory, first), alignment(count));
    std::vector<Value*> out;
    for (int n = 0; n < count; ++n)
      out.push_back(ir_.CreateExtractElement(all, static_cast<uint64_t>(n)));
    return out;
  }
  void store(const std::vector<Value*>& values, Value* memory, Value* first) {
    const auto count = static_cast<unsigned>(values.size());
    if (count == 1) {
      ir_.CreateStore(values[0], at(memory, first));
      return;
    }
    Value* all = llvm::PoisonValue::get(llvm::FixedVectorType::get(type_, count));
    for (unsigned n = 0; n < count; ++n) all = ir_.CreateInsertElement(all, values[n], uint64_t{n});
    ir_.CreateAlignedStore(all, at(memory, first), alignment(static_cast<int>(count)));
  }
  llvm::Align alignment(int count) const {
    return llvm::Align(static_cast<uint64_t>(std::min<int64_t>(16, count * size_of(plan_.type))));
  }
  // The thread's columns of row `row` of `memory`, whose rows are `stride` apart.
  std::vector<Value*> row_of(Value* memory, Value* row, int stride, int columns) {
    const Vectors v = vectors(columns);
    std::vector<Value*> out;
    for (int n = 0; n < v.count; ++n) {
      Value* first = ir_.CreateAdd(ir_.CreateMul(row, number(stride)), first_column(v, n));
      for (Value* x : load(memory, first, v.width)) out.push_back(x);
    }
    return out;
  }
  void put_row(std::span<Value* const> values, Value* row, int columns) {
    const Vectors v = vectors(columns);
    for (int n = 0; n < v.count; ++n) {
      const auto part =
          values.subspan(static_cast<size_t>(n * v.width), static_cast<size_t>(v.width));
      Value* first = ir_.CreateAdd(ir_.CreateMul(row, number(stride_)), first_column(v, n));
      store({part.begin(), part.end()}, scores_, first);
    }
  }

  // Sums of products of queries and keys, as atlas/blocks/product.h has them, to shared memory.
  void find_scores(Scope& part, Value* key) {
    const int columns = columns_each(plan_.key_block);
    const std::vector<Value*> none(static_cast<size_t>(own_ * columns), rows_.zero());
    Factor keys = rows_.keys();
    keys.first = key;
    auto chain = [&](Scope& block, Value* begin, Value* end) {
      return emit_loop(block, begin, end, k_.i64(step_), false, none,
                       [&](Scope& inner, Value* d, std::vector<Value*> now) {
                         inner.seek();
                         rows_.barrier();
                         llvm::Constant* minus_zero = llvm::ConstantFP::getNegativeZero(type_);
                         rows_.stage(inner, rows_.queries(), d, plan_.rows, step_, plan_.type,
                                     minus_zero, factors_, queries_stride_);
                         rows_.stage(inner, keys, d, plan_.key_block, step_, plan_.type,
                                     rows_.zero(), keys_, stride_);
                         inner.seek();
                         rows_.barrier();
                         multiply(now);
                         return now;
                       });
    };
    Value* depth = keys.depth;
    std::vector<Value*> sums;
    if (plan_.depth.is_const() && plan_.depth.constant_value() <= atlas::product_block)
      sums = chain(part, k_.i64(0), depth);
    else
      sums = emit_loop(part, k_.i64(0), depth, k_.i64(atlas::product_block), false, none,
                       [&](Scope& block, Value* begin, std::vector<Value*> before) {
                         Value* end = ir_.CreateBinaryIntrinsic(
                             llvm::Intrinsic::smin, depth,
                             ir_.CreateAdd(begin, k_.i64(atlas::product_block)));
                         std::vector<Value*> now = chain(block, begin, end);
                         block.seek();
                         Value* first = ir_.CreateICmpEQ(begin, k_.i64(0));
                         for (size_t n = 0; n < now.size(); ++n)
                           now[n] = ir_.CreateSelect(first, now[n], add(before[n], now[n]));
                         return now;
                       });
    part.seek();
    rows_.barrier();  // the exponentials of the keys before are no longer read
    for (int i = 0; i < own_; ++i)
      put_row(
          std::span(sums).subspan(static_cast<size_t>(i * columns), static_cast<size_t>(columns)),
          ir_.CreateAdd(down_, number(i)), plan_.key_block);
    rows_.barrier();
  }

  void multiply(std::vector<Value*>& chains) {
    const auto columns = static_cast<size_t>(columns_each(plan_.key_block));
    for (int d = 0; d < step_; ++d) {
      Value* first = ir_.CreateAdd(down_, number(d * queries_stride_));
      const std::vector<Value*> x = load(factors_, first, own_),
                                y = row_of(keys_, number(d), stride_, plan_.key_block);
      for (size_t i = 0; i < x.size(); ++i)
        for (size_t j = 0; j < columns; ++j)
          chains[i * columns + j] =
              multiply_add(k_, plan_.type, x[i], y[j], chains[i * columns + j]);
    }
  }

  // A warp has its own rows.
  void take_exponentials(Scope& part, Value* key) {
    part.seek();
    const int each = plan_.rows / warps, keys_each = plan_.key_block / 32;
    Value* lane = ir_.CreateAnd(k_.thread(), 31);
    Value* first = ir_.CreateMul(ir_.CreateLShr(k_.thread(), 5), number(each));
    emit_loop(part, first, ir_.CreateAdd(first, number(each)), number(1), true,
              [&](Scope& row, Value* r) {
                row.seek();
                Value* query = rows_.set_row(row, r);
                Value *largest = rows_.lowest(), *start = ir_.CreateMul(r, number(stride_));
                std::vector<Value*> scores, places;
                for (int n = 0; n < keys_each; ++n) {
                  row.seek();
                  Value* own = ir_.CreateAdd(lane, number(32 * n));
                  places.push_back(at(scores_, ir_.CreateAdd(start, own)));
                  Value* sum = ir_.CreateLoad(type_, places.back());
                  Value* at_key = ir_.CreateAdd(key, ir_.CreateZExt(own, ir_.getInt64Ty()));
                  scores.push_back(rows_.score(row, query, at_key, sum));
                  largest = rows_.larger(scores.back(), largest);
                }
                sync_warp(ir_);
                for (int distance = 16; distance > 0; distance /= 2)
                  largest = rows_.larger(shuffle(ir_, largest, number(distance), true), largest);
                Value* before = ir_.CreateLoad(type_, at(maxima_, r));
                largest = rows_.larger(largest, before);
                Value* finite = rows_.finite(largest);
                Value* shrink = rows_.exponential(row, before, finite);
                for (size_t n = 0; n < scores.size(); ++n)
                  ir_.CreateStore(rows_.exponential(row, scores[n], finite), places[n]);
                sync_warp(ir_);  // all lanes have read the maximum
                emit_if(row, ir_.CreateICmpEQ(lane, number(0)), [&](Scope& one) {
                  one.seek();
                  ir_.CreateStore(largest, at(maxima_, r));
                  ir_.CreateStore(shrink, at(shrink_, r));
                });
                row.seek();
              });
  }

  // State: the rows' sums of exponentials, then of products with values, by rows.
  std::vector<Value*> add_values(Scope& part, Value* key, std::vector<Value*> state) {
    const int columns = columns_each(plan_.columns);
    const std::vector<Value*> shrink = load(shrink_, down_, own_);
    for (int i = 0; i < own_; ++i) {
      const auto row = static_cast<size_t>(i);
      state[row] = times(state[row], shrink[row]);
      for (int j = 0; j < columns; ++j) {
        const auto n = static_cast<size_t>(own_ + i * columns + j);
        state[n] = times(state[n], shrink[row]);
      }
    }
    Value* end = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, rows_.key_end(),
                                           ir_.CreateAdd(key, k_.i64(plan_.key_block)));
    llvm::Constant* minus_zero = llvm::ConstantFP::getNegativeZero(type_);
    return emit_loop(part, key, end, k_.i64(step_), true, std::move(state),
                     [&](Scope& inner, Value* first, std::vector<Value*> now) {
                       inner.seek();
                       rows_.barrier();
                       // Behind the last key exponentials are 0: times -0 they change no sum.
                       rows_.stage(inner, rows_.values(), first, plan_.columns, step_, plan_.type,
                                   minus_zero, factors_, plan_.columns + pad);
                       inner.seek();
                       rows_.barrier();
                       add_products(ir_.CreateTrunc(ir_.CreateSub(first, key), ir_.getInt32Ty()),
                                    now);
                       return now;
                     });
  }

  void add_products(Value* first, std::vector<Value*>& state) {
    const int columns = columns_each(plan_.columns), four = 4;
    for (int n = 0; n < step_; n += four) {
      std::vector<std::vector<Value*>> weights;
      for (int i = 0; i < own_; ++i) {
        Value* start = ir_.CreateMul(ir_.CreateAdd(down_, number(i)), number(stride_));
        start = ir_.CreateAdd(ir_.CreateAdd(start, first), number(n));
        weights.push_back(load(scores_, start, four));
      }
      for (int m = 0; m < four; ++m) {
        const std::vector<Value*> values =
            row_of(factors_, number(n + m), plan_.columns + pad, plan_.columns);
        for (int i = 0; i < own_; ++i) {
          Value* p = weights[static_cast<size_t>(i)][static_cast<size_t>(m)];
          Value*& sum = state[static_cast<size_t>(i)];
          sum = add(sum, p);
          for (int j = 0; j < columns; ++j) {
            Value*& product = state[static_cast<size_t>(own_ + i * columns + j)];
            product = multiply_add(k_, plan_.type, p, values[static_cast<size_t>(j)], product);
          }
        }
      }
    }
  }

  // Products to the scores' place, sums to that of the factors of rows.
  void finish(const std::vector<Value*>& state) {
    const int columns = columns_each(plan_.columns);
    rows_.barrier();
    for (int i = 0; i < own_; ++i)
      put_row(std::span(state).subspan(static_cast<size_t>(own_ + i * columns),
                                       static_cast<size_t>(columns)),
              ir_.CreateAdd(down_, number(i)), plan_.columns);
    emit_if(rows_.scope(), ir_.CreateICmpEQ(across_, number(0)), [&](Scope& some) {
      some.seek();
      for (int i = 0; i < own_; ++i)
        ir_.CreateStore(state[static_cast<size_t>(i)],
                        at(shrink_, ir_.CreateAdd(down_, number(i))));
    });
    rows_.scope().seek();
    rows_.barrier();
    AttentionRows::Results results;
    results.sum = [&](Value* row, Value* column) {
      Value* n = ir_.CreateAdd(ir_.CreateMul(row, number(stride_)), column);
      return ir_.CreateLoad(type_, at(scores_, n));
    };
    results.maximum = [&](Value* row) { return ir_.CreateLoad(type_, at(maxima_, row)); };
    results.total = [&](Value* row) { return ir_.CreateLoad(type_, at(shrink_, row)); };
    rows_.finish(results, 0, plan_.rows);
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  const AttentionPlan& plan_;
  AttentionRows rows_;
  llvm::Type* type_;
  int own_, step_, stride_, queries_stride_;  // own_: rows of a thread
  // Shared: scores and then exponentials, queries and keys or values of a step, of each row the
  // maximum and the factor of the last step.
  Value *scores_ = nullptr, *factors_ = nullptr, *keys_ = nullptr, *maxima_ = nullptr,
        *shrink_ = nullptr;
  Value *across_ = nullptr, *down_ = nullptr;  // i32
};

}  // namespace

void emit_chain_attention(CudaFunction& k, const AttentionPlan& plan, bool marked) {
  if (marked) {
    llvm::IRBuilder<>& ir = k.ir;
    k.root().seek();
    llvm::BasicBlock *look = k.block("look"), *leave = k.block("leave"), *work = k.block("work");
    ir.CreateCondBr(ir.CreateICmpNE(k.team_bytes(), k.i64(0)), look, work);
    ir.SetInsertPoint(look);
    Value* mark = ir.CreateLoad(ir.getInt32Ty(), k.workspace(k.i64(0)));
    ir.CreateCondBr(ir.CreateICmpNE(mark, ir.getInt32(0)), work, leave);
    ir.SetInsertPoint(leave);
    ir.CreateRetVoid();
    ir.SetInsertPoint(work);
    k.root().move_to(work);
  }
  ChainAttention(k, plan).run();
}

}  // namespace hologram::cuda
