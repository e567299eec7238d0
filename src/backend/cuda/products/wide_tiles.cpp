// backend/cuda/products/wide_tiles.cpp: tiles, slots and sums of products by warpgroups.
//
// A CTA stays on its multiprocessor and computes tile after tile. A thread of the first warpgroup
// has a step's values of k of both factors copied into the next slot of shared memory; the other
// two warpgroups multiply 64 rows each. Each slot has two barriers: full, which counts the bytes
// that come, and empty, at which arrive those who have read it.
//
// Sums go to the epilogue through shared memory that a warp has for itself, some columns at a time,
// so that neighbouring lanes have neighbouring columns, some each.
#include "backend/cuda/products/wide_tiles.h"

#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "backend/cuda/loops/points.h"
#include "backend/cuda/products/mend.h"
#include "backend/cuda/sums.h"
#include "backend/cuda/warpgroups.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

namespace Intrinsic = llvm::Intrinsic;

constexpr int kept_registers = 40, taken_registers = 232;
constexpr int patch = 16;  // rows of tiles that are walked together

}  // namespace

std::optional<Tiling> merged_tiling(const atlas::ProductBlock& block, int columns,
                                    const Tiling& other) {
  const Expr tiles = Tiling{WideShape::rows, columns, WideShape::threads}.tiles(block);
  const Expr& depth = block.axes[static_cast<size_t>(block.batch_rank) + 2].extent;
  const int least = 2 * least_part(size_of(block.operand_type));
  if ((tiles.is_const() && tiles.constant_value() > most_multiprocessors / 2) ||
      (depth.is_const() && depth.constant_value() < least))
    return std::nullopt;
  return other;
}

WideTiles::WideTiles(CudaFunction& k, const WideFactors& factors, const WideShape& shape,
                     std::optional<Tiling> merged)
    : k_(k),
      ir_(k.ir),
      async_(k),
      block_(k.program.product()),
      factors_(factors),
      shape_(shape),
      merged_(merged),
      lanes_(lanes_of_sums(block_.epilogue)),
      sum_(k.type_of(block_.acc_type)) {}

void WideTiles::run() {
  Scope& root = k_.root();
  root.seek();
  base_ = async_.memory();
  auto make_barriers = [&] {
    for (int s = 0; s < shape_.slots; ++s) {
      async_.make_barrier(full(number(s)), 1);
      async_.make_barrier(empty(number(s)), shape_.arrivals);
    }
  };
  auto prepare = [&] {
    stride_ = number_of_ctas(k_);
    units_ = ir_.CreateTrunc(k_.total(), ir_.getInt32Ty());
    parts_ = ir_.CreateTrunc(k_.teams(), ir_.getInt32Ty());
    auto count = [&](int axis, int size) {
      Value* v = ir_.CreateTrunc(value(root, extent(axis)), ir_.getInt32Ty());
      return ir_.CreateUDiv(ir_.CreateAdd(v, number(size - 1)), number(size));
    };
    down_ = count(block_.batch_rank, WideShape::rows);
    across_ = count(block_.batch_rank + 1, shape_.columns);
    steps_ = count(block_.batch_rank + 2, shape_.step);
  };
  auto take = [&](Scope& consumer, Value* group) {
    group_ = group;
    multiply_tiles(consumer);
  };
  emit_warpgroups(k_, async_,
                  {make_barriers, prepare, kept_registers, taken_registers,
                   [&](Scope& one) { bring_tiles(one); }, take});
}

Value* WideTiles::value(Scope& at, const Expr& e) {
  Value* v = emit_expr(at, e).v;
  at.seek();
  return v;
}

Value* WideTiles::full(Value* slot) {
  return ir_.CreateAdd(ir_.CreateAdd(base_, number(shape_.barriers_at())), ir_.CreateShl(slot, 3));
}
Value* WideTiles::empty(Value* slot) { return ir_.CreateAdd(full(slot), number(8 * shape_.slots)); }
Value* WideTiles::slot_base(Value* slot) {
  return ir_.CreateAdd(base_, ir_.CreateMul(slot, number(shape_.slot_bytes())));
}
std::pair<Value*, Value*> WideTiles::next(Value* slot, Value* parity) {
  Value* after = ir_.CreateAdd(slot, number(1));
  Value* wraps = ir_.CreateICmpEQ(after, number(shape_.slots));
  return {ir_.CreateSelect(wraps, number(0), after),
          ir_.CreateXor(parity, ir_.CreateZExt(wraps, ir_.getInt32Ty()))};
}

