// backend/cuda/products/wide.cpp: products of 16-bit floats by wgmma.m64n256k16, and of bytes by
// wgmma.m64n256k32.
//
// A CTA stays on its multiprocessor and computes tile after tile of 128 x 256 results. A thread of
// the first warpgroup has 64 values of k of both factors (of bytes 128) copied into the next of
// four slots of shared memory; the other two warpgroups multiply 64 rows each. Each slot has two
// barriers: full, which counts the bytes that come, and empty, at which both warpgroups arrive. A
// warpgroup leaves a step's products under way while it begins the next one's, and frees a slot
// when they are done.
//
// Sums go to the epilogue through 4 KiB of shared memory that a warp has for itself, 64 columns at
// a time, so that neighbouring lanes have neighbouring columns, some each.
#include "backend/cuda/products/wide.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include "backend/cuda/async.h"
#include "backend/cuda/loops/points.h"
#include "backend/cuda/products/mapped.h"
#include "backend/cuda/products/skinny.h"
#include "backend/cuda/products/tensor.h"
#include "backend/cuda/products/thin.h"
#include "backend/cuda/products/tile.h"
#include "backend/cuda/warp.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

namespace Intrinsic = llvm::Intrinsic;

constexpr int tile_rows = 128, tile_columns = 256, slots = 4;
constexpr int consumers = 2, group = 128, wide_threads = group * (1 + consumers);
constexpr int group_rows = tile_rows / consumers;
constexpr int left_bytes = tile_rows * Async::row_bytes,
              right_bytes = tile_columns * Async::row_bytes;
constexpr int slot_bytes = left_bytes + right_bytes;
constexpr int slice = 64;  // columns of sums at a time
constexpr int warp_bytes = 16 * slice * 4, sums_at = slots * slot_bytes;
constexpr int barriers_at = sums_at + 4 * consumers * warp_bytes;
constexpr int shared_bytes = barriers_at + 2 * slots * 8;
constexpr int kept_registers = 40, taken_registers = 232;
constexpr int patch = 16;  // rows of tiles that are walked together
static_assert(shared_bytes <= 227 << 10);

// Neighbours that a lane has: of a short epilogue 16 bytes of 16-bit results; of longer ones less,
// whose values have to find room beside the sums.
int lanes_of(const atlas::ProductBlock& block) {
  const size_t instructions = block.epilogue.instrs.size();
  return instructions <= 16 ? 8 : instructions <= 48 ? 4 : 2;
}

struct Factors {
  MappedFactor left, right;
};

std::optional<Factors> factors_of(const atlas::Program& program) {
  const atlas::ProductBlock& block = program.product();
  const bool bytes = !is_float(block.operand_type);
  if (!suits_tensor_cores(block) || (!bytes && (is_skinny(block) || is_thin(block))))
    return std::nullopt;
  auto left = mapped_factor(program, false), right = mapped_factor(program, true);
  if (!left || !right) return std::nullopt;
  if (bytes && (block.mixed || !left->depth_run || !right->depth_run)) return std::nullopt;
  // Rows along k are as many as there are of x; of others, as many as a step has values of k.
  auto set_boxes = [](MappedFactor& f, int count) {
    const int box = Async::row_bytes / size_of(f.matrix.type);
    f.matrix.box.assign(f.matrix.sizes.size(), 1);
    f.matrix.box[0] = box;
    f.matrix.box[1] = f.depth_run ? count : box;
  };
  set_boxes(*left, tile_rows);
  set_boxes(*right, tile_columns);
  return Factors{std::move(*left), std::move(*right)};
}

