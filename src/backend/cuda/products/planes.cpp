// backend/cuda/products/planes.cpp: what runs a factor's body once for each element.
#include "backend/cuda/products/planes.h"

#include <algorithm>
#include <array>

#include "backend/cuda/operands.h"
#include "backend/cuda/products/terms.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

constexpr int split_lanes = Operands::lanes;

const Expr& extent_of(const atlas::ProductBlock& block, int axis) {
  return block.axes[static_cast<size_t>(axis)].extent;
}

// What a factor's planes are made of.
struct PlaneSource {
  const atlas::Body& body;
  int axis, depth_axis;
  bool deep;              // neighbours are so along k
  std::vector<int> axes;  // of batches, along which it differs
  bool splits;            // into terms
  // How many rows of how many neighbours there are, of how many matrices.
  Expr inner, outer, matrices{1};

  PlaneSource(const atlas::ProductBlock& block, bool right)
      : body(right ? block.rhs : block.lhs),
        axis(block.batch_rank + (right ? 1 : 0)),
        depth_axis(block.batch_rank + 2),
        deep(runs_along(body, axis, depth_axis)),
        splits(right && block.operand_type == DType::f32),
        inner(extent_of(block, deep ? depth_axis : axis)),
        outer(extent_of(block, deep ? axis : depth_axis)) {
    for (int a = 0; a < block.batch_rank; ++a) {
      if (std::ranges::none_of(body.instrs,
                               [&](const atlas::Instr& i) { return i.expr.has_axis(a); }))
        continue;
      axes.push_back(a);
      matrices *= extent_of(block, a);
    }
  }
  int terms() const { return splits ? term_count : 1; }
  Expr row() const { return ceil_div(inner, Expr(split_lanes)) * Expr(split_lanes); }
  /// Eights of its numbers.
  Expr pieces() const { return ceil_div(inner, Expr(split_lanes)) * outer * matrices; }
};

MappedFactor plane_of(const atlas::ProductBlock& block, bool right) {
  const PlaneSource from(block, right);
  MappedFactor out{{}, from.deep, from.axes};
  MappedMatrix& m = out.matrix;
  m.buffer = in_workspace;
  m.type = from.splits ? DType::bf16 : block.operand_type;
  m.sizes = {from.inner, from.outer, from.matrices, Expr(from.terms())};
  const Expr row = from.row();
  m.strides = {row, row * from.outer, row * from.outer * from.matrices};
  return out;
}

class Splitting {
 public:
  Splitting(CudaFunction& k, const WideFactors& factors)
      : k_(k), ir_(k.ir), block_(k.program.product()), factors_(factors) {}

  // The right factor's pieces come first.
  void run() {
    Scope& root = k_.root();
    root.seek();
    Value* piece = ir_.CreateAdd(ir_.CreateMul(k_.cta(), number(split_threads)), k_.thread());
    Value* pieces = narrow(k_.total());
    Value* is = ir_.CreateICmpULT(piece, pieces);
    if (factors_.left.planes && factors_.right.planes) {
      Value* rights = narrow(value(root, PlaneSource(block_, true).pieces()));
      Value* lefts = ir_.CreateSub(pieces, rights);
      Value* right = ir_.CreateICmpULT(piece, rights);
      emit_if(root, right, [&](Scope& some) { split(some, true, piece, rights); });
      root.seek();
      emit_if(root, ir_.CreateAnd(is, ir_.CreateNot(right)), [&](Scope& some) {
        some.seek();
        split(some, false, ir_.CreateSub(piece, rights), lefts);
      });
    } else {
      emit_if(root, is,
              [&](Scope& some) { split(some, factors_.right.planes.has_value(), piece, pieces); });
    }
    root.seek();
    k_.finish();
  }

 private:
  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  Value* wide(Value* n) { return ir_.CreateZExt(n, ir_.getInt64Ty()); }
  Value* narrow(Value* n) { return ir_.CreateTrunc(n, ir_.getInt32Ty()); }
  Value* value(Scope& at, const Expr& e) {
    Value* v = emit_expr(at, e).v;
    at.seek();
    return v;
  }

