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

const Expr& extent_of(const MappedOperand& of, int axis) {
  return of.axes[static_cast<size_t>(axis)].extent;
}

MappedOperand factor_of(const atlas::ProductBlock& block, bool right) {
  return {right ? &block.rhs : &block.lhs,    block.operand_type,  block.axes, block.batch_rank,
          block.batch_rank + (right ? 1 : 0), block.batch_rank + 2};
}

PlaneSource factor_source(const atlas::ProductBlock& block, bool right) {
  const MappedOperand of = factor_of(block, right);
  return {of, runs_along(*of.body, of.axis, of.depth_axis), right && of.type == DType::f32,
          terms_of(block)};
}

// The planes that the body reads, if it is one of schedule::unpack_planes.
std::optional<MappedFactor> kept_terms(const atlas::Program& program) {
  const atlas::ProductBlock& block = program.product();
  const std::vector<atlas::Instr>& instrs = block.rhs.instrs;
  if (instrs.size() != 3 + 3 + 4 || block.batch_rank != 0 || terms_of(block) != term_count)
    return std::nullopt;
  auto operand = [&](const atlas::Instr& i, size_t n) -> const atlas::Instr& {
    return instrs[i.args[n]];
  };
  auto is = [](const atlas::Instr& i, ir::Op op) {
    return i.code == atlas::Code::arithmetic && i.op == op && i.type == DType::f32;
  };
  const atlas::Instr& sum = instrs.back();
  if (!is(sum, ir::Op::add) || !is(operand(sum, 0), ir::Op::add)) return std::nullopt;
  const atlas::Instr &small = operand(sum, 0), &negative = operand(sum, 1);
  if (!is(negative, ir::Op::neg) || !is(operand(negative, 0), ir::Op::neg)) return std::nullopt;
  const atlas::Instr& high = operand(operand(negative, 0), 0);
  std::vector<const atlas::Instr*> loads;  // the highest term first
  for (const atlas::Instr* cast : {&high, &operand(small, 1), &operand(small, 0)}) {
    if (!is(*cast, ir::Op::cast) || cast->from != DType::bf16) return std::nullopt;
    const atlas::Instr& load = operand(*cast, 0);
    if (load.code != atlas::Code::load || load.args[0] != atlas::no_value ||
        (!loads.empty() && load.buffer != loads[0]->buffer))
      return std::nullopt;
    loads.push_back(&load);
  }
  const Expr plane = loads[1]->expr - loads[0]->expr;
  if (!plane.is_const() || loads[2]->expr - loads[1]->expr != plane) return std::nullopt;
  const atlas::Body first{.instrs = {*loads[0]}};
  auto out = mapped_operand(program, {&first, DType::bf16, block.axes, 0, 1, 2});
  if (!out || !out->depth_run) return std::nullopt;
  MappedMatrix& m = out->matrix;
  m.sizes.insert(m.sizes.end(), {Expr(1), Expr(term_count)});
  m.strides.insert(m.strides.end(), {plane, plane});
  out->planes.emplace();
  return out;
}

class Splitting {
 public:
  explicit Splitting(CudaFunction& k) : k_(k), ir_(k.ir) {}

