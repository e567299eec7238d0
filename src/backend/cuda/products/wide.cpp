// backend/cuda/products/wide.cpp: products of 16-bit floats by wgmma.m64n256k16, and of bytes by
// wgmma.m64n256k32.
//
// A tile has 256 columns, a slot 64 values of k (of bytes 128). A warpgroup leaves a step's
// products under way while it begins the next one's, and each warp frees a slot when they are done.
#include "backend/cuda/products/wide.h"

#include "backend/cuda/products/skinny.h"
#include "backend/cuda/products/tensor.h"
#include "backend/cuda/products/terms.h"
#include "backend/cuda/products/thin.h"
#include "backend/cuda/products/tile.h"
#include "backend/cuda/products/wide_terms.h"
#include "backend/cuda/products/wide_tiles.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

WideShape wide_shape(const atlas::ProductBlock& block) {
  constexpr int columns = 256;
  WideShape shape{.columns = columns,
                  .step = Async::row_bytes / size_of(block.operand_type),
                  .slots = 4,
                  .left_bytes = WideShape::rows * Async::row_bytes,
                  .right_bytes = columns * Async::row_bytes,
                  .slice = 64,
                  .arrivals = 4 * WideShape::consumers};  // of each warp
  return shape;
}

std::optional<WideFactors> wide_factors(const atlas::Program& program) {
  const atlas::ProductBlock& block = program.product();
  const bool bytes = !is_float(block.operand_type);
  if (!suits_tensor_cores(block) || (!bytes && (is_skinny(block) || is_thin(block))))
    return std::nullopt;
  WideFactors out = find_factors(program);
  if (bytes && (out.computed() || block.mixed || !out.left.depth_run || !out.right.depth_run))
    return std::nullopt;
  // Rows along k are as many as there are of x; of others, as many as a step has values of k.
  const WideShape shape = wide_shape(block);
  out.left.set_box(shape.step, WideShape::rows, shape.step);
  out.right.set_box(shape.step, shape.columns, shape.step);
  return out;
}

class WideProduct final : public WideTiles {
 public:
  using WideTiles::WideTiles;

 private:
  // A wait for products is over for the warp alone.
  void start_consumers() override { leads_ = ir_.CreateICmpEQ(lane(), number(0)); }

  // Slot and parity, and behind them the slot whose products are under way; the sums.
  Values multiply_tile(Scope& round, Value* begin, Value* end, Values state,
                       Values& sums) override {
    state.push_back(number(0));
    state.insert(state.end(), sums.begin(), sums.end());
    state = emit_loop(
        round, begin, end, number(1), true, std::move(state),
        [&](Scope& part, Value* s, const Values& now) -> Values {
          part.seek();
          Value *slot = now[0], *to = slot_base(slot);
          Values own(now.begin() + 3, now.end());
          async_.wait(full(slot), now[1]);
          constexpr int next_box = Async::row_bytes * Async::row_bytes / 2;
          constexpr int group_bytes = WideShape::group_rows * Async::row_bytes;
          const SharedMatrix left{ir_.CreateAdd(to, ir_.CreateMul(group(), number(group_bytes))),
                                  factors_.left.depth_run, next_box};
          const SharedMatrix right{ir_.CreateAdd(to, number(WideShape::rows * Async::row_bytes)),
                                   factors_.right.depth_run, next_box};
          async_.fence(own);
          Value* later = ir_.CreateICmpNE(s, begin);
          for (int p = 0; p < Async::row_bytes / Async::depth_bytes; ++p)
            async_.multiply(block_.operand_type, left, right, p, p == 0 ? later : ir_.getTrue(),
                            own);
          async_.commit();
          async_.wait_products(1, own);
          async_.arrive(empty(now[2]), ir_.CreateAnd(leads_, later));
          const auto [after, parity] = next(slot, now[1]);
          Values out{after, parity, slot};
          out.insert(out.end(), own.begin(), own.end());
          return out;
        });
    sums.assign(state.begin() + 3, state.end());
    round.seek();
    async_.wait_products(0, sums);
    async_.arrive(empty(state[2]), leads_);
    return {state[0], state[1]};
  }

  Value* leads_ = nullptr;  // its warp
};

}  // namespace

bool has_wide_product(const atlas::Program& program) {
  return suits_terms(program.product()) ? has_wide_terms(program.product())
                                        : wide_factors(program).has_value();
}

void add_wide_product(Facts& facts, llvm::Module& module, const atlas::Program& program) {
  const atlas::ProductBlock& block = program.product();
  if (suits_terms(block)) return add_wide_terms(facts, module, program);
  const auto factors = wide_factors(program);
  check(factors.has_value(), "cuda: factors of a wide product");
  const WideShape shape = wide_shape(block);
  if (factors->computed()) add_planes(facts, module, program, *factors);
  CudaFunction k(module, program, WideShape::threads, wide_symbol, 2);
  const auto merged = merged_tiling(block, shape.columns, tensor_tiling(block));
  WideProduct(k, *factors, shape, merged).run();
  facts.flags = facts.flags || k.flags();
  add_wide_facts(facts, module, program, *factors, shape, merged);
}

}  // namespace hologram::cuda
