// backend/cuda/attention/wide.cpp: attention of 16-bit floats by wgmma.
//
// A warpgroup's scores of the next block are under way when the products of exponentials and values
// begin, which go on while it takes the exponentials of those scores: these stay in registers, from
// which wgmma takes its left factor.
#include "backend/cuda/attention/wide.h"

#include "backend/cuda/attention/group_tiles.h"
#include "backend/cuda/attention/wide_terms.h"
#include "backend/cuda/matrices.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

class HalfAttention final : public GroupTiles {
 public:
  HalfAttention(CudaFunction& k, const GroupsPlan& plan) : GroupTiles(k, plan, false) {}

 private:
  Values multiply_keys(Value* slot) {
    Values scores(static_cast<size_t>(plan_.key_block / 2), llvm::PoisonValue::get(real_));
    Value* mine = ir_.CreateMul(group_, number(group_rows * Async::row_bytes));
    const auto depth = static_cast<int>(plan_.depth.constant_value());
    constexpr int parts = Async::row_bytes / Async::depth_bytes;
    for (int d = 0; d == 0 || 16 * d < depth; ++d) {
      const int box = d / parts;
      const SharedMatrix left{
          ir_.CreateAdd(ir_.CreateAdd(base_, mine), number(box * part(queries_kind).bytes)), true,
          0};
      const SharedMatrix right{
          ir_.CreateAdd(place(keys_kind, slot), number(box * part(keys_kind).bytes)), true, 0};
      async_.multiply(a_.operand_type, left, right, d % parts, d == 0 ? nullptr : ir_.getTrue(),
                      scores);
    }
    async_.commit();
    return scores;
  }

  void multiply_values(const Values& weights, Value* slot, Values& sums) {
    const SharedMatrix right{place(values_kind, slot), false, part(values_kind).bytes};
    for (int n = 0; n < plan_.key_block / 16; ++n)
      async_.multiply(a_.operand_type, std::span(weights).subspan(static_cast<size_t>(4 * n), 4),
                      right, n, true, sums);
    async_.commit();
  }

  // Exponentials as the left factor of products: two neighbours along the keys in a register.
  Values round(const Values& exponentials) {
    Values out;
    for (size_t n = 0; n < exponentials.size(); n += 2)
      out.push_back(round_pair(k_, a_.operand_type, exponentials[n], exponentials[n + 1]));
    return out;
  }

  Values take_tile(AttentionRows& rows, Values state) override {
    Scope& scope = rows.scope();
    scope.seek();
    const auto [begin, end] = keys_of(rows);
    Value *slot = state[0], *parity = state[1];
    async_.wait(full(queries_kind, number(0)), state[2]);
    async_.wait(full(keys_kind, slot), parity);
    Values none{zero()};
    async_.fence(none);
    Values scores = multiply_keys(slot);
    async_.wait_products(0, scores);
    async_.arrive(empty(keys_kind, slot), leads_);
    GroupSoftmax::State own;
    own.maxima = {rows.lowest(), rows.lowest()};
    own.totals = {zero(), zero()};
    softmax_->finish_scores(rows, scope, begin, scores);
    scope.seek();
    softmax_->take_exponentials(rows, scope, scores, own);
    const auto [slot_after, parity_after] = next(slot, parity);
    Values now{slot_after, parity_after, slot, parity};
    now.insert(now.end(), own.maxima.begin(), own.maxima.end());
    now.insert(now.end(), own.totals.begin(), own.totals.end());
    const Values weights = round(scores);
    now.insert(now.end(), weights.begin(), weights.end());
    now.insert(now.end(), static_cast<size_t>(plan_.columns / 2), zero());
    now = emit_loop(scope, ir_.CreateAdd(begin, k_.i64(plan_.key_block)), end,
                    k_.i64(plan_.key_block), false, std::move(now),
                    [&](Scope& block, Value* key, Values before) {
                      block.seek();
                      return take_block(rows, block, key, std::move(before));
                    });
    scope.seek();
    Parts parts = split(now);
    async_.arrive(empty(queries_kind, number(0)), leads_);
    async_.wait(full(values_kind, parts.value_slot), parts.value_parity);
    async_.fence(parts.weights);
    async_.fence(parts.sums);
    multiply_values(parts.weights, parts.value_slot, parts.sums);
    async_.wait_products(0, parts.sums);
    async_.arrive(empty(values_kind, parts.value_slot), leads_);
    finish(rows, parts.rows, parts.sums);
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

  Values take_block(AttentionRows& rows, Scope& block, Value* key, Values now) {
    Parts p = split(now);
    async_.wait(full(keys_kind, p.slot), p.parity);
    async_.fence(p.sums);
    Values scores = multiply_keys(p.slot);
    async_.wait(full(values_kind, p.value_slot), p.value_parity);
    async_.fence(p.weights);
    multiply_values(p.weights, p.value_slot, p.sums);
    async_.wait_products(1, scores);
    async_.arrive(empty(keys_kind, p.slot), leads_);
    softmax_->finish_scores(rows, block, key, scores);
    block.seek();
    const auto shrink = softmax_->take_exponentials(rows, block, scores, p.rows);
    // It is over. Assemblers move a wait for products up to the beginning of its basic block, above
    // the exponentials; this one begins another.
    async_.wait(full(values_kind, p.value_slot), p.value_parity);
    async_.wait_products(0, p.sums);
    async_.arrive(empty(values_kind, p.value_slot), leads_);
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
};

}  // namespace

bool has_wide_attention(const atlas::Program& program) { return groups_plan(program).has_value(); }

void add_wide_attention(Facts& facts, llvm::Module& module, const atlas::Program& program) {
  const auto plan = groups_plan(program);
  check(plan.has_value(), "cuda: attention by warpgroups");
  const bool terms = !plan->planes.empty();
  if (terms) {
    const MappedMatrix* const to[] = {&plan->matrices[keys_kind].matrix,
                                      &plan->matrices[values_kind].matrix};
    add_planes(facts, module, program, plan->planes, to, true);
  }
  CudaFunction k(module, program, plan->shape.threads(), wide_symbol, 3);
  terms ? emit_wide_terms(k, *plan) : HalfAttention(k, *plan).run();
  const atlas::AttentionBlock& a = program.attention();
  const bool uneven = a.causal || plan->plan.bounds.first || plan->plan.bounds.last;
  facts.flags = facts.flags || k.flags();
  facts.wide =
      WideFacts{.work = uneven ? WideFacts::Work::uneven_attention : WideFacts::Work::attention,
                .matrices = {},
                .tiles = plan->plan.units,
                .depth = plan->plan.keys,
                .threads = plan->shape.threads(),
                .shared_bytes = plan->shape.shared_bytes(),
                .marks = terms,
                .registers = true};
  for (const MappedFactor& f : plan->matrices) facts.wide->matrices.push_back(f.matrix);
}

}  // namespace hologram::cuda
