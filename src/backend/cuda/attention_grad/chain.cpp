// backend/cuda/attention_grad/chain.cpp: gradients of attention as chains of multiply-adds.
//
// 16 x 16 threads compute the scores of some rows and steps and the products of gradients and
// values, and leave what follows of them in shared memory, a row for each step; then each thread
// adds the steps' operands, times these, to the results of its rows and columns.
#include "backend/cuda/attention_grad/chain.h"

#include "backend/cuda/attention/square.h"
#include "backend/cuda/attention_grad/share.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

class ChainGrad {
 public:
  explicit ChainGrad(CudaFunction& k, const AttentionGradPlan& plan)
      : k_(k),
        ir_(k.ir),
        plan_(plan),
        type_(k.type_of(plan.type)),
        stride_(plan.rows + Square::pad),
        sums_stride_(plan.columns + Square::pad) {}

  void run() {
    k_.root().seek();
    const int weights = 2 * plan_.steps * stride_, sums = plan_.rows * sums_stride_;
    weights_ = k_.shared(type_, std::max(weights, sums), "scores");
    // Values of the depth of rows and steps, or steps of a result's columns.
    const int step = plan_.type == DType::f64 ? 8 : 16;
    factors_ = k_.shared(
        type_, step * (plan_.rows + std::max(plan_.steps, plan_.columns) + 2 * Square::pad),
        "factors");
    Value* numbers = k_.shared(type_, GradTile::numbers(plan_), "rows");
    emit_shares(k_, plan_, chain_grad_threads, numbers, [this](GradTile& tile) {
      tile.scope().seek();
      Square square(k_, tile, plan_.type, plan_.rows);
      sum(tile, square);
    });
  }

 private:
  using Values = Square::Values;
  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  Value* weights(bool of_p) {
    return of_p ? ir_.CreateConstGEP1_32(type_, weights_,
                                         static_cast<unsigned>(plan_.steps * stride_))
                : weights_;
  }

  void sum(GradTile& tile, Square& square) {
    const std::vector<GradTile::Result> results = tile.results();
    const auto each = static_cast<size_t>(square.own() * Square::columns_each(plan_.columns));
    tile.keep_rows(tile.scope());
    Values sums(each * results.size(), llvm::Constant::getNullValue(type_));
    sums = emit_loop(tile.scope(), k_.i64(0), tile.rounds(), k_.i64(1), false, std::move(sums),
                     [&](Scope& part, Value* n, Values now) {
                       Value* first = tile.begin_round(part, n);
                       find_weights(tile, square, part, first);
                       Values next;
                       for (size_t r = 0; r < results.size(); ++r) {
                         const auto own = now.begin() + static_cast<ptrdiff_t>(r * each);
                         for (Value* v : add(tile, square, part, first, results[r],
                                             {own, own + static_cast<ptrdiff_t>(each)}))
                           next.push_back(v);
                       }
                       return next;
                     });
    for (size_t r = 0; r < results.size(); ++r)
      store(tile, square, results[r], std::span(sums).subspan(r * each, each));
  }

  void find_weights(GradTile& tile, Square& square, Scope& part, Value* first) {
    // The numbers of the round before were last read ahead of a barrier.
    if (!tile.sums_keys())
      tile.write_query(part, tile.load_query(part, first, plan_.steps), plan_.steps);
    auto products = [&](int operand) {
      return square.products(part, tile.rows(operand), tile.steps(operand, first),
                             tile.depth(operand), plan_.steps, factors_);
    };
    const Values scores = products(0), gradients = products(1);
    part.seek();
    tile.barrier();  // where nothing was multiplied, and before weights are replaced
    const int columns = Square::columns_each(plan_.steps);
    for (int j = 0; j < columns; ++j) {
      Values p, s;
      Value* step = square.column(j, plan_.steps);
      for (int i = 0; i < square.own(); ++i) {
        const auto n = static_cast<size_t>(i * columns + j);
        Value* row = ir_.CreateAdd(square.down(), number(i));
        const auto w = tile.weigh(part, row, step, first, scores[n], gradients[n]);
        p.push_back(w.p);
        s.push_back(w.s);
      }
      Value* place = ir_.CreateAdd(ir_.CreateMul(step, number(stride_)), square.down());
      square.store(s, weights(false), place);
      if (!tile.sums_keys()) square.store(p, weights(true), place);
    }
  }

  // Behind the last step weights are 0: times -0 they change no sum.
  Values add(GradTile& tile, Square& square, Scope& part, Value* first,
             const GradTile::Result& result, Values sums) {
    const int step = square.step(), columns = Square::columns_each(plan_.columns);
    const int stride = plan_.columns + Square::pad;
    part.seek();
    Value* end = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, tile.steps(0, first).count,
                                           ir_.CreateAdd(first, k_.i64(plan_.steps)));
    return emit_loop(
        part, first, end, k_.i64(step), true, std::move(sums),
        [&](Scope& inner, Value* at, Values now) {
          inner.seek();
          tile.barrier();
          tile.stage(inner, tile.columns(result.operand), at, plan_.columns, step, plan_.type,
                     llvm::ConstantFP::getNegativeZero(type_), factors_, stride);
          inner.seek();
          tile.barrier();
          Value* from = ir_.CreateTrunc(ir_.CreateSub(at, first), ir_.getInt32Ty());
          for (int n = 0; n < step; ++n) {
            Value* row = ir_.CreateMul(ir_.CreateAdd(from, number(n)), number(stride_));
            const Values w =
                square.load(weights(result.of_p), ir_.CreateAdd(row, square.down()), square.own());
            const Values x = square.row_of(factors_, number(n), stride, plan_.columns);
            for (size_t i = 0; i < w.size(); ++i)
              for (size_t j = 0; j < x.size(); ++j) {
                Value*& sum = now[i * static_cast<size_t>(columns) + j];
                sum = multiply_add(k_, plan_.type, w[i], x[j], sum);
              }
          }
          return now;
        });
  }

  // Sums take the weights' place.
  void store(GradTile& tile, Square& square, const GradTile::Result& result,
             std::span<Value* const> sums) {
    const auto columns = static_cast<size_t>(Square::columns_each(plan_.columns));
    tile.scope().seek();
    tile.barrier();
    for (int i = 0; i < square.own(); ++i)
      square.put_row(sums.subspan(static_cast<size_t>(i) * columns, columns), weights_,
                     ir_.CreateAdd(square.down(), number(i)), sums_stride_, plan_.columns);
    tile.barrier();
    tile.store(result, plan_.columns, [&](Value* row, Value* column) {
      Value* place = ir_.CreateAdd(ir_.CreateMul(row, number(sums_stride_)), column);
      return ir_.CreateLoad(type_, ir_.CreateGEP(type_, weights_, place));
    });
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  const AttentionGradPlan& plan_;
  llvm::Type* type_;
  int stride_, sums_stride_;
  Value *weights_ = nullptr, *factors_ = nullptr;  // shared
};

}  // namespace

void emit_chain_grad(CudaFunction& k, const AttentionGradPlan& plan) { ChainGrad(k, plan).run(); }

}  // namespace hologram::cuda
