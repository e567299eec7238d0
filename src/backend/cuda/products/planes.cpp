// backend/cuda/products/planes.cpp: what runs a right factor's body once for each element.
#include "backend/cuda/products/planes.h"

#include <algorithm>

#include "backend/cuda/operands.h"
#include "backend/cuda/products/terms.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

constexpr int split_lanes = Operands::lanes;

const Expr& extent_of(const atlas::ProductBlock& block, int axis) {
  return block.axes[static_cast<size_t>(axis)].extent;
}

// Whether neighbours are so along k.
bool lies_deep(const atlas::ProductBlock& block) {
  return runs_along(block.rhs, block.batch_rank + 1, block.batch_rank + 2);
}

// Along which the right factor differs.
std::vector<int> batch_axes_of(const atlas::ProductBlock& block) {
  std::vector<int> out;
  for (int a = 0; a < block.batch_rank; ++a)
    if (std::ranges::any_of(block.rhs.instrs,
                            [&](const atlas::Instr& i) { return i.expr.has_axis(a); }))
      out.push_back(a);
  return out;
}

// How many rows of how many neighbours there are, of how many matrices.
struct PlaneSizes {
  Expr inner, outer, matrices{1};
  explicit PlaneSizes(const atlas::ProductBlock& block)
      : inner(extent_of(block, block.batch_rank + (lies_deep(block) ? 2 : 1))),
        outer(extent_of(block, block.batch_rank + (lies_deep(block) ? 1 : 2))) {
    for (const int a : batch_axes_of(block)) matrices *= extent_of(block, a);
  }
  Expr eights() const { return ceil_div(inner, Expr(split_lanes)); }
};

class Splitting {
 public:
  explicit Splitting(CudaFunction& k)
      : k_(k), ir_(k.ir), block_(k.program.product()), deep_(lies_deep(block_)) {}

  void run() {
    Scope& root = k_.root();
    root.seek();
    Value* piece = ir_.CreateAdd(ir_.CreateMul(k_.cta(), number(split_threads)), k_.thread());
    Value* pieces = ir_.CreateTrunc(k_.total(), ir_.getInt32Ty());
    emit_if(root, ir_.CreateICmpULT(piece, pieces), [&](Scope& some) { split(some, piece); });
    root.seek();
    k_.finish();
  }

 private:
  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  Value* wide(Value* n) { return ir_.CreateZExt(n, ir_.getInt64Ty()); }
  Value* value(Scope& at, int axis) {
    Value* v = emit_expr(at, extent_of(block_, axis)).v;
    at.seek();
    return v;
  }

  void split(Scope& some, Value* piece) {
    const int axis = block_.batch_rank + 1, depth_axis = axis + 1;
    some.seek();
    Value *count = value(some, axis), *depth = value(some, depth_axis);
    auto narrow = [&](Value* v) { return ir_.CreateTrunc(v, ir_.getInt32Ty()); };
    Value *inner = narrow(deep_ ? depth : count), *outer = narrow(deep_ ? count : depth);
    Value* eights =
        ir_.CreateUDiv(ir_.CreateAdd(inner, number(split_lanes - 1)), number(split_lanes));
    Value* run = wide(ir_.CreateMul(ir_.CreateURem(piece, eights), number(split_lanes)));
    Value* rest = ir_.CreateUDiv(piece, eights);
    Value* row = wide(ir_.CreateURem(rest, outer));
    rest = ir_.CreateUDiv(rest, outer);
    const std::vector<int> axes = batch_axes_of(block_);
    for (auto a = axes.rbegin(); a != axes.rend(); ++a) {
      Value* size = narrow(value(some, *a));
      some.set_axis(*a, wide(ir_.CreateURem(rest, size)));
      rest = ir_.CreateUDiv(rest, size);
    }
    some.seek();
    const Factor factor{&block_.rhs, axis,  depth_axis, block_.operand_type,
                        k_.i64(0),   count, depth,      deep_};
    Value* numbers =
        Operands(k_, split_threads).eight(some, factor, deep_ ? row : run, deep_ ? run : row);
    some.seek();
    Value* plane = ir_.CreateMul(k_.total(), k_.i64(split_lanes));
    Value* place = ir_.CreateMul(wide(piece), k_.i64(split_lanes));
    auto* four = llvm::FixedVectorType::get(ir_.getInt32Ty(), 4);
    auto store = [&](Value* all) {
      Value* to = ir_.CreateGEP(ir_.getInt16Ty(), k_.workspace(k_.i64(0)), place);
      ir_.CreateAlignedStore(all, to, llvm::Align(16));
      place = ir_.CreateAdd(place, plane);
    };
    if (block_.operand_type != DType::f32) return store(ir_.CreateBitCast(numbers, four));
    for (const std::vector<Value*>& registers : take_terms(k_, numbers)) {
      Value* all = llvm::PoisonValue::get(four);
      for (uint64_t n = 0; n < 4; ++n) all = ir_.CreateInsertElement(all, registers[n], n);
      store(all);
    }
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  const atlas::ProductBlock& block_;
  const bool deep_;
};

}  // namespace

Expr pieces_of(const atlas::ProductBlock& block) {
  const PlaneSizes sizes(block);
  return sizes.eights() * sizes.outer * sizes.matrices;
}

Planes planes_of(const atlas::ProductBlock& block, int run, int count, int step) {
  const bool splits = block.operand_type == DType::f32;
  const PlaneSizes sizes(block);
  const Expr row = sizes.eights() * Expr(split_lanes);
  const int terms = splits ? term_count : 1;
  Planes out{{{}, lies_deep(block)}, batch_axes_of(block)};
  MappedMatrix& m = out.factor.matrix;
  m.buffer = in_workspace;
  m.type = splits ? DType::bf16 : block.operand_type;
  m.sizes = {sizes.inner, sizes.outer, sizes.matrices, Expr(terms)};
  m.strides = {row, row * sizes.outer, row * sizes.outer * sizes.matrices};
  out.factor.set_box(run, count, step);
  m.box[3] = terms;
  return out;
}

void add_planes(Facts& facts, llvm::Module& module, const atlas::Program& program) {
  CudaFunction k(module, program, split_threads, split_symbol);
  Splitting(k).run();
  facts.flags = facts.flags || k.flags();
}

}  // namespace hologram::cuda
