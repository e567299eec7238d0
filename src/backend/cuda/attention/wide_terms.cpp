// backend/cuda/attention/wide_terms.cpp: attention of float32 by wgmma of bfloat16 terms.
//
// Another kernel splits keys and values into three planes of terms first. A thread splits its
// queries in registers, once for a tile, and the exponentials of a block of keys: wgmma takes both
// from there. Of the nine products of terms six are taken, the small ones first, for 32 numbers of
// the depth, or 32 keys, into sums that begin at zero; these are added by additions that round to
// nearest. Exponentials are those of other backends.
//
// What is not finite comes of operands, or of numbers that a term or a sum cannot hold. Then the
// workspace is marked, and the module's other kernel, which runs behind this one, computes
// everything as chains of multiply-adds; else that kernel returns at once.
#include "backend/cuda/attention/wide_terms.h"

#include "backend/cuda/attention/group_tiles.h"
#include "backend/cuda/products/mend.h"
#include "backend/cuda/products/terms.h"
#include "backend/cuda/warp.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

class TermAttention final : public GroupTiles {
 public:
  TermAttention(CudaFunction& k, const GroupsPlan& plan)
      : GroupTiles(k, plan, true),
        depth_(static_cast<int>((plan.plan.depth.constant_value() + 15) / 16)),
        plane_(plan.plan.key_block * Async::row_bytes) {}

 private:
  static constexpr int chunk = 2;  // sixteens that are summed from zero

  // The thread's queries as the left factor: of 16 numbers of the depth four registers of each
  // term.
  Values load_queries() {
    Value *row = ir_.CreateAdd(warp_row_, ir_.CreateLShr(lane_, 2)),
          *quarter = ir_.CreateAnd(lane_, number(3));
    auto* pair = llvm::FixedVectorType::get(real_, 2);
    Values out;
    for (int d = 0; d < depth_; ++d) {
      Value* eight = llvm::PoisonValue::get(llvm::FixedVectorType::get(real_, 8));
      for (int n = 0; n < 4; ++n) {
        const int down = n % 2, first = 16 * d + 8 * (n / 2);
        Value* r = ir_.CreateAdd(row, number(8 * down));
        Value* line = ir_.CreateAdd(ir_.CreateShl(r, 7), number(first / part(queries_kind).numbers *
                                                                part(queries_kind).bytes));
        // 16 bytes hold four numbers, and change places by the row.
        Value* piece = ir_.CreateAdd(ir_.CreateLShr(quarter, 1),
                                     number(first % part(queries_kind).numbers / 4));
        piece = ir_.CreateShl(ir_.CreateXor(piece, ir_.CreateAnd(r, number(7))), 4);
        Value* inside = ir_.CreateShl(ir_.CreateAnd(quarter, number(1)), 3);
        Value* at = ir_.CreateAdd(ir_.CreateAdd(base_, line), ir_.CreateOr(piece, inside));
        Value* two =
            ir_.CreateAlignedLoad(pair, ir_.CreateIntToPtr(at, ir_.getPtrTy(3)), llvm::Align(8));
        for (uint64_t i = 0; i < 2; ++i)
          eight = ir_.CreateInsertElement(eight, ir_.CreateExtractElement(two, i),
                                          static_cast<uint64_t>(2 * n) + i);
      }
      add_terms(out, eight);
    }
    return out;
  }

  void add_terms(Values& to, Value* eight) {
    for (const Values& registers : take_terms(k_, eight))
      to.insert(to.end(), registers.begin(), registers.end());
  }