  // Pieces of the first source come first.
  void run(std::span<const PlaneSource> sources, std::span<const MappedMatrix* const> to,
           bool clears) {
    Scope& root = k_.root();
    root.seek();
    Value* piece = ir_.CreateAdd(ir_.CreateMul(k_.cta(), number(split_threads)), k_.thread());
    if (clears)
      emit_if(root, ir_.CreateICmpEQ(piece, number(0)), [&](Scope& one) {
        one.seek();
        ir_.CreateStore(number(0), k_.workspace(k_.i64(0)));
      });
    root.seek();
    for (size_t n = 0; n < sources.size(); ++n) {
      Value* pieces =
          sources.size() == 1 ? narrow(k_.total()) : narrow(value(root, sources[n].pieces()));
      emit_if(root, ir_.CreateICmpULT(piece, pieces),
              [&](Scope& some) { split(some, sources[n], *to[n], piece, pieces); });
      root.seek();
      piece = ir_.CreateSub(piece, pieces);  // beyond all others where it was one of these
    }
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
  void split(Scope& some, const PlaneSource& from, const MappedMatrix& to, Value* piece,
             Value* pieces) {
    const MappedOperand& of = from.of;
    some.seek();
    Value *count = value(some, extent_of(of, of.axis)),
          *depth = value(some, extent_of(of, of.depth_axis));
    Value *inner = narrow(from.deep ? depth : count), *outer = narrow(from.deep ? count : depth);
    Value* eights =
        ir_.CreateUDiv(ir_.CreateAdd(inner, number(split_lanes - 1)), number(split_lanes));
    Value* run = wide(ir_.CreateMul(ir_.CreateURem(piece, eights), number(split_lanes)));
    Value* rest = ir_.CreateUDiv(piece, eights);
    Value* row = wide(ir_.CreateURem(rest, outer));
    rest = ir_.CreateUDiv(rest, outer);
    for (auto a = from.axes.rbegin(); a != from.axes.rend(); ++a) {
      Value* size = narrow(value(some, extent_of(of, *a)));
      some.set_axis(*a, wide(ir_.CreateURem(rest, size)));
      rest = ir_.CreateUDiv(rest, size);
    }
    some.seek();
    const Factor factor{of.body,   of.axis, of.depth_axis, of.type,
                        k_.i64(0), count,   depth,         from.deep};
    Value* numbers = Operands(k_, split_threads)
                         .eight(some, factor, from.deep ? row : run, from.deep ? run : row);
    some.seek();
    Value* place = ir_.CreateMul(value(some, to.first), k_.i64(size_of(to.type)));
    place = ir_.CreateGEP(ir_.getInt8Ty(), k_.workspace(k_.i64(0)), place);
    auto* four = llvm::FixedVectorType::get(ir_.getInt32Ty(), 4);
    auto store = [&](Value* all, Value* at) {  // 16 bytes
      ir_.CreateAlignedStore(all, ir_.CreateGEP(four, place, wide(at)), llvm::Align(16));
    };
    if (from.splits) {
      Value* at = piece;
      for (const std::vector<Value*>& registers : take_terms(k_, numbers, from.of_terms)) {
        Value* all = llvm::PoisonValue::get(four);
        for (uint64_t n = 0; n < 4; ++n) all = ir_.CreateInsertElement(all, registers[n], n);
        store(all, at);
        at = ir_.CreateAdd(at, pieces);
      }
    } else if (of.type == DType::f32) {
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
};

}  // namespace

PlaneSource::PlaneSource(const MappedOperand& operand, bool along_k, bool in_terms, int n)
    : of(operand),
      deep(along_k),
      splits(in_terms),
      of_terms(n),
      inner(extent_of(of, deep ? of.depth_axis : of.axis)),
      outer(extent_of(of, deep ? of.axis : of.depth_axis)) {
  for (int a = 0; a < of.batch_rank; ++a) {
    if (std::ranges::none_of(of.body->instrs,
                             [&](const atlas::Instr& i) { return i.expr.has_axis(a); }))
      continue;
    axes.push_back(a);
    matrices *= extent_of(of, a);
  }
}

Expr PlaneSource::row() const { return ceil_div(inner, Expr(split_lanes)) * Expr(split_lanes); }
Expr PlaneSource::pieces() const { return ceil_div(inner, Expr(split_lanes)) * outer * matrices; }
Expr PlaneSource::bytes() const { return pieces() * Expr(split_lanes * terms() * size_of(type())); }

MappedFactor plane_of(const PlaneSource& from, const Expr& behind) {
  MappedFactor out{{}, from.deep, from.axes};
  MappedMatrix& m = out.matrix;
  m.buffer = in_workspace;
  m.type = from.type();
  m.first = floor_div(behind, Expr(size_of(m.type)));
  m.sizes = {from.inner, from.outer, from.matrices, Expr(from.terms())};
  const Expr row = from.row();
  m.strides = {row, row * from.outer, row * from.outer * from.matrices};
  return out;
}

void add_planes(Facts& facts, llvm::Module& module, const atlas::Program& program,
                std::span<const PlaneSource> sources, std::span<const MappedMatrix* const> to,
                bool clears) {
  CudaFunction k(module, program, split_threads, split_symbol);
  Splitting(k).run(sources, to, clears);
  facts.flags = facts.flags || k.flags();
}

WideFactors find_factors(const atlas::Program& program) {
  const atlas::ProductBlock& block = program.product();
  auto left = mapped_factor(program, false);
  auto right =
      block.operand_type == DType::f32 ? kept_terms(program) : mapped_factor(program, true);
  const PlaneSource rights = factor_source(block, true);
  WideFactors out{};
  out.right = right ? std::move(*right) : plane_of(rights, Expr(0));
  // Behind the right factor's.
  out.left = left ? std::move(*left)
                  : plane_of(factor_source(block, false),
                             is_computed(out.right) ? rights.bytes() : Expr(0));
  return out;
}

void add_planes(Facts& facts, llvm::Module& module, const atlas::Program& program,
                const WideFactors& factors) {
  std::vector<PlaneSource> sources;
  std::vector<const MappedMatrix*> to;
  for (const bool right : {true, false}) {
    const MappedFactor& f = right ? factors.right : factors.left;
    if (!is_computed(f)) continue;
    sources.push_back(factor_source(program.product(), right));
    to.push_back(&f.matrix);
  }
  if (!sources.empty()) add_planes(facts, module, program, sources, to);
}

}  // namespace hologram::cuda