// Where a tile's part is. The tile: rows of tiles go together in patches, down each column of a
// patch first, so that what CTAs read at a time is in the cache.
WideTiles::Tile WideTiles::find_tile(Scope& at, Value* unit) {
  at.seek();
  Value *tile = unit, *part = number(0), *begin = number(0), *end = steps_;
  if (merged_) {
    tile = ir_.CreateUDiv(unit, parts_);
    part = ir_.CreateSub(unit, ir_.CreateMul(tile, parts_));
    auto cut = [&](Value* before) { return ir_.CreateUDiv(ir_.CreateMul(before, steps_), parts_); };
    begin = cut(part);
    end = cut(ir_.CreateAdd(part, number(1)));
  }
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
  Tile out{ir_.CreateMul(row, number(WideShape::rows)),
           ir_.CreateMul(column, number(shape_.columns)),
           batch,
           part,
           begin,
           end};
  Values sizes, places;
  for (int a = 0; a < block_.batch_rank; ++a) {
    sizes.push_back(ir_.CreateTrunc(value(at, extent(a)), ir_.getInt32Ty()));
    places.push_back(ir_.CreateTrunc(value(at, Expr::axis(a, extent(a))), ir_.getInt32Ty()));
  }
  auto coordinates = [&](const MappedFactor& f) -> Values {
    Values of;
    for (size_t a = 0; !f.planes && a < places.size(); ++a)
      of.push_back(f.matrix.sizes[a + 2].is(1) ? number(0) : places[a]);
    if (!f.planes) return of;
    Value* plane = number(0);
    for (const int axis : *f.planes) {
      const auto a = static_cast<size_t>(axis);
      plane = ir_.CreateAdd(ir_.CreateMul(plane, sizes[a]), places[a]);
    }
    return {plane, number(0)};
  };
  out.left = coordinates(factors_.left);
  out.right = coordinates(factors_.right);
  return out;
}

// Copies of a factor's elements [x, x + count) x [k, k + step).
void WideTiles::bring(const MappedFactor& f, int map, int count, Value* to, Value* x, Value* k,
                      const Values& batch, Value* barrier) {
  int bytes = size_of(f.matrix.type);  // of a copy
  for (const int n : f.matrix.box) bytes *= n;
  for (int at = 0; at < (f.depth_run ? 1 : count); at += f.matrix.box[0]) {
    Value* first = ir_.CreateAdd(x, number(at));
    Values place = f.depth_run ? Values{k, x} : Values{first, k};
    place.insert(place.end(), batch.begin(), batch.end());
    async_.copy(ir_.CreateAdd(to, number(at / f.matrix.box[0] * bytes)), k_.map(map), place,
                barrier);
  }
}

void WideTiles::bring_tiles(Scope& one) {
  emit_loop(one, k_.cta(), units_, stride_, true, {number(0), number(1)},
            [&](Scope& round, Value* unit, Values state) {
              const Tile tile = find_tile(round, unit);
              return emit_loop(round, tile.begin, tile.end, number(1), true, std::move(state),
                               [&](Scope& part, Value* s, const Values& now) -> Values {
                                 part.seek();
                                 Value *slot = now[0], *barrier = full(slot), *to = slot_base(slot);
                                 async_.wait(empty(slot), now[1]);
                                 async_.expect(barrier, shape_.slot_bytes());
                                 Value* k = ir_.CreateMul(s, number(shape_.step));
                                 bring(factors_.left, 0, WideShape::rows, to, tile.row, k,
                                       tile.left, barrier);
                                 bring(factors_.right, 1, shape_.columns,
                                       ir_.CreateAdd(to, number(shape_.left_bytes)), tile.column, k,
                                       tile.right, barrier);
                                 const auto [after, parity] = next(slot, now[1]);
                                 return {after, parity};
                               });
            });
}

void WideTiles::multiply_tiles(Scope& consumer) {
  consumer.seek();
  Value* inside = ir_.CreateAnd(k_.thread(), number(WideShape::group - 1));
  lane_ = ir_.CreateAnd(inside, number(31));
  warp_ = ir_.CreateLShr(inside, 5);
  start_consumers();
  emit_loop(consumer, k_.cta(), units_, stride_, true, {number(0), number(0)},
            [&](Scope& round, Value* unit, Values state) {
              const Tile tile = find_tile(round, unit);
              round.seek();
              Values sums(static_cast<size_t>(shape_.columns / 2), llvm::PoisonValue::get(sum_));
              state = multiply_tile(round, tile.begin, tile.end, state, sums);
              finish(round, tile, sums);
              return state;
            });
}

