// backend/cuda/products/wide_terms.cpp: float32 products by wgmma.m64n128k16 of bfloat16 terms.
//
// Before the product another kernel splits the right factor, whatever its body does, into planes of
// terms in the workspace, which lie as the factor does. A tile has 128 columns, a slot 32
// values of k of the left factor as it is and of the planes. A thread reads the fragments of its
// rows from shared memory and splits them in registers, which wgmma takes the left factor from.
//
// Terms and the order of their products are those of terms.cpp, and so is the way of the sums: 32
// values of k into sums that begin at zero, these to the sums of 384, and those to the result.
#include "backend/cuda/products/wide_terms.h"

#include <array>

#include "atlas/order.h"
#include "backend/cuda/operands.h"
#include "backend/cuda/products/skinny.h"
#include "backend/cuda/products/terms.h"
#include "backend/cuda/products/thin.h"
#include "backend/cuda/products/tile.h"
#include "backend/cuda/products/wide_tiles.h"
#include "backend/cuda/warp.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

constexpr int terms_step = 32, terms_columns = 128;
constexpr int plane_bytes = terms_columns * terms_step * 2;
// Slots fill shared memory.
constexpr WideShape terms_shape(int terms) {
  return {.columns = terms_columns,
          .step = terms_step,
          .slots = std::array{8, 6, 5}[static_cast<size_t>(terms) - 1],
          .left_bytes = WideShape::rows * terms_step * 4,
          .right_bytes = terms * plane_bytes,
          .slice = 32,
          .arrivals = 4 * WideShape::consumers,  // of each warp
          .turned_rows = true,
          .mends = true,
          .left_registers = true};
}
constexpr int block_steps = atlas::product_block / terms_step;
static_assert(atlas::product_block % terms_step == 0);
static_assert(terms_shape(1).left_bytes == WideShape::rows * Async::row_bytes);
constexpr bool fits(int terms) { return terms_shape(terms).shared_bytes() <= 227 << 10; }
static_assert(fits(1) && fits(2) && fits(3));

WideFactors terms_factors(const atlas::Program& program) {
  WideFactors out = find_factors(program);
  out.left.set_box(terms_step, WideShape::rows, terms_step);
  out.right.set_box(out.right.depth_run ? terms_step : Async::row_bytes / 2, terms_columns,
                    terms_step);
  return out;
}

class WideTerms final : public WideTiles {
 public:
  using WideTiles::WideTiles;

 private:
  // Where in a slot the thread finds its numbers: along k, pairs of neighbours for each half of
  // each 16 values of k, else for each half of the rows two numbers, which are 128 bytes of k
  // apart.
  void start_consumers() override {
    leads_ = ir_.CreateICmpEQ(lane(), number(0));
    Value *row = row_of_lane(k_, lane(), true), *quarter = ir_.CreateAnd(lane(), number(3));
    Value* first = ir_.CreateAdd(ir_.CreateShl(group(), 6), ir_.CreateShl(warp(), 4));
    row = ir_.CreateAdd(first, row);
    auto piece = [&](Value* at, Value* pattern) {  // of 16 bytes
      return ir_.CreateShl(ir_.CreateXor(at, ir_.CreateAnd(pattern, number(7))), 4);
    };
    if (factors_.left.depth_run) {
      Value* line =
          ir_.CreateAdd(ir_.CreateShl(row, 7), ir_.CreateShl(ir_.CreateAnd(quarter, number(1)), 3));
      for (int half = 0; half < terms_step / 8; ++half)
        places_.push_back(ir_.CreateAdd(
            line, piece(ir_.CreateAdd(ir_.CreateLShr(quarter, 1), number(2 * half)), row)));
      return;
    }
    for (int half = 0; half < 2; ++half)
      for (int odd = 0; odd < 2; ++odd) {
        Value* x = ir_.CreateAdd(row, number(8 * half));
        Value* k = ir_.CreateAdd(ir_.CreateShl(quarter, 1), number(odd));
        Value* box = ir_.CreateMul(ir_.CreateLShr(x, 5), number(terms_step * Async::row_bytes));
        Value* inside = ir_.CreateAnd(x, number(31));
        Value* line = ir_.CreateAdd(ir_.CreateAdd(box, ir_.CreateShl(k, 7)),
                                    ir_.CreateShl(ir_.CreateAnd(x, number(3)), 2));
        places_.push_back(ir_.CreateAdd(line, piece(ir_.CreateLShr(inside, 2), k)));
      }
  }

