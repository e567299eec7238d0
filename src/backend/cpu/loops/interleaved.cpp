// backend/cpu/loops/interleaved.cpp: vectors along a line that are stored interleaved.
#include "backend/cpu/loops/interleaved.h"

#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <utility>

#include "backend/cpu/loops/ranges.h"
#include "codegen/body.h"
#include "codegen/memory.h"
#include "codegen/nest.h"

namespace hologram::cpu {

namespace Intrinsic = llvm::Intrinsic;

Interleaved::Interleaved(const LoopFrame& frame)
    : f_(frame),
      k_(frame.k),
      ir_(frame.k.ir),
      run_(frame.rank - 1),
      line_(frame.rank - 2),
      lanes_(frame.plan.lanes) {
  constexpr size_t most_ranges = 24, most_instructions = 4000;
  const size_t length = std::max<size_t>(1, f_.block.stages[0].body.instrs.size());
  most_ranges_ = static_cast<int>(std::min(most_ranges, most_instructions / length));
}

void Interleaved::emit(Scope& unit, Value* low, Value* high) {
  Bodies bodies;
  for (int64_t place = 0; place < f_.plan.interleaved; ++place)
    bodies.push_back(
        &assumed_.emplace_back(at_place(f_.block.stages[0].body, run_, place)));
  ranges(unit, bodies, low, high);
}

// Range by range in which comparisons of coordinates have one outcome, as for other loops; what is
// left undecided masks.
void Interleaved::ranges(Scope& scope, const Bodies& bodies, Value* low, Value* high) {
  std::optional<Comparison> split;
  for (const atlas::Body* b : bodies)
    if (!split) split = first_comparison(*b, line_);
  if (!split || ranges_ >= most_ranges_) return points(scope, bodies, low, high);
  ++ranges_;
  const Expr holds = known_of(*split, line_, f_.extent(line_), true),
             fails = known_of(*split, line_, f_.extent(line_), false);
  if (split->slope == 0) {
    Value* rest = emit_expr(scope, split->rest).v;
    scope.seek();
    Value* truth = ir_.CreateICmpSGE(rest, k_.i64(0));
    emit_if(scope, truth, [&](Scope& s) { side(s, bodies, holds, low, high); });
    scope.seek();
    emit_if(scope, ir_.CreateNot(truth), [&](Scope& s) { side(s, bodies, fails, low, high); });
    return;
  }
  const bool rises = split->slope > 0;
  Value* middle = emit_expr(scope, first_beyond(*split)).v;
  scope.seek();
  middle = ir_.CreateBinaryIntrinsic(Intrinsic::smax, middle, low);
  middle = ir_.CreateBinaryIntrinsic(Intrinsic::smin, middle, high);
  auto below = [&](Scope& s) { side(s, bodies, rises ? fails : holds, low, middle); };
  auto above = [&](Scope& s) { side(s, bodies, rises ? holds : fails, middle, high); };
  emit_if(scope, ir_.CreateICmpSLT(low, middle), below);
  scope.seek();
  emit_if(scope, ir_.CreateICmpSLT(middle, high), above);
}

void Interleaved::side(Scope& scope, const Bodies& bodies, const Expr& known, Value* low,
                       Value* high) {
  Bodies here;
  for (const atlas::Body* b : bodies) here.push_back(&assumed_.emplace_back(assume(*b, known)));
  ranges(scope, here, low, high);
}

// Whole vectors, the last of which ends where the range does and computes some points again; of
// fewer points than lanes one after the other.
void Interleaved::points(Scope& scope, const Bodies& bodies, Value* low, Value* high) {
  scope.seek();
  Value *count = ir_.CreateSub(high, low), *last = ir_.CreateSub(high, k_.i64(lanes_));
  Value* whole = ir_.CreateICmpSGE(count, k_.i64(lanes_));
  Value* rounded = ir_.CreateAnd(ir_.CreateAdd(count, k_.i64(lanes_ - 1)), k_.i64(-lanes_));
  Value* stop = ir_.CreateSelect(whole, ir_.CreateAdd(low, rounded), low);
  emit_loop(scope, low, stop, k_.i64(lanes_), false, [&](Scope& s, Value* i) {
    vectors(s, bodies, ir_.CreateBinaryIntrinsic(Intrinsic::smin, i, last));
  });
  scope.seek();
  emit_loop(scope, ir_.CreateSelect(whole, high, low), high, k_.i64(1), false,
            [&](Scope& s, Value* i) {
              s.set_axis(line_, i);
              for (size_t place = 0; place < bodies.size(); ++place) {
                s.seek();
                Scope one(s, false);
                one.set_axis(run_, k_.i64(static_cast<int64_t>(place)));
                emit_body(one, *bodies[place]);
                one.seek();
                s.move_to(ir_.GetInsertBlock());
              }
            });
}

namespace {

// The body with its one store as the value that is stored, so that the other numbers stay.
std::pair<atlas::Body, atlas::Instr> without_store(const atlas::Body& body) {
  atlas::Body values = body;
  auto store = std::ranges::find(values.instrs, atlas::Code::store, &atlas::Instr::code);
  const atlas::Instr stored = std::exchange(*store, {});
  store->code = atlas::Code::arithmetic;
  store->op = ir::Op::bitcast;
  store->type = store->from = stored.type;
  store->args[0] = stored.args[0];
  return {std::move(values), stored};
}

}  // namespace

// One vector along the line from coordinate i for each element of the run.
void Interleaved::vectors(Scope& scope, const Bodies& bodies, Value* i) {
  const int n = f_.plan.interleaved;
  std::vector<Value*> rows;
  for (int place = 0; place < n; ++place) {
    scope.seek();
    auto [body, store] = without_store(*bodies[static_cast<size_t>(place)]);
    const atlas::Body& values = assumed_.emplace_back(std::move(body));
    Scope copy(scope, false);
    copy.set_axis(run_, k_.i64(place));
    copy.set_axis(line_, i);
    copy.set_lanes(line_, lanes_);
    LaneValue x = emit_body(copy, values)[store.args[0]];
    copy.seek();
    rows.push_back(to_memory(k_, store.type, splat(k_, x, lanes_)));
    scope.move_to(ir_.GetInsertBlock());
  }
  const auto& instrs = f_.block.stages[0].body.instrs;
  const atlas::Instr& stored =
      *std::ranges::find(instrs, atlas::Code::store, &atlas::Instr::code);
  scope.seek();
  Scope origin(scope, false);
  origin.set_axis(run_, k_.i64(0));
  origin.set_axis(line_, i);
  origin.set_lanes(run_, lanes_);
  Value* address = *vector_address(origin, stored.buffer, stored.expr);
  // Lane l of vector o is element p % n of pixel p / n, p = o * lanes + l.
  for (int o = 0; o < n; ++o) {
    Value* out = nullptr;
    for (int c = 0; c < n; ++c) {
      std::vector<int> order(static_cast<size_t>(lanes_));
      for (int l = 0; l < lanes_; ++l) {
        int p = o * lanes_ + l;
        order[static_cast<size_t>(l)] = p % n == c ? lanes_ + p / n : l;
      }
      Value* from = rows[static_cast<size_t>(c)];
      out = ir_.CreateShuffleVector(out ? out : llvm::PoisonValue::get(from->getType()), from,
                                    order);
    }
    Value* at = ir_.CreateConstGEP1_64(out->getType(), address, static_cast<uint64_t>(o));
    ir_.CreateAlignedStore(out, at, llvm::Align(static_cast<uint64_t>(size_of(stored.type))));
  }
  origin.seek();
  scope.move_to(ir_.GetInsertBlock());
}

}  // namespace hologram::cpu