  // Piece number `piece` of so many.
  void split(Scope& some, bool right, Value* piece, Value* pieces) {
    const PlaneSource from(block_, right);
    some.seek();
    Value *count = value(some, extent_of(block_, from.axis)),
          *depth = value(some, extent_of(block_, from.depth_axis));
    Value *inner = narrow(from.deep ? depth : count), *outer = narrow(from.deep ? count : depth);
    Value* eights =
        ir_.CreateUDiv(ir_.CreateAdd(inner, number(split_lanes - 1)), number(split_lanes));
    Value* run = wide(ir_.CreateMul(ir_.CreateURem(piece, eights), number(split_lanes)));
    Value* rest = ir_.CreateUDiv(piece, eights);
    Value* row = wide(ir_.CreateURem(rest, outer));
    rest = ir_.CreateUDiv(rest, outer);
    for (auto a = from.axes.rbegin(); a != from.axes.rend(); ++a) {
      Value* size = narrow(value(some, extent_of(block_, *a)));
      some.set_axis(*a, wide(ir_.CreateURem(rest, size)));
      rest = ir_.CreateUDiv(rest, size);
    }
    some.seek();
    const Factor factor{&from.body, from.axis, from.depth_axis, block_.operand_type,
                        k_.i64(0),  count,     depth,           from.deep};
    Value* numbers = Operands(k_, split_threads)
                         .eight(some, factor, from.deep ? row : run, from.deep ? run : row);
    some.seek();
    const MappedMatrix& matrix = (right ? factors_.right : factors_.left).matrix;
    Value* place = ir_.CreateMul(value(some, matrix.first), k_.i64(size_of(matrix.type)));
    place = ir_.CreateGEP(ir_.getInt8Ty(), k_.workspace(k_.i64(0)), place);
    auto* four = llvm::FixedVectorType::get(ir_.getInt32Ty(), 4);
    auto store = [&](Value* all, Value* at) {  // 16 bytes
      ir_.CreateAlignedStore(all, ir_.CreateGEP(four, place, wide(at)), llvm::Align(16));
    };
    if (from.splits) {
      Value* at = piece;
      for (const std::vector<Value*>& registers : take_terms(k_, numbers)) {
        Value* all = llvm::PoisonValue::get(four);
        for (uint64_t n = 0; n < 4; ++n) all = ir_.CreateInsertElement(all, registers[n], n);
        store(all, at);
        at = ir_.CreateAdd(at, pieces);
      }
    } else if (block_.operand_type == DType::f32) {
      Value* all = ir_.CreateBitCast(numbers, llvm::FixedVectorType::get(ir_.getInt32Ty(), 8));
      for (int half = 0; half < 2; ++half) {
        const int first = 4 * half;
        Value* some_words =
            ir_.CreateShuffleVector(all, std::array{first, first + 1, first + 2, first + 3});
        store(some_words, ir_.CreateAdd(ir_.CreateShl(piece, 1), number(half)));
      }
    } else {
      store(ir_.CreateBitCast(numbers, four), piece);
    }
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  const atlas::ProductBlock& block_;
  const WideFactors& factors_;
};

}  // namespace

WideFactors find_factors(const atlas::Program& program) {
  const atlas::ProductBlock& block = program.product();
  auto left = mapped_factor(program, false);
  std::optional<MappedFactor> right;
  if (block.operand_type != DType::f32) right = mapped_factor(program, true);
  WideFactors out{left ? std::move(*left) : plane_of(block, false),
                  right ? std::move(*right) : plane_of(block, true)};
  if (!out.left.planes || !out.right.planes) return out;
  // Behind the right factor's, whose numbers have 16 bits.
  const PlaneSource before(block, true);
  out.left.matrix.first =
      before.pieces() * Expr(before.terms() * 2 * split_lanes / size_of(out.left.matrix.type));
  return out;
}

void add_planes(Facts& facts, llvm::Module& module, const atlas::Program& program,
                const WideFactors& factors) {
  CudaFunction k(module, program, split_threads, split_symbol);
  Splitting(k, factors).run();
  facts.flags = facts.flags || k.flags();
}

}  // namespace hologram::cuda