  // Eight numbers of the left factor, k from `part` * 16 on: two neighbours along k of each row,
  // and those eight values of k behind them.
  Value* load_left(Value* slot, int part) {
    auto load = [&](llvm::Type* type, Value* place, int more) {
      Value* at = ir_.CreateAdd(ir_.CreateAdd(slot, place), number(more));
      return ir_.CreateAlignedLoad(type, ir_.CreateIntToPtr(at, ir_.getPtrTy(3)),
                                   llvm::Align(type->isVectorTy() ? 8 : 4));
    };
    llvm::Type* one = ir_.getFloatTy();
    Value* out = llvm::PoisonValue::get(llvm::FixedVectorType::get(one, Operands::lanes));
    for (int n = 0; n < 4; ++n) {
      const int down = n % 2, along = n / 2;  // eight rows, eight values of k
      Value* two[2];
      if (factors_.left.depth_run) {
        Value* both = load(llvm::FixedVectorType::get(one, 2),
                           places_[static_cast<size_t>(2 * part + along)], down * 8 * 128);
        for (uint64_t i = 0; i < 2; ++i) two[i] = ir_.CreateExtractElement(both, i);
      } else {
        for (int i = 0; i < 2; ++i)
          two[i] = load(one, places_[static_cast<size_t>(2 * down + i)],
                        (16 * part + 8 * along) * Async::row_bytes);
      }
      for (uint64_t i = 0; i < 2; ++i)
        out = ir_.CreateInsertElement(out, two[i], static_cast<uint64_t>(2 * n) + i);
    }
    return out;
  }

  Values multiply_tile(Scope& round, Value* first, Value* last, Values state,
                       Values& sums) override {
    const size_t n = sums.size();
    Value* zero = llvm::ConstantFP::get(ir_.getFloatTy(), 0.0);
    state.insert(state.end(), n, zero);
    auto add = [&](Values& to, size_t first, const Values& more) {
      for (size_t s = 0; s < n; ++s)
        to[first + s] =
            emit_arithmetic(k_, ir::Op::add, DType::f32, std::array{to[first + s], more[s]});
    };
    state = emit_loop(round, first, last, number(block_steps), true, std::move(state),
                      [&](Scope& block, Value* begin, Values now) -> Values {
                        block.seek();
                        Value* end = ir_.CreateBinaryIntrinsic(
                            llvm::Intrinsic::umin, last, ir_.CreateAdd(begin, number(block_steps)));
                        Values inner{now[0], now[1]};
                        inner.insert(inner.end(), n, zero);
                        inner = emit_loop(block, begin, end, number(1), true, std::move(inner),
                                          [&](Scope& part, Value*, Values own) -> Values {
                                            part.seek();
                                            const Values chunk = multiply_step(own[0], own[1], n);
                                            std::tie(own[0], own[1]) = next(own[0], own[1]);
                                            add(own, 2, chunk);
                                            return own;
                                          });
                        block.seek();
                        now[0] = inner[0], now[1] = inner[1];
                        add(now, 2, {inner.begin() + 2, inner.end()});
                        return now;
                      });
    sums.assign(state.begin() + 2, state.end());
    return {state[0], state[1]};
  }

  // The sums of a slot's values of k.
  Values multiply_step(Value* slot, Value* parity, size_t count) {
    constexpr int parts = terms_step / 16;
    Value* base = slot_base(slot);
    async_.wait(full(slot), parity);
    Values left;  // four registers of each part and term
    for (int part = 0; part < parts; ++part)
      for (const Values& registers : take_terms(k_, load_left(base, part), terms_))
        left.insert(left.end(), registers.begin(), registers.end());
    async_.fence(left);
    const bool deep = factors_.right.depth_run;
    Value* planes = ir_.CreateAdd(base, number(terms_shape(terms_).left_bytes));
    Values chunk(count, llvm::PoisonValue::get(ir_.getFloatTy()));
    bool adds = false;
    for (const TermPair& p : pairs_of(terms_))
      for (int part = 0; part < parts; ++part) {
        const int boxes = deep ? 1 : 2;  // along the columns, each with all planes
        const int at = static_cast<int>(p.right) * plane_bytes / boxes;
        const SharedMatrix right{ir_.CreateAdd(planes, number(at)), deep,
                                 terms_ * plane_bytes / boxes,
                                 deep ? Async::row_bytes / 2 : Async::row_bytes};
        const auto first = (static_cast<size_t>(part * terms_) + p.left) * 4;
        async_.multiply(DType::bf16, std::span(left).subspan(first, 4), right, part, adds, chunk);
        adds = true;
      }
    async_.commit();
    async_.wait_products(0, chunk);
    sync_warp(ir_);  // all lanes have read their numbers
    async_.arrive(empty(slot), leads_);
    return chunk;
  }

  const int terms_ = terms_of(block_);
  Value* leads_ = nullptr;  // its warp
  Values places_;
};

}  // namespace

bool has_wide_terms(const atlas::ProductBlock& block) {
  return suits_terms(block) && !is_skinny(block) && !is_thin(block);
}

void add_wide_terms(Facts& facts, llvm::Module& module, const atlas::Program& program) {
  const WideFactors factors = terms_factors(program);
  add_planes(facts, module, program, factors);
  CudaFunction k(module, program, WideShape::threads, wide_symbol, 2);
  const auto merged = merged_tiling(program.product(), terms_columns, terms_tiling());
  const WideShape shape = terms_shape(terms_of(program.product()));
  WideTerms(k, factors, shape, merged).run();
  facts.flags = facts.flags || k.flags();
  add_wide_facts(facts, module, program, factors, shape, merged);
}

}  // namespace hologram::cuda
