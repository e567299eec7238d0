// backend/cuda/attention/chain.cpp: attention as chains of multiply-adds.
//
// 16 x 16 threads compute the scores of some rows and 128 keys, which go to shared memory; a warp
// turns whole rows of them into exponentials; the threads then add the products with the values,
// of which each has some rows and columns.
#include "backend/cuda/attention/chain.h"

#include <optional>

#include "backend/cuda/attention/rows.h"
#include "backend/cuda/attention/square.h"
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
        stride_(plan.key_block + Square::pad) {}

  void run() {
    Scope& scope = rows_.scope();
    scope.seek();
    scores_ = k_.shared(type_, plan_.rows * stride_, "scores");
    square_.emplace(k_, rows_, plan_.type, plan_.rows);
    factors_ = k_.shared(type_, square_->factors(plan_.key_block), "factors");
    maxima_ = k_.shared(type_, plan_.rows, "rows");
    shrink_ = k_.shared(type_, plan_.rows, "rows");
    emit_if(scope, ir_.CreateICmpULT(k_.thread(), number(plan_.rows)), [&](Scope& some) {
      some.seek();
      ir_.CreateStore(rows_.lowest(), ir_.CreateGEP(type_, maxima_, k_.thread()));
    });
    scope.seek();
    rows_.barrier();
    const size_t sums = static_cast<size_t>(own() * (1 + Square::columns_each(plan_.columns)));
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
  static constexpr int threads = chain_attention_threads, warps = threads / 32;
  static_assert(threads == Square::threads);

  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  int own() const { return square_->own(); }  // rows of a thread
  Value* down(int row) { return ir_.CreateAdd(square_->down(), number(row)); }
  Value* at(Value* memory, Value* n) { return ir_.CreateGEP(type_, memory, n); }
  Value* add(Value* x, Value* y) {
    return emit_arithmetic(k_, ir::Op::add, plan_.type, std::array{x, y});
  }
  Value* times(Value* x, Value* y) {
    return emit_arithmetic(k_, ir::Op::mul, plan_.type, std::array{x, y});
  }

  // Sums of products of queries and keys to shared memory.
  void find_scores(Scope& part, Value* key) {
    Factor keys = rows_.keys();
    keys.first = key;
    const std::vector<Value*> sums =
        square_->products(part, rows_.queries(), keys, plan_.depth, plan_.key_block, factors_);
    part.seek();
    rows_.barrier();  // the exponentials of the keys before are no longer read
    put_rows(sums, plan_.key_block);
    rows_.barrier();
  }

  // The thread's values of its rows, by rows, to the scores' place.
  void put_rows(std::span<Value* const> values, int columns) {
    const auto each = static_cast<size_t>(Square::columns_each(columns));
    for (int i = 0; i < own(); ++i)
      square_->put_row(values.subspan(static_cast<size_t>(i) * each, each), scores_, down(i),
                       stride_, columns);
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
    const int columns = Square::columns_each(plan_.columns);
    const std::vector<Value*> shrink = square_->load(shrink_, square_->down(), own());
    for (int i = 0; i < own(); ++i) {
      const auto row = static_cast<size_t>(i);
      state[row] = times(state[row], shrink[row]);
      for (int j = 0; j < columns; ++j) {
        const auto n = static_cast<size_t>(own() + i * columns + j);
        state[n] = times(state[n], shrink[row]);
      }
    }
    Value* end = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, rows_.key_end(),
                                           ir_.CreateAdd(key, k_.i64(plan_.key_block)));
    llvm::Constant* minus_zero = llvm::ConstantFP::getNegativeZero(type_);
    return emit_loop(part, key, end, k_.i64(square_->step()), true, std::move(state),
                     [&](Scope& inner, Value* first, std::vector<Value*> now) {
                       inner.seek();
                       rows_.barrier();
                       // Behind the last key exponentials are 0: times -0 they change no sum.
                       rows_.stage(inner, rows_.values(), first, plan_.columns, square_->step(),
                                   plan_.type, minus_zero, factors_, plan_.columns + Square::pad);
                       inner.seek();
                       rows_.barrier();
                       add_products(ir_.CreateTrunc(ir_.CreateSub(first, key), ir_.getInt32Ty()),
                                    now);
                       return now;
                     });
  }

  void add_products(Value* first, std::vector<Value*>& state) {
    const int columns = Square::columns_each(plan_.columns), four = 4;
    for (int n = 0; n < square_->step(); n += four) {
      std::vector<std::vector<Value*>> weights;
      for (int i = 0; i < own(); ++i) {
        Value* start = ir_.CreateMul(down(i), number(stride_));
        start = ir_.CreateAdd(ir_.CreateAdd(start, first), number(n));
        weights.push_back(square_->load(scores_, start, four));
      }
      for (int m = 0; m < four; ++m) {
        const std::vector<Value*> values =
            square_->row_of(factors_, number(n + m), plan_.columns + Square::pad, plan_.columns);
        for (int i = 0; i < own(); ++i) {
          Value* p = weights[static_cast<size_t>(i)][static_cast<size_t>(m)];
          Value*& sum = state[static_cast<size_t>(i)];
          sum = add(sum, p);
          for (int j = 0; j < columns; ++j) {
            Value*& product = state[static_cast<size_t>(own() + i * columns + j)];
            product = multiply_add(k_, plan_.type, p, values[static_cast<size_t>(j)], product);
          }
        }
      }
    }
  }

  // Products to the scores' place, sums to that of the factors of rows.
  void finish(const std::vector<Value*>& state) {
    rows_.barrier();
    put_rows(std::span(state).subspan(static_cast<size_t>(own())), plan_.columns);
    emit_if(rows_.scope(), ir_.CreateICmpEQ(square_->across(), number(0)), [&](Scope& some) {
      some.seek();
      for (int i = 0; i < own(); ++i)
        ir_.CreateStore(state[static_cast<size_t>(i)], at(shrink_, down(i)));
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
  int stride_;
  std::optional<Square> square_;
  // Shared: scores and then exponentials, queries and keys or values of a step, of each row the
  // maximum and the factor of the last step.
  Value *scores_ = nullptr, *factors_ = nullptr, *maxima_ = nullptr, *shrink_ = nullptr;
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
