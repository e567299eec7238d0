// backend/cuda/attention/wide.cpp: attention by wgmma.
//
// A CTA has tiles of 64 rows for each of two or three warpgroups. A thread of the first warpgroup
// has a tile's queries and block after block of 128 keys and their values copied into shared
// memory, two of each; the others multiply. A warpgroup's scores of the next block are under way
// when the products of exponentials and values begin, which go on while it takes the exponentials
// of those scores: these stay in registers, from which wgmma takes its left factor.
#include "backend/cuda/attention/wide.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include "backend/cuda/attention/groups.h"
#include "backend/cuda/attention/softmax.h"
#include "backend/cuda/matrices.h"
#include "backend/cuda/warp.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

class WideAttention {
 public:
  WideAttention(CudaFunction& k, const GroupsPlan& plan)
      : k_(k),
        ir_(k.ir),
        async_(k),
        a_(k.program.attention()),
        plan_(plan.plan),
        shape_(plan.shape),
        matrices_(plan.matrices),
        real_(ir_.getFloatTy()) {}

  void run() {
    Scope& root = k_.root();
    root.seek();
    base_ = async_.memory();
    llvm::BasicBlock *make = k_.block("make"), *ready = k_.block("ready"),
                     *produce = k_.block("produce"), *consume = k_.block("consume"),
                     *done = k_.block("done");
    Value* first = ir_.CreateICmpEQ(k_.thread(), number(0));
    ir_.CreateCondBr(first, make, ready);
    ir_.SetInsertPoint(make);
    for (const Kind kind : {queries, keys, values})
      for (int s = 0; s < (kind == queries ? 1 : GroupsShape::slots); ++s) {
        async_.make_barrier(full(kind, number(s)), 1);
        async_.make_barrier(empty(kind, number(s)), shape_.groups);
      }
    async_.fence_barriers();
    ir_.CreateBr(ready);
    ir_.SetInsertPoint(ready);
    root.move_to(ready);
    ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
    // The same in all lanes of a warp, and known to be.
    Value* which = shuffle(ir_, ir_.CreateLShr(k_.thread(), 7), number(0), false);
    stride_ = ir_.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x, {}, {});
    tiles_ = ir_.CreateTrunc(k_.total(), ir_.getInt32Ty());
    ir_.CreateCondBr(ir_.CreateICmpEQ(which, number(0)), produce, consume);
    const bool three = shape_.groups == most_groups;
    ir_.SetInsertPoint(produce);
    {
      Scope producer(root, true);
      async_.keep_registers(three ? 32 : 40, true);
      emit_if(producer, first, [&](Scope& one) { bring_tiles(one); });
      producer.seek();
      ir_.CreateBr(done);
    }
    ir_.SetInsertPoint(consume);
    {
      Scope consumer(root, true);
      async_.keep_registers(three ? 160 : 232, false);
      group_ = ir_.CreateSub(which, number(1));
      take_tiles(consumer);
      consumer.seek();
      ir_.CreateBr(done);
    }
    ir_.SetInsertPoint(done);
    k_.finish();
  }

 private:
  using Values = std::vector<Value*>;
  enum Kind { queries, keys, values };
  static constexpr size_t halves = GroupSoftmax::halves;

  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  Value* narrow(Value* n) { return ir_.CreateTrunc(n, ir_.getInt32Ty()); }
  Value* wide(Value* n) { return ir_.CreateZExt(n, ir_.getInt64Ty()); }
  llvm::Constant* zero() { return llvm::ConstantFP::get(real_, 0.0); }

  // Barriers: of each kind and slot one that counts what comes, and one for those who have read it.
  Value* full(Kind kind, Value* slot) {
    const int first = kind == queries ? 0 : kind == keys ? 1 : 1 + GroupsShape::slots;
    return ir_.CreateAdd(ir_.CreateAdd(base_, number(shape_.barriers_at() + 16 * first)),
                         ir_.CreateShl(slot, 4));
  }
  Value* empty(Kind kind, Value* slot) { return ir_.CreateAdd(full(kind, slot), number(8)); }
  Value* place(Kind kind, Value* slot) {
    if (kind == queries) return base_;
    const int first = kind == keys ? shape_.keys_at() : shape_.values_at();
    const int bytes = kind == keys ? shape_.key_bytes() : shape_.value_bytes();
    return ir_.CreateAdd(ir_.CreateAdd(base_, number(first)), ir_.CreateMul(slot, number(bytes)));
  }
  // The next slot, and the parity of its phase.
  std::pair<Value*, Value*> next(Value* slot, Value* parity) {
    return {ir_.CreateXor(slot, number(1)), ir_.CreateXor(parity, slot)};
  }

  // Where the tile's keys begin and end, i64: a block at least, of which none may be seen.
  std::pair<Value*, Value*> keys_of(AttentionRows& rows) {
    Value* least = ir_.CreateAdd(rows.key_begin(), k_.i64(1));
    return {rows.key_begin(),
            ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, rows.key_end(), least)};
  }

  Values batch_of(Scope& at, const MappedFactor& f) {
    Values out;
    for (int b = 0; b < a_.batch_rank; ++b) {
      const auto axis = static_cast<size_t>(b);
      Value* x = number(0);
      if (!f.matrix.sizes[axis + 2].is(1)) {
        x = narrow(emit_expr(at, Expr::axis(b, a_.axes[axis].extent)).v);
        at.seek();
        if (f.shared[axis] > 1) x = ir_.CreateUDiv(x, number(static_cast<int>(f.shared[axis])));
      }
      out.push_back(x);
    }
    return out;
  }

  void bring(Kind kind, Value* slot, Value* first, const Values& batch) {
    const int boxes = kind == values ? shape_.value_boxes : shape_.depth_boxes;
    const int bytes = kind == queries ? shape_.query_box() : shape_.key_box();
    async_.expect(full(kind, slot), boxes * bytes);
    for (int b = 0; b < boxes; ++b) {
      Values at{number(b * GroupsShape::box), first};
      at.insert(at.end(), batch.begin(), batch.end());
      async_.copy(ir_.CreateAdd(place(kind, slot), number(b * bytes)), k_.map(kind), at,
                  full(kind, slot));
    }
  }

  void bring_tiles(Scope& one) {
    emit_loop(one, k_.cta(), tiles_, stride_, true, {number(0), number(1), number(1)},
              [&](Scope& round, Value* tile, Values state) -> Values {
                round.seek();
                AttentionRows rows(k_, plan_, shape_.threads(), round, tile);
                Scope& scope = rows.scope();
                scope.seek();
                std::array<Values, 3> batch;
                for (const Kind kind : {queries, keys, values})
                  batch[kind] = batch_of(scope, matrices_[kind]);
                const auto [begin, end] = keys_of(rows);
                async_.wait(empty(queries, number(0)), state[2]);
                bring(queries, number(0), narrow(rows.queries().first), batch[queries]);
                Value* parity = ir_.CreateXor(state[2], number(1));
                state.pop_back();
                state = emit_loop(scope, begin, end, k_.i64(plan_.key_block), true, state,
                                  [&](Scope& part, Value* key, const Values& now) -> Values {
                                    part.seek();
                                    for (const Kind kind : {keys, values}) {
                                      async_.wait(empty(kind, now[0]), now[1]);
                                      bring(kind, now[0], narrow(key), batch[kind]);
                                    }
                                    const auto [slot, after] = next(now[0], now[1]);
                                    return {slot, after};
                                  });
                scope.seek();
                round.move_to(ir_.GetInsertBlock());
                state.push_back(parity);
                return state;
              });
  }

  void take_tiles(Scope& consumer) {
    consumer.seek();
    Value* inside = ir_.CreateAnd(k_.thread(), number(GroupsShape::group - 1));
    lane_ = ir_.CreateAnd(inside, number(31));
    warp_ = ir_.CreateLShr(inside, 5);
    leads_ = ir_.CreateICmpEQ(inside, number(0));
    warp_row_ = ir_.CreateAdd(ir_.CreateMul(group_, number(group_rows)), ir_.CreateShl(warp_, 4));
    softmax_.emplace(k_, plan_, group_, lane_, warp_row_);
    emit_loop(consumer, k_.cta(), tiles_, stride_, true, {number(0), number(0), number(0)},
              [&](Scope& round, Value* tile, Values state) {
                round.seek();
                AttentionRows rows(k_, plan_, shape_.threads(), round, tile);
                state = take_tile(rows, std::move(state));
                rows.scope().seek();
                round.move_to(ir_.GetInsertBlock());
                return state;
              });
  }

  Values multiply_keys(Value* slot) {
    Values scores(static_cast<size_t>(plan_.key_block / 2), llvm::PoisonValue::get(real_));
    Value* mine = ir_.CreateMul(group_, number(group_rows * Async::row_bytes));
    const auto depth = static_cast<int>(plan_.depth.constant_value());
    constexpr int parts = Async::row_bytes / Async::depth_bytes;
    for (int d = 0; d == 0 || 16 * d < depth; ++d) {
      const int box = d / parts;
      const SharedMatrix left{
          ir_.CreateAdd(ir_.CreateAdd(base_, mine), number(box * shape_.query_box())), true, 0};
      const SharedMatrix right{ir_.CreateAdd(place(keys, slot), number(box * shape_.key_box())),
                               true, 0};
      async_.multiply(a_.operand_type, left, right, d % parts, d == 0 ? nullptr : ir_.getTrue(),
                      scores);
    }
    async_.commit();
    return scores;
  }

  void multiply_values(const Values& weights, Value* slot, Values& sums) {
    const SharedMatrix right{place(values, slot), false, shape_.key_box()};
    for (int part = 0; part < plan_.key_block / 16; ++part)
      async_.multiply(a_.operand_type, std::span(weights).subspan(static_cast<size_t>(4 * part), 4),
                      right, part, true, sums);
    async_.commit();
  }

  // Exponentials as the left factor of products: two neighbours along the keys in a register.
  Values round(const Values& exponentials) {
    Values out;
    for (size_t n = 0; n < exponentials.size(); n += 2)
      out.push_back(round_pair(k_, a_.operand_type, exponentials[n], exponentials[n + 1]));
    return out;
  }

  // `state`: slot and parity of the next keys, parity of the queries.
  Values take_tile(AttentionRows& rows, Values state) {
    Scope& scope = rows.scope();
    scope.seek();
    const auto [begin, end] = keys_of(rows);
    Value *slot = state[0], *parity = state[1];
    async_.wait(full(queries, number(0)), state[2]);
    async_.wait(full(keys, slot), parity);
    Values none{zero()};
    async_.fence(none);
    Values scores = multiply_keys(slot);
    async_.wait_products(0, scores);
    async_.arrive(empty(keys, slot), leads_);
    GroupSoftmax::State own;
    own.maxima = {rows.lowest(), rows.lowest()};
    own.totals = {zero(), zero()};
    softmax_->finish_scores(rows, scope, begin, scores);
    scope.seek();
    softmax_->take_exponentials(rows, scores, own);
    const auto [slot_after, parity_after] = next(slot, parity);
    Values now{slot_after, parity_after, slot, parity};
    now.insert(now.end(), own.maxima.begin(), own.maxima.end());
    now.insert(now.end(), own.totals.begin(), own.totals.end());
    const Values weights = round(scores);
    now.insert(now.end(), weights.begin(), weights.end());
    now.insert(now.end(), static_cast<size_t>(plan_.columns / 2), zero());
    now = emit_loop(scope, ir_.CreateAdd(begin, k_.i64(plan_.key_block)), end,
                    k_.i64(plan_.key_block), false, std::move(now),
                    [&](Scope& part, Value* key, Values before) {
                      part.seek();
                      return take_block(rows, part, key, std::move(before));
                    });
    scope.seek();
    Parts parts = split(now);
    async_.arrive(empty(queries, number(0)), leads_);
    async_.wait(full(values, parts.value_slot), parts.value_parity);
    async_.fence(parts.weights);
    async_.fence(parts.sums);
    multiply_values(parts.weights, parts.value_slot, parts.sums);
    async_.wait_products(0, parts.sums);
    async_.arrive(empty(values, parts.value_slot), leads_);
    finish(rows, parts);
    return {parts.slot, parts.parity, ir_.CreateXor(state[2], number(1))};
  }

  struct Parts {
    Value *slot, *parity, *value_slot, *value_parity;
    GroupSoftmax::State rows;
    Values weights, sums;
  };
  Parts split(const Values& now) {
    const size_t first = 4 + 2 * halves, count = static_cast<size_t>(plan_.key_block / 4);
    const auto weights = now.begin() + static_cast<std::ptrdiff_t>(first);
    const auto sums = weights + static_cast<std::ptrdiff_t>(count);
    return {now[0],          now[1],           now[2], now[3], {{now[4], now[5]}, {now[6], now[7]}},
            {weights, sums}, {sums, now.end()}};
  }

  Values take_block(AttentionRows& rows, Scope& part, Value* key, Values now) {
    Parts p = split(now);
    async_.wait(full(keys, p.slot), p.parity);
    async_.fence(p.sums);
    Values scores = multiply_keys(p.slot);
    async_.wait(full(values, p.value_slot), p.value_parity);
    async_.fence(p.weights);
    multiply_values(p.weights, p.value_slot, p.sums);
    async_.wait_products(1, scores);
    async_.arrive(empty(keys, p.slot), leads_);
    softmax_->finish_scores(rows, part, key, scores);
    part.seek();
    const auto shrink = softmax_->take_exponentials(rows, scores, p.rows);
    async_.wait_products(0, p.sums);
    async_.arrive(empty(values, p.value_slot), leads_);
    for (size_t n = 0; n < p.sums.size(); ++n)
      p.sums[n] = ir_.CreateFMul(p.sums[n], shrink[n % 4 / 2]);
    const auto [slot, parity] = next(p.slot, p.parity);
    Values out{slot, parity, p.slot, p.parity};
    out.insert(out.end(), p.rows.maxima.begin(), p.rows.maxima.end());
    out.insert(out.end(), p.rows.totals.begin(), p.rows.totals.end());
    const Values weights = round(scores);
    out.insert(out.end(), weights.begin(), weights.end());
    out.insert(out.end(), p.sums.begin(), p.sums.end());
    return out;
  }

  void finish(AttentionRows& rows, Parts& p) {
    Scope& scope = rows.scope();
    scope.seek();
    std::array<Value*, halves> scale;
    for (size_t h = 0; h < halves; ++h) {
      Value* total = softmax_->across_row(p.rows.totals[h],
                                          [&](Value* x, Value* y) { return ir_.CreateFAdd(x, y); });
      p.rows.totals[h] = total;
      Value* inverse = ir_.CreateFDiv(llvm::ConstantFP::get(real_, 1.0), total);
      scale[h] = ir_.CreateSelect(ir_.CreateFCmpOEQ(total, zero()), zero(), inverse);
    }
    for (size_t n = 0; n < p.sums.size(); ++n)
      p.sums[n] = ir_.CreateFMul(p.sums[n], scale[n % 4 / 2]);
    const SumSlices slices = shape_.slices();
    Value* offset =
        ir_.CreateMul(ir_.CreateAdd(ir_.CreateShl(group_, 2), warp_), number(slices.bytes()));
    Value* memory = ir_.CreateIntToPtr(
        ir_.CreateAdd(ir_.CreateAdd(base_, number(shape_.sums_at())), offset), ir_.getPtrTy(3));
    auto exists = [&](Value* row) {
      Value* at = ir_.CreateAdd(rows.queries().first, wide(row));
      return ir_.CreateICmpSLT(at, rows.queries().count);
    };
    hand_out(k_, scope, slices, memory, lane_, p.sums,
             [&](Scope& some, Value* row, Value* column, Value* from) {
               row = ir_.CreateAdd(warp_row_, row);
               emit_if(some, exists(row), [&](Scope& point) {
                 point.seek();
                 rows.set_row(point, row);
                 run_over(k_, point, a_.epilogue, a_.batch_rank + 3, wide(column),
                          rows.values().count, from, slices.lanes, real_);
               });
             });
    if (a_.lse.instrs.empty()) return;
    for (size_t h = 0; h < halves; ++h) {
      scope.seek();
      Value *maximum = softmax_->score_of(p.rows.maxima[h]), *row = softmax_->row_of(h);
      Value* leads = ir_.CreateICmpEQ(ir_.CreateAnd(lane_, number(3)), number(0));
      emit_if(scope, ir_.CreateAnd(leads, exists(row)),
              [&](Scope& point) { rows.store_log_sum(point, row, maximum, p.rows.totals[h]); });
    }
    scope.seek();
    sync_warp(ir_);  // the next tile's products are the whole warp's
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  Async async_;
  const atlas::AttentionBlock& a_;
  const AttentionPlan& plan_;
  const GroupsShape& shape_;
  const std::array<MappedFactor, 3>& matrices_;
  llvm::Type* real_;
  Value *base_ = nullptr, *stride_ = nullptr, *tiles_ = nullptr;
  Value *group_ = nullptr, *lane_ = nullptr, *warp_ = nullptr, *leads_ = nullptr;
  Value* warp_row_ = nullptr;  // the warp's first, among the CTA's
  std::optional<GroupSoftmax> softmax_;
};

}  // namespace

bool has_wide_attention(const atlas::Program& program) { return groups_plan(program).has_value(); }

void add_wide_attention(Facts& facts, llvm::Module& module, const atlas::Program& program) {
  const auto plan = groups_plan(program);
  check(plan.has_value(), "cuda: attention by warpgroups");
  CudaFunction k(module, program, plan->shape.threads(), wide_symbol, 3);
  WideAttention(k, *plan).run();
  const atlas::AttentionBlock& a = program.attention();
  const bool uneven = a.causal || plan->plan.bounds.first || plan->plan.bounds.last;
  facts.flags = facts.flags || k.flags();
  facts.wide = WideFacts{
      .work = uneven ? WideFacts::Work::uneven_attention : WideFacts::Work::attention,
      .matrices = {plan->matrices[0].matrix, plan->matrices[1].matrix, plan->matrices[2].matrix},
      .tiles = plan->plan.units,
      .depth = plan->plan.keys,
      .threads = plan->shape.threads(),
      .shared_bytes = plan->shape.shared_bytes()};
}

}  // namespace hologram::cuda
