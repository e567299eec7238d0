// backend/cpu/loops/emit.cpp: loop blocks: walks the parallel units and lays lanes.
#include "backend/cpu/loops/emit.h"

#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "backend/cpu/loops/columns.h"
#include "backend/cpu/loops/interleaved.h"
#include "backend/cpu/loops/ranges.h"
#include "backend/cpu/loops/squares.h"
#include "backend/cpu/loops/stages.h"
#include "backend/cpu/operands/pack.h"
#include "codegen/memory.h"
#include "codegen/nest.h"

namespace hologram::cpu {
namespace {

namespace Intrinsic = llvm::Intrinsic;
using atlas::Stage;

class LoopEmitter {
 public:
  explicit LoopEmitter(const LoopFrame& frame)
      : f_(frame), k_(frame.k), ir_(frame.k.ir), lanes_(frame), stages_(frame, lanes_) {}

  void run() {
    if (f_.plan.interleaved > 0)
      interleaved();
    else if (f_.plan.tiled)
      tiles();
    else if (f_.plan.block_axes > 0)
      blocks();
    else if (f_.plan.mode == LaneMode::parallel)
      lines();
    else
      each_point();
    lanes_.finish(k_.root());
    k_.finish();
  }

 private:
  /// The coordinates of row-major position `at` over axes [0, count).
  std::vector<Value*> coordinates(Scope& scope, Value* at, int count) {
    std::vector<Value*> result(static_cast<size_t>(count));
    for (int a = count - 1; a > 0; --a) {
      Value* n = emit_expr(scope, f_.extent(a)).v;
      Value* rest = ir_.CreateUDiv(at, n);
      result[static_cast<size_t>(a)] = ir_.CreateSub(at, ir_.CreateMul(rest, n));
      at = rest;
    }
    if (count > 0) result[0] = at;
    return result;
  }

  /// The coordinates one step on.
  std::vector<Value*> advance(Scope& scope, std::vector<Value*> now) {
    Value* carry = nullptr;
    for (int a = static_cast<int>(now.size()) - 1; a >= 0; --a) {
      Value*& i = now[static_cast<size_t>(a)];
      Value* n = emit_expr(scope, f_.extent(a)).v;
      scope.seek();
      Value* next = carry ? ir_.CreateAdd(i, ir_.CreateZExt(carry, ir_.getInt64Ty()))
                          : ir_.CreateAdd(i, k_.i64(1));
      if (a == 0) {
        i = next;
        break;
      }
      carry = ir_.CreateICmpEQ(next, n);
      i = ir_.CreateSelect(carry, k_.i64(0), next);
    }
    return now;
  }

  // Every unit is a point of its own.
  void each_point() {
    Scope& root = k_.root();
    root.seek();
    std::vector<Value*> first = coordinates(root, k_.begin, f_.rank);
    root.seek();
    if (f_.plan.carried) {
      Scope scope(root, false);
      for (int a = 0; a < f_.rank; ++a) scope.set_axis(a, first[static_cast<size_t>(a)]);
      stages_.emit_first(scope);
      root.move_to(ir_.GetInsertBlock());
    }
    // The coordinates of this point, and where the last stage trails those of the one before.
    std::vector<Value*> start = first;
    if (f_.plan.trailing) start.insert(start.end(), first.begin(), first.end());
    const auto rank = static_cast<size_t>(f_.rank);
    auto set_last = [&](Scope& scope, const std::vector<Value*>& at) {
      for (size_t a = rank; a < at.size(); ++a)
        scope.set_axis(f_.last_axis(static_cast<int>(a - rank)), at[a]);
    };
    Value* from = k_.begin;
    if (f_.plan.two_rows) start = pairs_of_points(root, from);
    std::vector<Value*> end =
        emit_loop(root, from, k_.end, k_.i64(1), !f_.plan.two_rows, start,
                  [&](Scope& scope, Value* number, std::vector<Value*> at) -> std::vector<Value*> {
                    const std::vector<Value*> now(at.begin(), at.begin() + f_.rank);
                    for (int a = 0; a < f_.rank; ++a)
                      scope.set_axis(a, now[static_cast<size_t>(a)]);
                    set_last(scope, at);
                    std::vector<Value*> next = advance(scope, now);
                    // The last point looks at itself again: the points behind are not this call's.
                    Value* last = ir_.CreateICmpEQ(ir_.CreateAdd(number, k_.i64(1)), k_.end);
                    for (size_t a = 0; f_.plan.carried && a < next.size(); ++a)
                      scope.set_axis(f_.next_axis(static_cast<int>(a)),
                                     ir_.CreateSelect(last, now[a], next[a]));
                    stages_.emit(scope);
                    if (f_.plan.trailing) next.insert(next.end(), now.begin(), now.end());
                    return next;
                  });
    if (!f_.plan.trailing) return;
    Scope scope(root, false);
    set_last(scope, end);
    stages_.emit_last(scope);
    root.move_to(ir_.GetInsertBlock());
  }

