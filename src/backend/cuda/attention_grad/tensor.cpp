// backend/cuda/attention_grad/tensor.cpp: gradients of attention of 16-bit floats by mma.m16n8k16.
//
// A warp has 16 of the CTA's rows, whose operands stay in shared memory. Those of a round's steps
// lie beside them; the next round's are on their way through registers. Scores are left in
// registers as the instruction takes a left factor, so what follows of them is multiplied without a
// move.
#include "backend/cuda/attention_grad/tensor.h"

#include "backend/cuda/attention_grad/share.h"
#include "backend/cuda/matrices.h"
#include "backend/cuda/warp.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

constexpr int sums_pad = 4;  // floats between rows of results

class TensorGrad {
 public:
  TensorGrad(CudaFunction& k, const AttentionGradPlan& plan)
      : k_(k),
        ir_(k.ir),
        plan_(plan),
        operand_(k.program.attention_grad().operand_type),
        depths_{rounded_depth(plan, 0), rounded_depth(plan, 1)} {}

  void run() {
    k_.root().seek();
    memory_ = k_.shared(ir_.getInt16Ty(), words(), "factors");
    Value* numbers = k_.shared(ir_.getFloatTy(), GradTile::numbers(plan_), "rows");
    lane_ = ir_.CreateAnd(k_.thread(), 31);
    row_ = ir_.CreateShl(ir_.CreateLShr(k_.thread(), 5), 4);
    emit_shares(k_, plan_, tensor_grad_threads, numbers, [this](GradTile& tile) { sum(tile); });
  }

 private:
  using Values = std::vector<Value*>;
  using Pieces = std::vector<Operands::Piece>;
  // What is on its way to shared memory for a round.
  struct Round {
    Pieces operands[2];
    GradTile::Query query;
  };
  // Of scores, as left factors.
  struct Weights {
    Values p, s;
  };

  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  llvm::Constant* zero() { return llvm::Constant::getNullValue(ir_.getFloatTy()); }
  GradFactors factors(GradShare share) const {
    return grad_factors(k_.program.attention_grad(), plan_, share);
  }
  int words() const {
    const int results = 2 * plan_.rows * (std::max(depths_[0], depths_[1]) + sums_pad);
    return std::max({factors(GradShare::keys).end, factors(GradShare::queries).end, results});
  }
  Matrices matrices(const Factor& f, const GradFactors::Place& place) {
    return {memory_, number(place.first), place.stride, f.depth_run};
  }

