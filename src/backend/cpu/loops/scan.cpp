// backend/cpu/loops/scan.cpp: scans along a row, in the blocks of 16 that atlas::StageKind states.
#include <algorithm>
#include <array>

#include "atlas/order.h"
#include "backend/cpu/loops/stages.h"
#include "codegen/nest.h"

namespace hologram::cpu {
namespace {

constexpr int block = atlas::scan_block;

// One block of a running accumulator, vector by vector.
class Scan {
 public:
  Scan(CpuFunction& k, ir::Op op, DType type, int lanes)
      : k_(k), op_(op), type_(type), lanes_(lanes), wide_(type) {
    if (type == DType::f32 && (op == ir::Op::reduce_sum || op == ir::Op::reduce_prod))
      wide_ = DType::f64;
    carry_ = k.slot(k.type_of(wide_), "carry");
    k.ir.CreateStore(k.identity(op, wide_), carry_);
  }

  /// The results of vector `copy` of the block.
  Value* next(Value* v, int copy) {
    for (int s = 1; s < lanes_; s *= 2) v = join(v, s);
    for (int level = 0, span = 1; span * lanes_ < block; ++level, span *= 2) {
      if (copy & span)
        v = combine(k_, op_, type_, spread(halves_[level]), v);
      else if ((copy & (span - 1)) == span - 1)
        halves_[level] = last(v);
    }
    Value* before = k_.ir.CreateLoad(k_.type_of(wide_), carry_);
    Value* out = combine(k_, op_, type_, spread(convert(before, wide_, type_)), v);
    if (copy == block / lanes_ - 1)
      k_.ir.CreateStore(combine(k_, op_, wide_, before, convert(last(v), type_, wide_)), carry_);
    return out;
  }

 private:
  Value* spread(Value* x) { return splat(k_, {x, false}, lanes_); }
  Value* last(Value* v) {
    return lanes_ == 1 ? v : k_.ir.CreateExtractElement(v, static_cast<uint64_t>(lanes_ - 1));
  }
  Value* convert(Value* x, DType from, DType to) {
    return from == to ? x : emit_cast(k_, ir::Op::cast, x, from, to);
  }

  // Elements whose number has bit s set take the last element of the s before their group.
  Value* join(Value* v, int s) {
    std::vector<int> from, pick;
    for (int l = 0; l < lanes_; ++l) {
      from.push_back(l & s ? l / s * s - 1 : l);
      pick.push_back(l & s ? lanes_ + l : l);
    }
    Value* joined = combine(k_, op_, type_, k_.ir.CreateShuffleVector(v, from), v);
    return k_.ir.CreateShuffleVector(v, joined, pick);
  }

  CpuFunction& k_;
  ir::Op op_;
  DType type_;
  int lanes_;
  DType wide_;  ///< of the carry
  llvm::AllocaInst* carry_;
  std::array<Value*, 4> halves_{};  ///< by level: the last element of the half before
};

}  // namespace

void LoopStages::scan_stage(Scope& scope, const atlas::Stage& s) {
  int axis = f_.axes - 1, lanes = std::min(f_.plan.lanes, block), copies = block / lanes;
  int first = first_accumulator_.back();
  std::vector<Scan> scans;
  scope.seek();
  for (auto& [op, type] : s.running) scans.emplace_back(k_, op, type, lanes);
  // Vectors `copy` and on of the block at coordinate i, of which `left` (or null: all) elements
  // exist.
  std::function<void(Scope&, Value*, Value*, int)> vectors = [&](Scope& outer, Value* i,
                                                                 Value* left, int copy) {
    Value* offset = k_.i64(copy * lanes);
    bool masked = left && lanes > 1;
    Value* some = masked ? lanes_.mask(copy ? ir_.CreateSub(left, offset) : left, lanes) : nullptr;
    Scope here(outer, false);
    here.set_axis(axis, copy ? ir_.CreateAdd(i, offset) : i);
    here.set_lanes(axis, lanes, some);
    here.set_accumulate([&, copy](const atlas::Instr& instr, LaneValue x) -> LaneValue {
      Scan& scan = scans[static_cast<size_t>(instr.buffer - first)];
      return {scan.next(splat(k_, x, lanes), copy), lanes > 1};
    });
    emit_body(here, s.body);
    here.seek();
    outer.move_to(ir_.GetInsertBlock());
    if (copy + 1 == copies) return;
    if (!left) return vectors(outer, i, left, copy + 1);
    emit_if(outer, ir_.CreateICmpSGT(left, k_.i64((copy + 1) * lanes)), [&](Scope& inner) {
      inner.seek();
      vectors(inner, i, left, copy + 1);
    });
    outer.seek();
  };
  Value* n = emit_expr(scope, f_.extent(axis)).v;
  scope.seek();
  Value* whole = ir_.CreateAnd(n, k_.i64(-block));
  emit_loop(scope, k_.i64(0), whole, k_.i64(block), false, [&](Scope& round, Value* i) {
    if (f_.at_least_one(axis)) round.make_certain();
    vectors(round, i, nullptr, 0);
  });
  scope.seek();
  emit_if(scope, ir_.CreateICmpSLT(whole, n), [&](Scope& rest) {
    rest.seek();
    vectors(rest, whole, ir_.CreateSub(n, whole), 0);
  });
  scope.seek();
}

}  // namespace hologram::cpu