  // Each point of the first half together with one of the second half, far away: streams of memory
  // stay long. Returns the coordinates of what is left over, which begins at `from` then.
  std::vector<Value*> pairs_of_points(Scope& root, Value*& from) {
    Value* half = ir_.CreateLShr(ir_.CreateSub(k_.end, k_.begin), k_.i64(1));
    Value* middle = ir_.CreateAdd(k_.begin, half);
    from = ir_.CreateAdd(middle, half);
    std::vector<Value*> start = coordinates(root, k_.begin, f_.rank);
    const std::vector<Value*> others = coordinates(root, middle, f_.rank);
    root.seek();
    start.insert(start.end(), others.begin(), others.end());
    auto pair = [&](Scope& scope, Value*, std::vector<Value*> at) -> std::vector<Value*> {
      const auto rank = static_cast<size_t>(f_.rank);
      const std::vector<Value*> one(at.begin(), at.begin() + f_.rank),
          other(at.begin() + f_.rank, at.end());
      std::vector<Value*> next = advance(scope, one), after = advance(scope, other);
      next.insert(next.end(), after.begin(), after.end());
      Scope first(scope, false), second(scope, false);
      for (size_t a = 0; a < rank; ++a) {
        first.set_axis(static_cast<int>(a), one[a]);
        first.set_axis(f_.next_axis(static_cast<int>(a)), other[a]);
        second.set_axis(static_cast<int>(a), other[a]);
      }
      stages_.emit_two(first, second);
      second.seek();
      scope.move_to(ir_.GetInsertBlock());
      return next;
    };
    std::vector<Value*> end = emit_loop(root, k_.begin, middle, k_.i64(1), false, start, pair);
    root.seek();
    return {end.begin() + f_.rank, end.end()};
  }

  // Units along the last parallel axis become lines cut into lanes.
  void lines() {
    Scope& root = k_.root();
    int last = f_.rank - 1;
    if (f_.rank == 1) return line(root, k_.begin, k_.end);
    root.seek();
    Value* n = emit_expr(root, f_.extent(last)).v;
    bool whole = f_.plan.whole_lines;
    Value* first = whole ? k_.begin : ir_.CreateUDiv(k_.begin, n);
    Value* stop =
        whole ? k_.end
              : ir_.CreateAdd(ir_.CreateUDiv(ir_.CreateSub(k_.end, k_.i64(1)), n), k_.i64(1));
    std::vector<Value*> at = coordinates(root, first, last);
    root.seek();
    emit_loop(root, first, stop, k_.i64(1), true, at,
              [&](Scope& scope, Value* number, std::vector<Value*> now) -> std::vector<Value*> {
                for (int a = 0; a < last; ++a) scope.set_axis(a, now[static_cast<size_t>(a)]);
                if (whole) {
                  line(scope, k_.i64(0), n);
                  return advance(scope, now);
                }
                Value* start = ir_.CreateMul(number, n);
                Value* low = ir_.CreateBinaryIntrinsic(Intrinsic::smax,
                                                       ir_.CreateSub(k_.begin, start), k_.i64(0));
                Value* high =
                    ir_.CreateBinaryIntrinsic(Intrinsic::smin, ir_.CreateSub(k_.end, start), n);
                line(scope, low, high);
                return advance(scope, now);
              });
  }

