// backend/cpu/loops/lanes.cpp: rounds of vectors, stores past the caches, masked tails.
#include "backend/cpu/loops/lanes.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <bit>

#include "backend/cpu/cost.h"
#include "backend/cpu/loops/reduce.h"
#include "codegen/memory.h"
#include "codegen/nest.h"

namespace hologram::cpu {

namespace Intrinsic = llvm::Intrinsic;

LoopLanes::LoopLanes(const LoopFrame& frame) : f_(frame), k_(frame.k), ir_(frame.k.ir) {
  if (!f_.plan.may_stream) return;
  Value* bytes = emit_expr(k_.root(), buffer_bytes(k_.program)).v;
  large_ = ir_.CreateICmpSGT(bytes, k_.i64(cost::stream(k_.target)));
  middling_ = ir_.CreateICmpSGT(bytes, k_.i64(cost::turn));
  backwards_ = k_.runs_backwards();
}

void LoopLanes::loop(Scope& outer, int axis, Value* low, Value* high, int unroll,
                     const std::vector<const atlas::Body*>& bodies,
                     const std::function<void(Scope&)>& fill) {
  outer.seek();
  from_zero_ = llvm::isa<llvm::ConstantInt>(low) && llvm::cast<llvm::ConstantInt>(low)->isZero();
  Value *at = low, *stream = nullptr;
  if (f_.plan.may_stream) stream = aligned_stores(outer, axis, low, bodies);
  if (stream) {
    outer.seek();
    stream = ir_.CreateAnd(stream, large_);
    streams_ = true;
  }
  if (f_.plan.paired) return pairs(outer, axis, low, high, stream, bodies, fill);
  if (stream) {
    Value* until = ir_.CreateSelect(stream, high, low);
    at = vectors(outer, axis, at, until, unroll, ir_.getTrue(), fill);
  }
  if (f_.plan.may_stream && unroll > 1 && f_.plan.block_axes == 0) {
    Value* until = ir_.CreateSelect(middling_, high, at);
    at = vectors(outer, axis, at, until, unroll, nullptr, fill, 0, backwards_,
                 results(axis, bodies));
  }
  if (unroll > 1) at = vectors(outer, axis, at, high, unroll, nullptr, fill);
  at = vectors(outer, axis, at, high, 1, nullptr, fill);
  if (f_.plan.alternate && !f_.plan.masked_tails)
    at = vectors(outer, axis, at, high, 1, nullptr, fill, f_.plan.lanes / 2);
  tail(outer, axis, at, high, fill);
}

/// Two vectors at a time in one loop, which is long: where `stream` (i1, or null for never) holds,
/// it also fetches ahead and stores past the caches.
void LoopLanes::pairs(Scope& outer, int axis, Value* low, Value* high, Value* stream,
                      const std::vector<const atlas::Body*>& bodies,
                      const std::function<void(Scope&)>& fill) {
  std::vector<Reach> reach;
  if (stream) reach = reaches(axis, bodies, 2048);
  Value* at = vectors(
      outer, axis, low, high, 1, stream,
      [&](Scope& s) {
        if (stream) {
          emit_if(s, stream, [&](Scope& ahead) { fetch(ahead, reach); });
          s.seek();
        }
        fill(s);
      },
      2 * f_.plan.lanes);
  emit_loop(outer, at, high, k_.i64(f_.plan.lanes), false,
            [&](Scope& s, Value* i) { masked(s, axis, i, high, f_.plan.lanes, fill); });
}

void LoopLanes::finish(Scope& root) {
  if (streams_ && writes_around_caches(k_.target))
    emit_if(root, large_, [&](Scope&) { ir_.CreateIntrinsic(Intrinsic::x86_sse_sfence, {}, {}); });
  root.seek();
}

/// What `bodies` read in order along the lanes, `ahead` bytes on: hardware stops at the end of each
/// page.
std::vector<LoopLanes::Reach> LoopLanes::reaches(int axis,
                                                 const std::vector<const atlas::Body*>& bodies,
                                                 int64_t ahead) const {
  std::vector<Reach> found;
  for (const atlas::Body* body : bodies)
    for (const atlas::Instr& i : body->instrs) {
      auto step = i.expr.linear_in_axis(axis);
      if (i.code == atlas::Code::load && step && step->first.is(1))
        found.push_back({i.buffer, i.expr + Expr(ahead / f_.element_bytes(i.buffer))});
    }
  return found;
}

/// What `bodies` write in order along the lanes and do not read: on Zen 3 stores would wait for
/// such lines.
std::vector<LoopLanes::Reach> LoopLanes::results(
    int axis, const std::vector<const atlas::Body*>& bodies) const {
  std::vector<Reach> found;
  if (k_.target.isa != Isa::avx2) return found;
  for (const atlas::Body* body : bodies)
    for (const atlas::Instr& i : body->instrs) {
      auto step = i.expr.linear_in_axis(axis);
      if (i.code == atlas::Code::store && step && step->first.is(1) &&
          std::ranges::none_of(body->instrs, [&](const atlas::Instr& read) {
            return read.code == atlas::Code::load && read.buffer == i.buffer && read.expr == i.expr;
          }))
        found.push_back({i.buffer, i.expr});
    }
  return found;
}

/// Fetches the lines of `reach` that this many vectors from those of `scope` on fill, or those so
/// many bytes away (`distance`, may be null).
void LoopLanes::fetch(Scope& scope, const std::vector<Reach>& reach, int count, Value* distance) {
  constexpr int64_t line = 64;
  for (const Reach& r : reach) {
    int64_t size = f_.element_bytes(r.buffer);
    for (int64_t b = 0; b < count * scope.lanes() * size; b += line) {
      auto address = vector_address(scope, r.buffer, r.index + Expr(b / size));
      if (!address) break;
      if (distance) address = ir_.CreateGEP(ir_.getInt8Ty(), *address, distance);
      ir_.CreateIntrinsic(Intrinsic::prefetch, {ir_.getPtrTy()},
                          {*address, ir_.getInt32(0), ir_.getInt32(3), ir_.getInt32(1)});
    }
  }
}

/// Whole rounds of `unroll` vectors of `lanes` (0: the plan's) from `at`; returns where they end.
/// With a direction each round fetches `results` some way on.
Value* LoopLanes::vectors(Scope& outer, int axis, Value* at, Value* high, int unroll,
                          Value* streaming, const std::function<void(Scope&)>& fill, int lanes,
                          Value* backwards, const std::vector<Reach>& results) {
  constexpr int64_t ahead = 2048;
  if (lanes == 0) lanes = f_.plan.lanes;
  int step = lanes * unroll;
  Value *count = ir_.CreateSub(high, at), *whole = nullptr;
  if (std::has_single_bit(static_cast<unsigned>(step)))
    whole = ir_.CreateAnd(count, k_.i64(-step));
  else
    whole = ir_.CreateSub(count, ir_.CreateSRem(count, k_.i64(step)));
  Value* stop = ir_.CreateAdd(at, whole);
  Value* distance =
      backwards ? ir_.CreateSelect(backwards, k_.i64(-ahead), k_.i64(ahead)) : nullptr;
  auto round_of = [&](Scope& round, Value* i) {
    round.make_certain();
    round.set_streaming(streaming);
    if (!results.empty()) {
      Scope all(round, false);
      all.set_axis(axis, i);
      all.set_lanes(axis, lanes);
      fetch(all, results, unroll, distance);
    }
    for (int c = 0; c < unroll; ++c) {
      Scope copy(round, false);
      copy.set_axis(axis, c ? ir_.CreateAdd(i, k_.i64(c * lanes)) : i);
      f_.set_lanes(copy, axis, lanes);
      if (from_zero_) copy.set_aligned();
      fill(copy);
      copy.seek();
      round.move_to(ir_.GetInsertBlock());
    }
  };
  if (f_.plan.block_axes > 0 && stop == ir_.CreateAdd(at, k_.i64(step))) {  // of known bounds
    Scope round(outer, false);
    round_of(round, at);
    round.seek();
    outer.move_to(ir_.GetInsertBlock());
  } else if (!backwards) {
    emit_loop(outer, at, stop, k_.i64(step), false, round_of);
  } else {
    Value* last = ir_.CreateSub(stop, k_.i64(step));
    Value *first = ir_.CreateSelect(backwards, last, at),
          *delta = ir_.CreateSelect(backwards, k_.i64(-step), k_.i64(step));
    emit_loop(outer, at, stop, k_.i64(step), false, {first},
              [&](Scope& round, Value*, std::vector<Value*> i) -> std::vector<Value*> {
                round_of(round, i[0]);
                round.seek();
                return {ir_.CreateAdd(i[0], delta)};
              });
  }
  outer.seek();
  return stop;
}

/// Whether every store of `bodies` writes whole aligned vectors from lane coordinate `low` on
/// (i1); null if some cannot.
Value* LoopLanes::aligned_stores(Scope& outer, int axis, Value* low,
                                 const std::vector<const atlas::Body*>& bodies) {
  Scope first(outer, false);
  first.set_axis(axis, low);
  first.set_lanes(axis, f_.plan.lanes);
  Value* low_bits = nullptr;
  for (const atlas::Body* body : bodies)
    for (const atlas::Instr& i : body->instrs) {
      if (i.code != atlas::Code::store) continue;
      const atlas::Buffer& b = k_.program.buffers[static_cast<size_t>(i.buffer)];
      if (b.access != atlas::Access::write || i.args[1] != atlas::no_value) return nullptr;
      auto address = vector_address(first, i.buffer, i.expr);
      if (!address) return nullptr;
      Value* bits = ir_.CreatePtrToInt(*address, ir_.getInt64Ty());
      low_bits = low_bits ? ir_.CreateOr(low_bits, bits) : bits;
    }
  if (!low_bits) return nullptr;
  return ir_.CreateICmpEQ(ir_.CreateAnd(low_bits, k_.i64(63)), k_.i64(0));
}

void LoopLanes::rest(Scope& outer, int axis, Value* at, Value* high,
                     const std::function<void(Scope&)>& fill) {
  // What is left over of wide vectors takes several narrower ones.
  const int narrow = f_.plan.vectors > 4 ? f_.plan.lanes / f_.plan.vectors * 4 : f_.plan.lanes;
  if (!f_.plan.masked_tails || narrow == f_.plan.lanes) return tail(outer, axis, at, high, fill);
  emit_loop(outer, at, high, k_.i64(narrow), false,
            [&](Scope& s, Value* i) { masked(s, axis, i, high, narrow, fill); });
}

void LoopLanes::tail(Scope& outer, int axis, Value* at, Value* high,
                     const std::function<void(Scope&)>& fill) {
  if (f_.plan.masked_tails) {
    emit_if(outer, ir_.CreateICmpSLT(at, high),
            [&](Scope& s) { masked(s, axis, at, high, f_.plan.lanes, fill); });
    return;
  }
  emit_loop(outer, at, high, k_.i64(1), false, [&](Scope& s, Value* i) {
    s.make_certain();
    s.set_axis(axis, i);
    fill(s);
  });
}

/// One vector from `at`, of which the lanes below `high` exist.
void LoopLanes::masked(Scope& s, int axis, Value* at, Value* high, int lanes,
                       const std::function<void(Scope&)>& fill) {
  s.make_certain();
  s.set_axis(axis, at);
  f_.set_lanes(s, axis, lanes, mask(ir_.CreateSub(high, at), lanes));
  if (from_zero_) s.set_aligned();
  fill(s);
}

// The comparison fills a register: where it does not, LLVM 19 may spill a mask with what lies above
// its lanes, and stores of narrow elements then use that.
Value* LoopLanes::mask(Value* count, int lanes) {
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(count)) {
    std::vector<llvm::Constant*> bits;
    for (int l = 0; l < lanes; ++l) bits.push_back(ir_.getInt1(l < known->getSExtValue()));
    return llvm::ConstantVector::get(bits);
  }
  count = ir_.CreateBinaryIntrinsic(Intrinsic::smin, count, k_.i64(lanes));
  count = ir_.CreateBinaryIntrinsic(Intrinsic::smax, count, k_.i64(0));
  llvm::Type* element = ir_.getIntNTy(static_cast<unsigned>(std::max(8, 128 / lanes)));
  Value* limit =
      ir_.CreateVectorSplat(static_cast<unsigned>(lanes), ir_.CreateTrunc(count, element));
  return ir_.CreateICmpULT(iota(element, lanes), limit);
}

}  // namespace hologram::cpu