void WideTiles::finish(Scope& round, const Tile& tile, const Values& sums) {
  round.seek();
  const SumSlices slices = slices_of();
  Value* offset =
      ir_.CreateMul(ir_.CreateAdd(ir_.CreateShl(group_, 2), warp_), number(slices.bytes()));
  Value* memory = ir_.CreateIntToPtr(
      ir_.CreateAdd(ir_.CreateAdd(base_, number(shape_.sums_at())), offset), ir_.getPtrTy(3));
  Value* first = ir_.CreateAdd(
      tile.row,
      ir_.CreateAdd(ir_.CreateMul(group_, number(WideShape::group_rows)), ir_.CreateShl(warp_, 4)));
  Value* row_count = value(round, extent(block_.batch_rank));
  hand_out(k_, round, slices, memory, lane_, sums,
           [&](Scope& some, Value* row, Value* column, Value* from) {
             Value* at = wide(ir_.CreateAdd(first, row));
             Value* to = wide(ir_.CreateAdd(tile.column, column));
             Value* is = ir_.CreateICmpSLT(at, row_count);
             Value* whole = merged_ ? ir_.CreateICmpEQ(parts_, number(1)) : ir_.getTrue();
             emit_if(some, ir_.CreateAnd(is, whole), [&](Scope& point) {
               point.set_axis(block_.batch_rank, at);
               run_epilogue(point, to, from);
             });
             if (!merged_) return;
             some.seek();
             Value* has = ir_.CreateICmpSLT(to, value(some, extent(block_.batch_rank + 1)));
             has = ir_.CreateAnd(ir_.CreateAnd(is, ir_.CreateNot(whole)), has);
             emit_if(some, has, [&](Scope& point) { leave(point, tile, at, to, from); });
           });
}

// A lane's sums of a part, where the other kernel would leave them.
void WideTiles::leave(Scope& point, const Tile& tile, Value* row, Value* column, Value* from) {
  point.seek();
  auto narrow = [&](Value* v) { return ir_.CreateTrunc(v, ir_.getInt32Ty()); };
  auto count = [&](int axis, int size) {
    Value* all = narrow(value(point, extent(axis)));
    return ir_.CreateUDiv(ir_.CreateAdd(all, number(size - 1)), number(size));
  };
  row = narrow(row), column = narrow(column);
  Value *rows = number(merged_->rows), *columns = number(merged_->columns);
  Value* other = ir_.CreateMul(tile.batch, count(block_.batch_rank, merged_->rows));
  other = ir_.CreateAdd(other, ir_.CreateUDiv(row, rows));
  other = ir_.CreateMul(other, count(block_.batch_rank + 1, merged_->columns));
  other = ir_.CreateAdd(other, ir_.CreateUDiv(column, columns));
  Value* team = ir_.CreateAdd(ir_.CreateMul(other, parts_), tile.part);
  Value* place = ir_.CreateAdd(ir_.CreateMul(ir_.CreateURem(row, rows), columns),
                               ir_.CreateURem(column, columns));
  const llvm::Align align(lanes_ >= 4 ? 16 : 8);
  Value* sums = ir_.CreateAlignedLoad(
      llvm::FixedVectorType::get(sum_, static_cast<unsigned>(lanes_)), from, align);
  ir_.CreateAlignedStore(sums, ir_.CreateGEP(sum_, k_.workspace(wide(team)), place), align);
}

void WideTiles::run_epilogue(Scope& row, Value* column, Value* from) {
  const int axis = block_.batch_rank + 1;
  row.seek();
  Value* count = value(row, extent(axis));
  auto mend = [&](Scope& point, Value* sum) {
    Value* depth = value(point, extent(axis + 1));
    return mend_sum(k_, point, sum, depth);
  };
  run_over(k_, row, block_.epilogue, axis, column, count, from, lanes_, sum_,
           shape_.mends ? mend : std::function<Value*(Scope&, Value*)>());
}

void add_wide_facts(Facts& facts, llvm::Module& module, const atlas::Program& program,
                    const WideFactors& factors, const WideShape& shape,
                    const std::optional<Tiling>& merged) {
  const atlas::ProductBlock& block = program.product();
  const Tiling tiling{WideShape::rows, shape.columns, WideShape::threads};
  facts.wide = WideFacts{.matrices = {factors.left.matrix, factors.right.matrix},
                         .tiles = tiling.tiles(block),
                         .depth = block.axes[static_cast<size_t>(block.batch_rank) + 2].extent,
                         .threads = WideShape::threads,
                         .shared_bytes = shape.shared_bytes(),
                         .merges = merged ? merged->merges() : 0,
                         .part_bytes = merged ? merged->part_bytes(block) : 0,
                         .registers = shape.left_registers};
  if (merged && facts.parts.is(0)) add_merge(facts, module, program, *merged);
}

}  // namespace hologram::cuda