  // Units are blocks of the last axes, whose lines are few whole vectors.
  void blocks() {
    Scope& root = k_.root();
    const int last = f_.rank - 1, outer = f_.rank - f_.plan.block_axes;
    root.seek();
    std::vector<Value*> first = coordinates(root, k_.begin, outer);
    auto extent = [&](int axis) { return k_.i64(f_.extent(axis).constant_value()); };
    std::function<void(Scope&, int)> walk = [&](Scope& scope, int axis) {
      if (axis == last)
        return f_.plan.written_out ? points(scope) : line(scope, k_.i64(0), extent(last));
      emit_loop(scope, k_.i64(0), extent(axis), k_.i64(1), true, [&](Scope& inner, Value* i) {
        inner.set_axis(axis, i);
        walk(inner, axis + 1);
      });
    };
    root.seek();
    emit_loop(root, k_.begin, k_.end, k_.i64(1), true, first,
              [&](Scope& unit, Value*, std::vector<Value*> now) -> std::vector<Value*> {
                for (int a = 0; a < outer; ++a) unit.set_axis(a, now[static_cast<size_t>(a)]);
                walk(unit, outer);
                return advance(unit, now);
              });
  }

  // The points of a line, one after the other.
  void points(Scope& scope) {
    const int last = f_.rank - 1;
    for (int64_t place = 0; place < f_.extent(last).constant_value(); ++place) {
      Scope point(scope, false);
      point.make_certain();
      point.set_axis(last, k_.i64(place));
      emit_body(point, places_.emplace_back(at_place(f_.block.stages[0].body, last, place)));
      point.seek();
      scope.move_to(ir_.GetInsertBlock());
    }
  }

  // Units are squares' worth of lines: in each, squares of lanes whose transposed loads are read
  // along the other axis and turned over, then what is left of the lines.
  void tiles() {
    Scope& root = k_.root();
    const int other = f_.rank - 2, side = f_.plan.lanes * f_.plan.squares;
    root.seek();
    Value* across = emit_expr(root, f_.extent(other)).v;
    emit_expr(root, f_.extent(other + 1));
    Value* blocks = emit_expr(root, ceil_div(f_.extent(other), Expr(side))).v;
    root.seek();
    const Squares squares(f_);
    emit_loop(root, k_.begin, k_.end, k_.i64(1), true, [&](Scope& unit, Value* number) {
      Value* outer = ir_.CreateUDiv(number, blocks);
      Value* first =
          ir_.CreateMul(ir_.CreateSub(number, ir_.CreateMul(outer, blocks)), k_.i64(side));
      std::vector<Value*> at = coordinates(unit, outer, other);
      for (int a = 0; a < other; ++a) unit.set_axis(a, at[static_cast<size_t>(a)]);
      unit.seek();
      Value* lines =
          ir_.CreateBinaryIntrinsic(Intrinsic::smin, k_.i64(side), ir_.CreateSub(across, first));
      f_.plan.masked_tails ? masked_squares(unit, squares, first, lines)
                           : whole_squares(unit, squares, first, lines);
    });
  }

  // The lines of a unit, with masks for what is no whole square.
  void masked_squares(Scope& unit, const Squares& squares, Value* first, Value* lines) {
    const int last = f_.rank - 1, lanes = f_.plan.lanes;
    const Expr &lines_of = f_.extent(last - 1), &length = f_.extent(last);
    const bool all = lines_of.is_const() && lines_of.constant_value() % lanes == 0;
    Value* mask = all ? nullptr : lane_mask(k_, lines, lanes);
    Value* along = emit_expr(unit, length).v;
    unit.seek();
    Value* whole = ir_.CreateAnd(along, k_.i64(-lanes));
    auto walk = [&](Value* begin, Value* end, int columns) {
      emit_loop(unit, begin, end, k_.i64(lanes), false, [&](Scope& s, Value* j) {
        square(s, squares, first, j, {mask, columns, lines});
      });
    };
    walk(k_.i64(0), whole, lanes);
    if (!length.is_const()) return left_of_lines(unit, first, lines, k_.i64(lanes), whole);
    if (auto left = static_cast<int>(length.constant_value() % lanes)) walk(whole, along, left);
  }