  // Sums of `count` columns for so many sixteens of k, in chunks of their own: `left` has the terms
  // of each sixteen.
  std::vector<Values> multiply(const Values& left, int sixteens, Value* right, bool deep,
                               size_t count) {
    std::vector<Values> out;
    for (int first = 0; first < sixteens; first += chunk) {
      Values sums(count, llvm::PoisonValue::get(real_));
      bool adds = false;
      for (const TermPair& p : term_pairs)
        for (int n = first; n < std::min(first + chunk, sixteens); ++n) {
          const SharedMatrix matrix{
              ir_.CreateAdd(right, number(static_cast<int>(p.right) * plane_)), deep, 0};
          const auto at = (static_cast<size_t>(n) * term_count + p.left) * 4;
          async_.multiply(DType::bf16, std::span(left).subspan(at, 4), matrix, n, adds, sums);
          adds = true;
        }
      out.push_back(std::move(sums));
    }
    async_.commit();
    Values all;
    for (const Values& sums : out) all.insert(all.end(), sums.begin(), sums.end());
    async_.wait_products(0, all);
    for (size_t c = 0; c < out.size(); ++c)
      std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(c * count), count, out[c].begin());
    return out;
  }

  Values take_tile(AttentionRows& rows, Values state) override {
    Scope& scope = rows.scope();
    scope.seek();
    const auto [begin, end] = keys_of(rows);
    async_.wait(full(queries_kind, number(0)), state[2]);
    const Values queries = load_queries();
    sync_warp(ir_);  // all lanes have read theirs
    async_.arrive(empty(queries_kind, number(0)), leads_);
    Values now{state[0], state[1], rows.lowest(), rows.lowest(), zero(), zero()};
    now.insert(now.end(), static_cast<size_t>(plan_.columns / 2), zero());
    now = emit_loop(scope, begin, end, k_.i64(plan_.key_block), true, std::move(now),
                    [&](Scope& block, Value* key, Values before) {
                      block.seek();
                      return take_block(rows, block, key, queries, std::move(before));
                    });
    scope.seek();
    GroupSoftmax::State softmax{{now[2], now[3]}, {now[4], now[5]}};
    Values sums(now.begin() + 6, now.end());
    finish(rows, softmax, sums);
    return {now[0], now[1], ir_.CreateXor(state[2], number(1))};
  }

  Values take_block(AttentionRows& rows, Scope& block, Value* key, const Values& queries,
                    Values now) {
    Value *slot = now[0], *parity = now[1];
    async_.wait(full(keys_kind, slot), parity);
    Values none{zero()};
    async_.fence(none);
    std::vector<Values> chunks = multiply(queries, depth_, place(keys_kind, slot), true,
                                          static_cast<size_t>(plan_.key_block / 2));
    async_.arrive(empty(keys_kind, slot), leads_);
    Values scores = std::move(chunks[0]);
    for (size_t c = 1; c < chunks.size(); ++c)
      for (size_t n = 0; n < scores.size(); ++n)
        scores[n] = ir_.CreateFAdd(scores[n], chunks[c][n]);
    softmax_->finish_scores(rows, block, key, scores);
    block.seek();
    GroupSoftmax::State state{{now[2], now[3]}, {now[4], now[5]}};
    const auto shrink = softmax_->take_exponentials(rows, block, scores, state);
    block.seek();
    Values weights;
    for (size_t n = 0; n < scores.size(); n += 8) {
      Value* eight = llvm::PoisonValue::get(llvm::FixedVectorType::get(real_, 8));
      for (uint64_t i = 0; i < 8; ++i) eight = ir_.CreateInsertElement(eight, scores[n + i], i);
      add_terms(weights, eight);
    }
    async_.wait(full(values_kind, slot), parity);
    async_.fence(weights);
    chunks = multiply(weights, plan_.key_block / 16, place(values_kind, slot), false,
                      static_cast<size_t>(plan_.columns / 2));
    async_.arrive(empty(values_kind, slot), leads_);
    const auto [next_slot, next_parity] = next(slot, parity);
    Values out{next_slot,       next_parity,     state.maxima[0],
               state.maxima[1], state.totals[0], state.totals[1]};
    for (size_t n = 0; n < chunks[0].size(); ++n) {
      Value* sum = multiply_add(k_, DType::f32, now[6 + n], shrink[n % 4 / 2], chunks[0][n]);
      for (size_t c = 1; c < chunks.size(); ++c) sum = ir_.CreateFAdd(sum, chunks[c][n]);
      out.push_back(sum);
    }
    return out;
  }

  void check_results(Scope& scope, const GroupSoftmax::State& state, const Values& sums) override {
    Value* finite = ir_.getTrue();
    for (const auto* values : {&state.totals, &state.maxima})
      for (Value* v : *values) {
        // No key is seen: the maximum is the lowest number.
        Value* none = ir_.CreateFCmpOEQ(v, llvm::ConstantFP::getInfinity(real_, true));
        finite = ir_.CreateAnd(finite, ir_.CreateOr(none, is_finite(k_, v)));
      }
    for (Value* v : sums) finite = ir_.CreateAnd(finite, is_finite(k_, v));
    emit_if(scope, ir_.CreateNot(finite), [&](Scope& some) {
      some.seek();
      // Many threads may store the same 1.
      ir_.CreateStore(number(1), k_.workspace(k_.i64(0)), /*isVolatile=*/true);
    });
  }

  const int depth_, plane_;  // sixteens of the depth; bytes of a term's numbers in a slot
};

}  // namespace

void emit_wide_terms(CudaFunction& k, const GroupsPlan& plan) { TermAttention(k, plan).run(); }

}  // namespace hologram::cuda