class WideProduct {
 public:
  WideProduct(CudaFunction& k, const Factors& factors)
      : k_(k),
        ir_(k.ir),
        async_(k),
        block_(k.program.product()),
        factors_(factors),
        lanes_(lanes_of(block_)),
        step_(Async::row_bytes / size_of(block_.operand_type)),
        sum_(k.type_of(block_.acc_type)) {}

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
    for (int s = 0; s < slots; ++s) {
      async_.make_barrier(full(number(s)), 1);
      async_.make_barrier(empty(number(s)), consumers);
    }
    async_.fence_barriers();
    ir_.CreateBr(ready);
    ir_.SetInsertPoint(ready);
    root.move_to(ready);
    ir_.CreateIntrinsic(Intrinsic::nvvm_barrier0, {}, {});
    // The same in all lanes of a warp, and known to be.
    which_ = shuffle(ir_, ir_.CreateLShr(k_.thread(), 7), number(0), false);
    stride_ = ir_.CreateIntrinsic(Intrinsic::nvvm_read_ptx_sreg_nctaid_x, {}, {});
    tiles_ = ir_.CreateTrunc(k_.total(), ir_.getInt32Ty());
    auto count = [&](int axis, int size) {
      Value* v = ir_.CreateTrunc(value(root, extent(axis)), ir_.getInt32Ty());
      return ir_.CreateUDiv(ir_.CreateAdd(v, number(size - 1)), number(size));
    };
    down_ = count(block_.batch_rank, tile_rows);
    across_ = count(block_.batch_rank + 1, tile_columns);
    steps_ = count(block_.batch_rank + 2, step_);
    ir_.CreateCondBr(ir_.CreateICmpEQ(which_, number(0)), produce, consume);
    ir_.SetInsertPoint(produce);
    {
      Scope producer(root, true);
      async_.keep_registers(kept_registers, true);
      emit_if(producer, first, [&](Scope& one) { bring_tiles(one); });
      producer.seek();
      ir_.CreateBr(done);
    }
    ir_.SetInsertPoint(consume);
    {
      Scope consumer(root, true);
      async_.keep_registers(taken_registers, false);
      multiply_tiles(consumer);
      consumer.seek();
      ir_.CreateBr(done);
    }
    ir_.SetInsertPoint(done);
    k_.finish();
  }

 private:
  using Values = std::vector<Value*>;

  struct Tile {
    Value *row, *column;  // of its first result, i32
    Values left, right;   // batch coordinates of the factors, i32
  };

  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  Value* wide(Value* n) { return ir_.CreateZExt(n, ir_.getInt64Ty()); }
  const Expr& extent(int axis) const { return block_.axes[static_cast<size_t>(axis)].extent; }
  Value* value(Scope& at, const Expr& e) {
    Value* v = emit_expr(at, e).v;
    at.seek();
    return v;
  }

  Value* full(Value* slot) {
    return ir_.CreateAdd(ir_.CreateAdd(base_, number(barriers_at)), ir_.CreateShl(slot, 3));
  }
  Value* empty(Value* slot) { return ir_.CreateAdd(full(slot), number(8 * slots)); }
  Value* slot_base(Value* slot) {
    return ir_.CreateAdd(base_, ir_.CreateMul(slot, number(slot_bytes)));
  }
  // The next slot, and the parity of its phase.
  std::pair<Value*, Value*> next(Value* slot, Value* parity) {
    Value* after = ir_.CreateAdd(slot, number(1));
    Value* wraps = ir_.CreateICmpEQ(after, number(slots));
    return {ir_.CreateSelect(wraps, number(0), after),
            ir_.CreateXor(parity, ir_.CreateZExt(wraps, ir_.getInt32Ty()))};
  }

  // Where a tile is: rows of tiles go together in patches, down each column of a patch first, so
  // that what CTAs read at a time is in the cache.
  Tile find_tile(Scope& at, Value* tile) {
    at.seek();
    Value* one = ir_.CreateMul(down_, across_);
    Value* batch = ir_.CreateUDiv(tile, one);
    tile = ir_.CreateSub(tile, ir_.CreateMul(batch, one));
    Value* whole = ir_.CreateMul(across_, number(patch));
    Value* before = ir_.CreateMul(ir_.CreateUDiv(tile, whole), number(patch));
    Value* inside = ir_.CreateURem(tile, whole);
    Value* high =
        ir_.CreateBinaryIntrinsic(Intrinsic::umin, number(patch), ir_.CreateSub(down_, before));
    Value* row = ir_.CreateAdd(before, ir_.CreateURem(inside, high));
    Value* column = ir_.CreateUDiv(inside, high);
    fix_axes(at, block_.axes, 0, block_.batch_rank, wide(batch));
    at.seek();
    Tile out{
        ir_.CreateMul(row, number(tile_rows)), ir_.CreateMul(column, number(tile_columns)), {}, {}};
    for (int a = 0; a < block_.batch_rank; ++a) {
      Value* x = ir_.CreateTrunc(value(at, Expr::axis(a, extent(a))), ir_.getInt32Ty());
      auto coordinate = [&](const MappedFactor& f) {
        return f.matrix.sizes[static_cast<size_t>(a) + 2].is(1) ? number(0) : x;
      };
      out.left.push_back(coordinate(factors_.left));
      out.right.push_back(coordinate(factors_.right));
    }
    return out;
  }

  // Copies of a factor's elements [x, x + count) x [k, k + step_).
  void bring(const MappedFactor& f, int map, int count, Value* to, Value* x, Value* k,
             const Values& batch, Value* barrier) {
    for (int at = 0; at < (f.depth_run ? 1 : count); at += f.matrix.box[0]) {
      Value* first = ir_.CreateAdd(x, number(at));
      Values place = f.depth_run ? Values{k, x} : Values{first, k};
      place.insert(place.end(), batch.begin(), batch.end());
      async_.copy(ir_.CreateAdd(to, number(at * Async::row_bytes)), k_.map(map), place, barrier);
    }
  }

  void bring_tiles(Scope& one) {
    emit_loop(one, k_.cta(), tiles_, stride_, true, {number(0), number(1)},
              [&](Scope& round, Value* number_of_tile, Values state) {
                const Tile tile = find_tile(round, number_of_tile);
                return emit_loop(
                    round, number(0), steps_, number(1), true, std::move(state),
                    [&](Scope& part, Value* s, const Values& now) -> Values {
                      part.seek();
                      Value *slot = now[0], *barrier = full(slot), *to = slot_base(slot);
                      async_.wait(empty(slot), now[1]);
                      async_.expect(barrier, slot_bytes);
                      Value* k = ir_.CreateMul(s, number(step_));
                      bring(factors_.left, 0, tile_rows, to, tile.row, k, tile.left, barrier);
                      bring(factors_.right, 1, tile_columns, ir_.CreateAdd(to, number(left_bytes)),
                            tile.column, k, tile.right, barrier);
                      const auto [after, parity] = next(slot, now[1]);
                      return {after, parity};
                    });
              });
  }

  void multiply_tiles(Scope& consumer) {
    consumer.seek();
    mine_ = ir_.CreateSub(which_, number(1));
    Value* inside = ir_.CreateAnd(k_.thread(), number(group - 1));
    leads_ = ir_.CreateICmpEQ(inside, number(0));
    lane_ = ir_.CreateAnd(inside, number(31));
    warp_ = ir_.CreateLShr(inside, 5);
    emit_loop(consumer, k_.cta(), tiles_, stride_, true, {number(0), number(0)},
              [&](Scope& round, Value* number_of_tile, Values state) {
                const Tile tile = find_tile(round, number_of_tile);
                round.seek();
                Values sums(tile_columns / 2, llvm::PoisonValue::get(sum_));
                state = multiply_tile(round, state, sums);
                finish(round, tile, sums);
                return state;
              });
  }

  // Slot and parity, and behind them the slot whose products are under way; the sums.
  Values multiply_tile(Scope& round, Values state, Values& sums) {
    state.push_back(number(0));
    state.insert(state.end(), sums.begin(), sums.end());
    state = emit_loop(
        round, number(0), steps_, number(1), true, std::move(state),
        [&](Scope& part, Value* s, const Values& now) -> Values {
          part.seek();
          Value *slot = now[0], *to = slot_base(slot);
          Values own(now.begin() + 3, now.end());
          async_.wait(full(slot), now[1]);
          constexpr int next_box = Async::row_bytes * Async::row_bytes / 2;
          const SharedMatrix left{
              ir_.CreateAdd(to, ir_.CreateMul(mine_, number(group_rows * Async::row_bytes))),
              factors_.left.depth_run, next_box};
          const SharedMatrix right{ir_.CreateAdd(to, number(left_bytes)), factors_.right.depth_run,
                                   next_box};
          async_.fence(own);
          Value* later = ir_.CreateICmpNE(s, number(0));
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

  // A thread has two neighbours of every eight columns, in rows lane / 4 and eight below that.
  void finish(Scope& round, const Tile& tile, const Values& sums) {
    round.seek();
    llvm::Type* type = sum_;
    Value* offset =
        ir_.CreateMul(ir_.CreateAdd(ir_.CreateShl(mine_, 2), warp_), number(warp_bytes));
    Value* memory = ir_.CreateIntToPtr(ir_.CreateAdd(ir_.CreateAdd(base_, number(sums_at)), offset),
                                       ir_.getPtrTy(3));
    // Eights of columns change places by the row, so that rows meet different banks.
    auto place = [&](Value* row, Value* eight) {
      Value* other = ir_.CreateXor(eight, ir_.CreateAnd(row, number(3)));
      return ir_.CreateAdd(ir_.CreateMul(row, number(slice)), ir_.CreateShl(other, 3));
    };
    Value* high = ir_.CreateLShr(lane_, 2);
    Value* pair = ir_.CreateShl(ir_.CreateAnd(lane_, number(3)), 1);
    const int row_lanes = slice / lanes_;  // lanes that share a row
    Value* own = ir_.CreateMul(ir_.CreateAnd(lane_, number(row_lanes - 1)), number(lanes_));
    Value* first = ir_.CreateAdd(
        tile.row, ir_.CreateAdd(ir_.CreateMul(mine_, number(group_rows)), ir_.CreateShl(warp_, 4)));
    Value* row_count = value(round, extent(block_.batch_rank));
    for (int s = 0; s < tile_columns / slice; ++s) {
      round.seek();
      sync_warp(ir_);
      for (int j = 0; j < slice / 8; ++j)
        for (int half = 0; half < 2; ++half) {
          const auto which = static_cast<size_t>((s * slice / 8 + j) * 4 + 2 * half);
          Value* two = llvm::PoisonValue::get(llvm::FixedVectorType::get(type, 2));
          for (uint64_t n = 0; n < 2; ++n) two = ir_.CreateInsertElement(two, sums[which + n], n);
          Value* row = ir_.CreateAdd(high, number(8 * half));
          Value* at = ir_.CreateAdd(place(row, number(j)), pair);
          ir_.CreateAlignedStore(two, ir_.CreateGEP(type, memory, at), llvm::Align(8));
        }
      sync_warp(ir_);
      Value* column = ir_.CreateAdd(ir_.CreateAdd(tile.column, number(s * slice)), own);
      emit_loop(round, ir_.CreateUDiv(lane_, number(row_lanes)), number(16), number(32 / row_lanes),
                true, [&](Scope& some, Value* row) {
                  some.seek();
                  Value* from = ir_.CreateAdd(place(row, ir_.CreateLShr(own, 3)),
                                              ir_.CreateAnd(own, number(7)));
                  from = ir_.CreateGEP(type, memory, from);
                  Value* at = wide(ir_.CreateAdd(first, row));
                  emit_if(some, ir_.CreateICmpSLT(at, row_count), [&](Scope& point) {
                    point.set_axis(block_.batch_rank, at);
                    run_epilogue(point, wide(column), from);
                  });
                });
    }
    round.seek();
    sync_warp(ir_);  // the next step's products are the whole warp's
  }

  // On a lane's sums as one vector or, where the row ends before the last of them, one by one.
  void run_epilogue(Scope& row, Value* column, Value* from) {
    const int axis = block_.batch_rank + 1;
    row.seek();
    Value* count = value(row, extent(axis));
    Value* end = ir_.CreateAdd(column, k_.i64(lanes_));
    Value* whole = ir_.CreateICmpSLE(end, count);
    emit_if(row, whole, [&](Scope& point) {
      point.seek();
      auto* type = llvm::FixedVectorType::get(sum_, static_cast<unsigned>(lanes_));
      Value* sum = ir_.CreateAlignedLoad(type, from, llvm::Align(lanes_ >= 4 ? 16 : 8));
      point.set_axis(axis, column);
      point.set_lanes(axis, lanes_);
      point.set_accumulator(0, {sum, true});
      emit_body(point, block_.epilogue);
    });
    row.seek();
    emit_loop(row, ir_.CreateSelect(whole, count, column), count, k_.i64(1), false,
              [&](Scope& point, Value* at) {
                point.seek();
                Value* place = ir_.CreateGEP(sum_, from, ir_.CreateSub(at, column));
                point.set_axis(axis, at);
                point.set_accumulator(0, {ir_.CreateLoad(sum_, place), false});
                emit_body(point, block_.epilogue);
              });
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  Async async_;
  const atlas::ProductBlock& block_;
  const Factors& factors_;
  int lanes_, step_;  // neighbours of a lane; values of k of a slot
  llvm::Type* sum_;
  Value *base_ = nullptr, *which_ = nullptr, *stride_ = nullptr, *tiles_ = nullptr;
  Value *down_ = nullptr, *across_ = nullptr, *steps_ = nullptr;                  // of tiles; of k
  Value *mine_ = nullptr, *leads_ = nullptr, *lane_ = nullptr, *warp_ = nullptr;  // of consumers
};

}  // namespace

bool has_wide_product(const atlas::Program& program) { return factors_of(program).has_value(); }

void add_wide_product(Facts& facts, llvm::Module& module, const atlas::Program& program) {
  const auto factors = factors_of(program);
  check(factors.has_value(), "cuda: factors of a wide product");
  CudaFunction k(module, program, wide_threads, wide_symbol, 2);
  WideProduct(k, *factors).run();
  const Tiling tiling{tile_rows, tile_columns, wide_threads};
  const atlas::ProductBlock& block = program.product();
  facts.flags = facts.flags || k.flags();
  facts.wide =
      WideFacts{factors->left.matrix, factors->right.matrix,
                tiling.tiles(block),  block.axes[static_cast<size_t>(block.batch_rank) + 2].extent,
                wide_threads,         shared_bytes};
}

}  // namespace hologram::cuda