  // The same without masks: where squares make up lines of memory, tiles of them, so that these are
  // read and written as a whole; then single squares; then lanes.
  void whole_squares(Scope& unit, const Squares& squares, Value* first, Value* lines) {
    const int lanes = f_.plan.lanes, side = lanes * f_.plan.squares;
    Value* along = emit_expr(unit, f_.extent(f_.rank - 1)).v;
    unit.seek();
    auto walk = [&](Value* begin, Value* end, int step, Value* count) {
      emit_loop(unit, begin, end, k_.i64(step), false, [&](Scope& tile, Value* j) {
        emit_loop(tile, k_.i64(0), count, k_.i64(lanes), false, [&](Scope& part, Value* i) {
          Value* line = ir_.CreateAdd(first, i);
          emit_loop(part, k_.i64(0), k_.i64(step), k_.i64(lanes), true, [&](Scope& s, Value* c) {
            square(s, squares, line, ir_.CreateAdd(j, c), {nullptr, lanes, nullptr});
          });
        });
      });
      unit.seek();
    };
    Value *tiled = k_.i64(0), *whole = ir_.CreateAnd(along, k_.i64(-lanes)),
          *whole_lines = ir_.CreateAnd(lines, k_.i64(-lanes));
    if (side > lanes) {
      tiled = ir_.CreateSelect(ir_.CreateICmpEQ(lines, k_.i64(side)),
                               ir_.CreateAnd(along, k_.i64(-side)), tiled);
      walk(k_.i64(0), tiled, side, k_.i64(side));
    }
    walk(tiled, whole, lanes, whole_lines);
    left_of_lines(unit, first, lines, whole_lines, whole);
  }

  // The lines of a unit lane by lane, the first `some` of them from `whole` on.
  void left_of_lines(Scope& unit, Value* first, Value* lines, Value* some, Value* whole) {
    const atlas::Body& body = f_.block.stages[0].body;
    const int last = f_.rank - 1;
    Value* along = emit_expr(unit, f_.extent(last)).v;
    unit.seek();
    emit_loop(unit, k_.i64(0), lines, k_.i64(1), true, [&](Scope& rest, Value* r) {
      rest.set_axis(last - 1, ir_.CreateAdd(first, r));
      Value* from = ir_.CreateSelect(ir_.CreateICmpSLT(r, some), whole, k_.i64(0));
      lanes_.loop(rest, last, from, along, 1, {&body}, [&](Scope& s) { emit_body(s, body); });
    });
  }

  // The lines of the square that begins at line `first`, column j.
  void square(Scope& s, const Squares& squares, Value* first, Value* j, const Squares::Some& some) {
    const int last = f_.rank - 1, lanes = f_.plan.lanes;
    if (!some.lines && some.columns == lanes && squares.fit_registers())
      return squares.lines_in_registers(s, first, j);
    const atlas::Body& body = f_.block.stages[0].body;
    squares.load(s, first, j, some);
    s.seek();
    Value* rows = some.lines ? some.count : k_.i64(lanes);
    emit_loop(s, k_.i64(0), rows, k_.i64(1), true, [&](Scope& line, Value* r) {
      line.set_axis(last - 1, ir_.CreateAdd(first, r));
      line.set_axis(last, j);
      Value* mask = some.columns < lanes ? lane_mask(k_, k_.i64(some.columns), lanes) : nullptr;
      line.set_lanes(last, lanes, mask);
      squares.preset(line, r);
      emit_body(line, body);
    });
  }

  // Units are pieces of the axis before the last.
  void interleaved() {
    Scope& root = k_.root();
    const int line = f_.rank - 2;
    root.seek();
    Value* length = emit_expr(root, f_.extent(line)).v;
    Value* pieces = emit_expr(root, ceil_div(f_.extent(line), Expr(interleaved_unit))).v;
    root.seek();
    Interleaved runs(f_);
    emit_loop(root, k_.begin, k_.end, k_.i64(1), true, [&](Scope& unit, Value* number) {
      Value* outer = ir_.CreateUDiv(number, pieces);
      Value* low = ir_.CreateMul(ir_.CreateSub(number, ir_.CreateMul(outer, pieces)),
                                 k_.i64(interleaved_unit));
      std::vector<Value*> at = coordinates(unit, outer, line);
      for (int a = 0; a < line; ++a) unit.set_axis(a, at[static_cast<size_t>(a)]);
      unit.seek();
      Value* count = ir_.CreateBinaryIntrinsic(Intrinsic::smin, k_.i64(interleaved_unit),
                                               ir_.CreateSub(length, low));
      runs.emit(unit, low, ir_.CreateAdd(low, count));
    });
  }