  void sum(GradTile& tile) {
    Scope& scope = tile.scope();
    const std::vector<GradTile::Result> results = tile.results();
    places_ = factors(tile.sums_keys() ? GradShare::queries : GradShare::keys);
    for (int operand = 0; operand < 2; ++operand) {
      const auto [first, stride] = places_.rows[operand];
      const Pieces pieces =
          tile.fetch(scope, tile.rows(operand), k_.i64(0), plan_.rows, depths_[operand], stride);
      tile.write(scope, pieces, memory_, number(first));
    }
    tile.keep_rows(scope);
    emit_if(scope, ir_.CreateICmpSGT(tile.rounds(), k_.i64(0)),
            [&](Scope& some) { write(tile, some, fetch(tile, some, k_.i64(0))); });
    scope.seek();
    tile.barrier();
    Values sums;
    for (const GradTile::Result& r : results)
      sums.insert(sums.end(), static_cast<size_t>(depths_[r.operand] / 2), zero());
    Value* last = ir_.CreateSub(tile.rounds(), k_.i64(1));
    sums = emit_loop(scope, k_.i64(0), tile.rounds(), k_.i64(1), false, std::move(sums),
                     [&](Scope& part, Value* n, Values now) {
                       part.seek();
                       Value* next = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, last,
                                                               ir_.CreateAdd(n, k_.i64(1)));
                       const Round round = fetch(tile, part, next);
                       const Weights weights = find_weights(tile, part, n);
                       add(tile, results, weights, now);
                       tile.barrier();
                       write(tile, part, round);
                       part.seek();
                       tile.barrier();
                       return now;
                     });
    scope.seek();
    Value** from = sums.data();
    for (const GradTile::Result& r : results) {
      store(tile, r, from);
      from += depths_[r.operand] / 2;
    }
  }

  Round fetch(GradTile& tile, Scope& at, Value* n) {
    Scope one(at, false);
    Value* first = tile.begin_round(one, n);
    Round round;
    for (int operand = 0; operand < 2; ++operand)
      round.operands[operand] = tile.fetch(one, tile.steps(operand, first), k_.i64(0), plan_.steps,
                                           depths_[operand], places_.steps[operand].stride);
    if (!tile.sums_keys()) round.query = tile.load_query(one, first, plan_.steps);
    one.seek();
    at.move_to(ir_.GetInsertBlock());
    return round;
  }

  void write(GradTile& tile, Scope& at, const Round& round) {
    for (int operand = 0; operand < 2; ++operand)
      tile.write(at, round.operands[operand], memory_, number(places_.steps[operand].first));
    if (!tile.sums_keys()) tile.write_query(at, round.query, plan_.steps);
  }

  // Sums of products of the warp's rows and a round's steps.
  Values products(GradTile& tile, int operand) {
    Values sums(static_cast<size_t>(plan_.steps / 2), zero());
    const Matrices left = matrices(tile.rows(operand), places_.rows[operand]),
                   right = matrices(tile.steps(operand, nullptr), places_.steps[operand]);
    for (int d = 0; d < depths_[operand]; d += 16) {
      const Values rows = load_matrices(k_, left, row_, number(d), false);
      for (int n = 0; n < plan_.steps; n += 16) {
        const Values two = load_matrices(k_, right, number(n), number(d), true);
        multiply_matrices(k_, operand_, rows, {two[0], two[1]}, sums.data() + n / 2);
        multiply_matrices(k_, operand_, rows, {two[2], two[3]}, sums.data() + n / 2 + 4);
      }
    }
    return sums;
  }

  // Column 8 n + 2 (lane % 4) + c of row lane / 4 + 8 h is value 4 n + 2 h + c.
  Weights find_weights(GradTile& tile, Scope& part, Value* n) {
    Scope one(part, false);
    Value* first = tile.begin_round(one, n);
    sync_warp(ir_);  // what follows is the whole warp's, and fetching may have parted it
    Values p = products(tile, 0), s = products(tile, 1);
    Value* row = ir_.CreateAdd(row_, ir_.CreateLShr(lane_, 2));
    Value* step = ir_.CreateShl(ir_.CreateAnd(lane_, 3), 1);
    for (size_t v = 0; v < p.size(); ++v) {
      one.seek();
      const int eight = static_cast<int>(v / 4), half = static_cast<int>(v / 2 % 2);
      const auto w = tile.weigh(one, ir_.CreateAdd(row, number(8 * half)),
                                ir_.CreateAdd(step, number(8 * eight + static_cast<int>(v % 2))),
                                first, p[v], s[v]);
      p[v] = w.p;
      s[v] = w.s;
    }
    one.seek();
    Weights out;
    for (size_t v = 0; v < p.size(); v += 2) {
      if (!tile.sums_keys()) out.p.push_back(round_pair(k_, operand_, p[v], p[v + 1]));
      out.s.push_back(round_pair(k_, operand_, s[v], s[v + 1]));
    }
    part.move_to(ir_.GetInsertBlock());
    sync_warp(ir_);
    return out;
  }

  void add(GradTile& tile, const std::vector<GradTile::Result>& results, const Weights& weights,
           Values& sums) {
    Value** to = sums.data();
    for (const GradTile::Result& r : results) {
      Matrices from = matrices(tile.steps(r.operand, nullptr), places_.steps[r.operand]);
      from.depth_run = !from.depth_run;  // the sum runs over steps
      for (int n = 0; n < plan_.steps; n += 16) {
        const auto first = (r.of_p ? weights.p : weights.s).begin() + n / 4;
        const Values left(first, first + 4);
        for (int c = 0; c < depths_[r.operand]; c += 16) {
          const Values two = load_matrices(k_, from, number(c), number(n), true);
          multiply_matrices(k_, operand_, left, {two[0], two[1]}, to + c / 2);
          multiply_matrices(k_, operand_, left, {two[2], two[3]}, to + c / 2 + 4);
        }
      }
      to += depths_[r.operand] / 2;
    }
  }

  // Sums take the factors' place.
  void store(GradTile& tile, const GradTile::Result& result, Value* const* sums) {
    const int columns = depths_[result.operand], apart = columns + sums_pad;
    auto* pair = llvm::FixedVectorType::get(ir_.getFloatTy(), 2);
    tile.scope().seek();
    tile.barrier();
    Value* column = ir_.CreateShl(ir_.CreateAnd(lane_, 3), 1);
    for (int v = 0; v < columns / 2; v += 2) {
      Value* two = ir_.CreateInsertElement(llvm::PoisonValue::get(pair), sums[v], uint64_t{0});
      two = ir_.CreateInsertElement(two, sums[v + 1], uint64_t{1});
      Value* row = ir_.CreateAdd(row_, ir_.CreateLShr(lane_, 2));
      row = ir_.CreateAdd(row, number(v / 2 % 2 * 8));
      Value* place = ir_.CreateAdd(ir_.CreateMul(row, number(apart)), column);
      place = ir_.CreateAdd(place, number(v / 4 * 8));
      ir_.CreateAlignedStore(two, ir_.CreateGEP(ir_.getFloatTy(), memory_, place), llvm::Align(8));
    }
    tile.barrier();
    tile.store(result, columns, [&](Value* row, Value* at) {
      Value* place = ir_.CreateAdd(ir_.CreateMul(row, number(apart)), at);
      return ir_.CreateLoad(ir_.getFloatTy(), ir_.CreateGEP(ir_.getFloatTy(), memory_, place));
    });
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  const AttentionGradPlan& plan_;
  DType operand_;
  int depths_[2];  // multiples of 16
  GradFactors places_{};
  Value *memory_ = nullptr, *lane_ = nullptr, *row_ = nullptr;  // row_: the warp's first, i32
};

}  // namespace

void emit_tensor_grad(CudaFunction& k, const AttentionGradPlan& plan) { TensorGrad(k, plan).run(); }

}  // namespace hologram::cuda