  // Points [low, high) of the lane axis, at least one of them.
  void line(Scope& scope, Value* low, Value* high) {
    const auto& stages = f_.block.stages;
    if (stages.size() == 1 && stages[0].kind == atlas::StageKind::point) {
      ranges_ = ranges_of(stages[0].body, f_.block.axes, f_.rank - 1, f_.plan.lanes);
      return ranges(scope, ranges_.front(), low, high);
    }
    if (f_.plan.columns > 0) return LoopColumns(f_, lanes_).line(scope, low, high);
    if (stages_.walks_rows_first()) return stages_.emit_rows_first(scope, low, high);
    std::vector<const atlas::Body*> bodies;
    for (const Stage& s : stages) bodies.push_back(&s.body);
    lanes_.loop(scope, f_.rank - 1, low, high, f_.plan.unroll, bodies,
                [&](Scope& s) { stages_.emit(s); });
  }

  /// x, or the end of [low, high] that it lies beyond.
  Value* between(Value* x, Value* low, Value* high) {
    auto *known = llvm::dyn_cast<llvm::ConstantInt>(x),
         *from = llvm::dyn_cast<llvm::ConstantInt>(low),
         *to = llvm::dyn_cast<llvm::ConstantInt>(high);
    if (known && from && to)
      return k_.i64(std::clamp(known->getSExtValue(), from->getSExtValue(), to->getSExtValue()));
    x = ir_.CreateBinaryIntrinsic(Intrinsic::smax, x, low);
    return ir_.CreateBinaryIntrinsic(Intrinsic::smin, x, high);
  }

  // Vectors of a round: all that there are of a known range of whole lines, if these are few.
  int unroll_of(const Range& range) const {
    constexpr int64_t most_vectors = 16;
    constexpr size_t most_instrs = 256;
    const auto points = range.length();
    if (f_.plan.block_axes > 0 && points && !f_.plan.paired) {
      const int64_t vectors = std::max<int64_t>(1, *points / f_.plan.lanes);
      if (vectors <= most_vectors &&
          static_cast<size_t>(vectors) * range.body.instrs.size() <= most_instrs)
        return static_cast<int>(vectors);
    }
    return range.is_short(f_.plan.lanes) ? 1 : f_.plan.unroll;
  }

  // The same for one body, range by range in which its comparisons of coordinates have one outcome.
  void ranges(Scope& scope, const Range& range, Value* low, Value* high) {
    int axis = f_.rank - 1;
    if (!range.split)
      return lanes_.loop(scope, axis, low, high, unroll_of(range), {&range.body},
                         [&](Scope& s) { emit_body(s, range.body); });
    if (range.split->slope == 0) {
      Value* rest = emit_expr(scope, range.split->rest).v;
      scope.seek();
      Value* truth = ir_.CreateICmpSGE(rest, k_.i64(0));
      emit_if(scope, truth, [&](Scope& s) { ranges(s, *range.holds, low, high); });
      scope.seek();
      emit_if(scope, ir_.CreateNot(truth), [&](Scope& s) { ranges(s, *range.fails, low, high); });
      return;
    }
    const bool rises = range.split->slope > 0;
    Value* middle = emit_expr(scope, first_beyond(*range.split)).v;
    scope.seek();
    middle = between(middle, low, high);
    emit_if(scope, ir_.CreateICmpSLT(low, middle),
            [&](Scope& s) { ranges(s, rises ? *range.fails : *range.holds, low, middle); });
    scope.seek();
    emit_if(scope, ir_.CreateICmpSLT(middle, high),
            [&](Scope& s) { ranges(s, rises ? *range.holds : *range.fails, middle, high); });
  }

  const LoopFrame& f_;
  CpuFunction& k_;
  llvm::IRBuilder<>& ir_;
  LoopLanes lanes_;
  LoopStages stages_;
  // Scopes remember what they hold of a body by its address.
  std::deque<Range> ranges_;
  std::deque<atlas::Body> places_;
};

}  // namespace

void emit(CpuFunction& k, const LoopPlan& plan) {
  LoopFrame frame(k, plan);
  k.make_scratch(frame.plan.mode == LaneMode::parallel ? frame.plan.lanes : 1);
  LoopEmitter(frame).run();
}

}  // namespace hologram::cpu
