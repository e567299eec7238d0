// codegen/loop.cpp: loop blocks: walks the parallel units, lays lanes, runs the stages.
#include "codegen/loop.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

#include "base/error.h"
#include "codegen/memory.h"
#include "codegen/nest.h"
#include "codegen/reduce.h"
#include "codegen/transpose.h"

namespace hologram::codegen {
namespace {

namespace Intrinsic = llvm::Intrinsic;
using atlas::Stage;
using atlas::StageKind;

class LoopEmitter {
 public:
  explicit LoopEmitter(Kernel& k)
      : k_(k),
        ir_(k.ir),
        block_(k.program.loop),
        plan_(plan_loop(k.program, k.target)),
        rank_(block_.parallel_rank),
        axes_(static_cast<int>(block_.axes.size())) {
    points_only_ = std::all_of(block_.stages.begin(), block_.stages.end(),
                               [](const Stage& s) { return s.kind == StageKind::point; });
    bool scratch =
        std::any_of(k.program.buffers.begin(), k.program.buffers.end(),
                    [](const atlas::Buffer& b) { return b.access == atlas::Access::scratch; });
    if (!points_only_ || scratch) plan_.unroll = 1;
    if (scratch) plan_.paired = false;
    if (!points_only_ || plan_.mode != LaneMode::parallel) plan_.may_stream = false;
    if (plan_.carried) ahead_ = stage_ahead();
    plan_prefetches();
    int number = 0;
    for (const Stage& s : block_.stages) {
      first_accumulator_.push_back(number);
      number += static_cast<int>(s.reductions.size() + s.running.size());
    }
  }

  void run() {
    k_.make_scratch(plan_.mode == LaneMode::parallel ? plan_.lanes : 1);
    if (plan_.may_stream) {
      Value* bytes = emit_expr(k_.root(), buffer_bytes(k_.program)).v;
      large_ = ir_.CreateICmpSGT(bytes, k_.i64(stream_bytes));
    }
    if (plan_.interleaved > 0)
      interleaved();
    else if (plan_.tiled)
      tiles();
    else if (plan_.mode == LaneMode::parallel)
      lines();
    else
      each_point();
    k_.root().seek();
    k_.finish();
  }

 private:
  const Expr& extent(int axis) const { return block_.axes[static_cast<size_t>(axis)].extent; }
  bool at_least_one(int axis) const {
    return extent(axis).is_const() && extent(axis).constant_value() > 0;
  }

  // --- memory that is wanted soon

  /// An element of a buffer whose neighbours along the lanes a stage fetches ahead of their use.
  struct Prefetch {
    int buffer;
    Expr index;
    int locality;  ///< 3: to the nearest cache, 2: to the second
    bool write = false;
  };

  /// The axis that stands for parallel axis a of the next point.
  int next_axis(int a) const { return axes_ + a; }

  /// The first stage at the next point.
  Stage stage_ahead() const {
    Stage s = block_.stages[0];
    for (atlas::Instr& i : s.body.instrs)
      i.expr = i.expr.substitute([&](const Atom& a) -> std::optional<Expr> {
        if (a.kind != Atom::Kind::axis || a.id >= rank_) return std::nullopt;
        return Expr::axis(next_axis(a.id), extent(a.id));
      });
    return s;
  }

  /// Along rows the stage that computes most has time to fetch what the next row reads and what
  /// this row will write. Where no stage computes much, each reads some way ahead of itself:
  /// hardware stops at the end of each page. A stage that carries the next row's first stage reads
  /// that row itself, and what it writes was not read before.
  void plan_prefetches() {
    constexpr int enough = 12;
    constexpr int64_t ahead = 2048;
    prefetches_.resize(block_.stages.size());
    if (plan_.mode != LaneMode::row) return;
    std::vector<std::pair<int, Expr>> seen;
    if (plan_.carried) {
      for (const atlas::Instr& i : ahead_.body.instrs) {
        auto step = i.expr.linear_in_axis(axes_ - 1);
        if (i.code != atlas::Code::load || !step || !step->first.is(1)) continue;
        int64_t size = size_of(k_.program.buffers[static_cast<size_t>(i.buffer)].dtype);
        prefetches_[1].push_back({i.buffer, i.expr + Expr(2 * ahead / size), 3});
      }
      for (const atlas::Instr& i : block_.stages[0].body.instrs)
        if (i.code == atlas::Code::load) seen.emplace_back(i.buffer, i.expr);
    }
    auto work = [](const Stage& s) {
      return s.kind == StageKind::row ? arithmetic_count(s.body) : -1;
    };
    size_t busiest = 0;
    for (size_t n = 0; n < block_.stages.size(); ++n)
      if (work(block_.stages[n]) > work(block_.stages[busiest])) busiest = n;
    bool busy = work(block_.stages[busiest]) >= enough;
    for (size_t n = 0; n < block_.stages.size(); ++n) {
      if (block_.stages[n].kind != StageKind::row) continue;
      for (const atlas::Instr& i : block_.stages[n].body.instrs) {
        bool load = i.code == atlas::Code::load, store = i.code == atlas::Code::store;
        if (!load && !store) continue;
        const atlas::Buffer& b = k_.program.buffers[static_cast<size_t>(i.buffer)];
        auto step = i.expr.linear_in_axis(axes_ - 1);
        if (b.access == atlas::Access::scratch || !step || !step->first.is(1) ||
            i.expr.any_atom([](const Atom& a) { return a.kind == Atom::Kind::value; }) ||
            std::find(seen.begin(), seen.end(), std::pair(i.buffer, i.expr)) != seen.end())
          continue;
        seen.emplace_back(i.buffer, i.expr);
        if (store) {
          if (busy && n > busiest) prefetches_[busiest].push_back({i.buffer, i.expr, 2});
          if (plan_.carried && n == 1)
            prefetches_[n].push_back({i.buffer, i.expr + Expr(ahead / size_of(b.dtype)), 3, true});
        } else if (!busy) {
          prefetches_[n].push_back({i.buffer, i.expr + Expr(ahead / size_of(b.dtype)), 3});
        } else if (rank_ > 0) {
          int last = rank_ - 1;
          auto next = [&](const Atom& a) -> std::optional<Expr> {
            if (a.kind != Atom::Kind::axis || a.id != last) return std::nullopt;
            return Expr::axis(last, extent(last)) + Expr(1);
          };
          if (i.expr.has_axis(last))
            prefetches_[busiest].push_back({i.buffer, i.expr.substitute(next), 2});
        }
      }
    }
  }

  /// Fetches what stage `number` is to fetch at the lanes of `scope`, `offset` vectors on from
  /// where a cache line begins.
  void fetch_ahead(Scope& scope, size_t number, int offset) {
    for (const Prefetch& p : prefetches_[number]) {
      int bytes = scope.lanes() * size_of(k_.program.buffers[static_cast<size_t>(p.buffer)].dtype);
      if (scope.lanes() == 1 || offset * bytes % 64 != 0) continue;
      if (auto address = vector_address(scope, p.buffer, p.index))
        ir_.CreateIntrinsic(Intrinsic::prefetch, {ir_.getPtrTy()},
                            {*address, ir_.getInt32(p.write ? 1 : 0),
                             ir_.getInt32(static_cast<uint32_t>(p.locality)), ir_.getInt32(1)});
    }
  }

  // --- walking the units

  /// The coordinates of row-major position `at` over axes [0, count).
  std::vector<Value*> coordinates(Scope& scope, Value* at, int count) {
    std::vector<Value*> result(static_cast<size_t>(count));
    for (int a = count - 1; a > 0; --a) {
      Value* n = emit_expr(scope, extent(a)).v;
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
      Value* n = emit_expr(scope, extent(a)).v;
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
    std::vector<Value*> first = coordinates(root, k_.begin, rank_);
    root.seek();
    if (plan_.carried) {
      for (const atlas::Reduction& r : block_.stages[0].reductions)
        carried_.push_back(k_.slot(k_.type_of(r.type), "carried"));
      Scope scope(root, false);
      for (int a = 0; a < rank_; ++a) scope.set_axis(a, first[static_cast<size_t>(a)]);
      row_stage(scope, block_.stages[0], 0);
      root.move_to(ir_.GetInsertBlock());
    }
    emit_loop(root, k_.begin, k_.end, k_.i64(1), true, first,
              [&](Scope& scope, Value* number, std::vector<Value*> at) -> std::vector<Value*> {
                for (int a = 0; a < rank_; ++a) scope.set_axis(a, at[static_cast<size_t>(a)]);
                std::vector<Value*> next = advance(scope, at);
                // The last point looks at itself again: the points behind are not this call's.
                Value* last = ir_.CreateICmpEQ(ir_.CreateAdd(number, k_.i64(1)), k_.end);
                for (size_t a = 0; plan_.carried && a < next.size(); ++a)
                  scope.set_axis(next_axis(static_cast<int>(a)),
                                 ir_.CreateSelect(last, at[a], next[a]));
                stages(scope);
                return next;
              });
  }

  // Units along the last parallel axis become lines cut into lanes.
  void lines() {
    Scope& root = k_.root();
    int last = rank_ - 1;
    if (rank_ == 1) return line(root, k_.begin, k_.end);
    root.seek();
    Value* n = emit_expr(root, extent(last)).v;
    Value* first = ir_.CreateUDiv(k_.begin, n);
    Value* stop = ir_.CreateAdd(ir_.CreateUDiv(ir_.CreateSub(k_.end, k_.i64(1)), n), k_.i64(1));
    std::vector<Value*> at = coordinates(root, first, last);
    root.seek();
    emit_loop(root, first, stop, k_.i64(1), true, at,
              [&](Scope& scope, Value* number, std::vector<Value*> now) -> std::vector<Value*> {
                for (int a = 0; a < last; ++a) scope.set_axis(a, now[static_cast<size_t>(a)]);
                Value* start = ir_.CreateMul(number, n);
                Value* low = ir_.CreateBinaryIntrinsic(Intrinsic::smax,
                                                       ir_.CreateSub(k_.begin, start), k_.i64(0));
                Value* high =
                    ir_.CreateBinaryIntrinsic(Intrinsic::smin, ir_.CreateSub(k_.end, start), n);
                line(scope, low, high);
                return advance(scope, now);
              });
  }

  // Units are squares' worth of lines: in each, squares of lanes whose transposed loads are read
  // along the other axis and turned over, then what is left of the lines.
  void tiles() {
    constexpr const char* name = "square";
    Scope& root = k_.root();
    int last = rank_ - 1, other = rank_ - 2, lanes = plan_.lanes;
    const atlas::Body& body = block_.stages[0].body;
    root.seek();
    Value *across = emit_expr(root, extent(other)).v, *along = emit_expr(root, extent(last)).v;
    Value* blocks = emit_expr(root, ceil_div(extent(other), Expr(lanes))).v;
    root.seek();
    std::vector<std::pair<atlas::ValueId, Value*>> squares;
    for (atlas::ValueId id : transposed_loads(block_, k_.program.buffers)) {
      const atlas::Buffer& b = k_.program.buffers[static_cast<size_t>(body.instrs[id].buffer)];
      llvm::Type* row = k_.widen(k_.memory_type(b.dtype), lanes);
      squares.emplace_back(id, k_.slot(row, name, lanes));
    }
    emit_loop(root, k_.begin, k_.end, k_.i64(1), true, [&](Scope& unit, Value* number) {
      Value* outer = ir_.CreateUDiv(number, blocks);
      Value* first =
          ir_.CreateMul(ir_.CreateSub(number, ir_.CreateMul(outer, blocks)), k_.i64(lanes));
      std::vector<Value*> at = coordinates(unit, outer, other);
      for (int a = 0; a < other; ++a) unit.set_axis(a, at[static_cast<size_t>(a)]);
      unit.seek();
      Value* lines =
          ir_.CreateBinaryIntrinsic(Intrinsic::smin, k_.i64(lanes), ir_.CreateSub(across, first));
      Value* whole = ir_.CreateSelect(ir_.CreateICmpEQ(lines, k_.i64(lanes)),
                                      ir_.CreateAnd(along, k_.i64(-lanes)), k_.i64(0));
      emit_loop(unit, k_.i64(0), whole, k_.i64(lanes), false, [&](Scope& square, Value* j) {
        for (auto& [id, memory] : squares) turn_over(square, body.instrs[id], memory, first, j);
        square.seek();
        emit_loop(square, k_.i64(0), k_.i64(lanes), k_.i64(1), true, [&](Scope& line, Value* r) {
          line.set_axis(other, ir_.CreateAdd(first, r));
          line.set_axis(last, j);
          line.set_lanes(last, lanes);
          for (auto& [id, memory] : squares) {
            DType type = k_.program.buffers[static_cast<size_t>(body.instrs[id].buffer)].dtype;
            llvm::Type* row = k_.widen(k_.memory_type(type), lanes);
            Value* x = ir_.CreateLoad(row, ir_.CreateGEP(row, memory, r));
            line.preset(&body, id, {from_memory(k_, type, x), true});
          }
          emit_body(line, body);
        });
      });
      unit.seek();
      emit_loop(unit, k_.i64(0), lines, k_.i64(1), true, [&](Scope& rest, Value* r) {
        rest.set_axis(other, ir_.CreateAdd(first, r));
        lane_loop(rest, last, whole, along, 1, {&body}, [&](Scope& s) { emit_body(s, body); });
      });
    });
  }

  /// Loads the square of `load` that begins at coordinates `first` of the axis before the lanes and
  /// j of the lane axis, and puts it into `memory` with a row for each line.
  void turn_over(Scope& square, const atlas::Instr& load, Value* memory, Value* first, Value* j) {
    const atlas::Buffer& b = k_.program.buffers[static_cast<size_t>(load.buffer)];
    llvm::Type* type = k_.widen(k_.memory_type(b.dtype), plan_.lanes);
    llvm::Align align(static_cast<uint64_t>(size_of(b.dtype)));
    std::vector<Value*> rows;
    for (int c = 0; c < plan_.lanes; ++c) {
      square.seek();
      Scope column(square, false);
      column.set_axis(rank_ - 1, c ? ir_.CreateAdd(j, k_.i64(c)) : j);
      column.set_axis(rank_ - 2, first);
      column.set_lanes(rank_ - 2, plan_.lanes);
      auto address = vector_address(column, load.buffer, load.expr);
      rows.push_back(ir_.CreateAlignedLoad(type, *address, align));
      column.seek();
      square.move_to(ir_.GetInsertBlock());
    }
    rows = transpose(k_, std::move(rows));
    for (int r = 0; r < plan_.lanes; ++r)
      ir_.CreateStore(rows[static_cast<size_t>(r)],
                      ir_.CreateConstGEP1_64(type, memory, static_cast<uint64_t>(r)));
  }

  // Units are lines of the axis before the last: vectors along it, one for each element of a run,
  // are stored interleaved; what is left of a line is taken one by one.
  void interleaved() {
    Scope& root = k_.root();
    int run = rank_ - 1, line = rank_ - 2, lanes = plan_.lanes;
    int64_t n = plan_.interleaved, length = extent(line).constant_value();
    const atlas::Body& body = block_.stages[0].body;
    atlas::Body values = body;
    auto store = std::ranges::find(values.instrs, atlas::Code::store, &atlas::Instr::code);
    const atlas::Instr stored = *store;
    // The store becomes the value itself, so that the other numbers stay.
    *store = {};
    store->code = atlas::Code::arithmetic;
    store->op = ir::Op::bitcast;
    store->type = store->from = stored.type;
    store->args[0] = stored.args[0];
    root.seek();
    std::vector<Value*> first = coordinates(root, k_.begin, line);
    root.seek();
    emit_loop(
        root, k_.begin, k_.end, k_.i64(1), true, first,
        [&](Scope& unit, Value*, std::vector<Value*> at) -> std::vector<Value*> {
          for (int a = 0; a < line; ++a) unit.set_axis(a, at[static_cast<size_t>(a)]);
          int64_t whole = length / lanes * lanes;
          emit_loop(unit, k_.i64(0), k_.i64(whole), k_.i64(lanes), true,
                    [&](Scope& s, Value* i) { vectors_of_run(s, i, values, stored); });
          emit_loop(unit, k_.i64(whole), k_.i64(length), k_.i64(1), false, [&](Scope& s, Value* i) {
            s.set_axis(line, i);
            emit_loop(s, k_.i64(0), k_.i64(n), k_.i64(1), true, [&](Scope& one, Value* c) {
              one.set_axis(run, c);
              emit_body(one, body);
            });
          });
          return advance(unit, at);
        });
  }

  /// One vector along the line from coordinate i for each element of the run, stored interleaved.
  void vectors_of_run(Scope& scope, Value* i, const atlas::Body& values,
                      const atlas::Instr& stored) {
    int run = rank_ - 1, line = rank_ - 2, lanes = plan_.lanes, n = plan_.interleaved;
    std::vector<Value*> rows;
    for (int c = 0; c < n; ++c) {
      scope.seek();
      Scope copy(scope, false);
      copy.set_axis(run, k_.i64(c));
      copy.set_axis(line, i);
      copy.set_lanes(line, lanes);
      LaneValue x = emit_body(copy, values)[stored.args[0]];
      copy.seek();
      rows.push_back(to_memory(k_, stored.type, splat(k_, x, lanes)));
      scope.move_to(ir_.GetInsertBlock());
    }
    scope.seek();
    Scope origin(scope, false);
    origin.set_axis(run, k_.i64(0));
    origin.set_axis(line, i);
    origin.set_lanes(run, lanes);
    Value* address = *vector_address(origin, stored.buffer, stored.expr);
    // Lane l of vector o is element p % n of pixel p / n, p = o * lanes + l.
    for (int o = 0; o < n; ++o) {
      Value* out = nullptr;
      for (int c = 0; c < n; ++c) {
        std::vector<int> order(static_cast<size_t>(lanes));
        for (int l = 0; l < lanes; ++l) {
          int p = o * lanes + l;
          order[static_cast<size_t>(l)] = p % n == c ? lanes + p / n : l;
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

  // Points [low, high) of the lane axis, at least one of them.
  void line(Scope& scope, Value* low, Value* high) {
    std::vector<const atlas::Body*> bodies;
    for (const Stage& s : block_.stages) bodies.push_back(&s.body);
    lane_loop(scope, rank_ - 1, low, high, plan_.unroll, bodies, [&](Scope& s) { stages(s); });
  }

  /// Runs `fill` for all of [low, high) along `axis`: `unroll` vectors at a time, then single
  /// vectors, then the tail. `bodies` are what it emits.
  void lane_loop(Scope& outer, int axis, Value* low, Value* high, int unroll,
                 const std::vector<const atlas::Body*>& bodies,
                 const std::function<void(Scope&)>& fill) {
    outer.seek();
    Value* at = low;
    if (plan_.may_stream) {
      Value* stream = aligned_stores(outer, axis, low, bodies);
      if (stream) {
        outer.seek();
        stream = ir_.CreateAnd(stream, large_);
        Value* until = ir_.CreateSelect(stream, high, low);
        at = vectors(outer, axis, at, until, unroll, true, fill);
        if (k_.target.isa != Isa::neon)
          emit_if(outer, stream,
                  [&](Scope&) { ir_.CreateIntrinsic(Intrinsic::x86_sse_sfence, {}, {}); });
        outer.seek();
      }
    }
    // What is left over of wide vectors takes several narrower ones.
    int narrow = plan_.vectors > 4 ? plan_.lanes / plan_.vectors * 4 : plan_.lanes;
    if (plan_.masked_tails && axis == rank_ - 1 && (plan_.paired || narrow < plan_.lanes)) {
      at = vectors(outer, axis, at, high, 1, false, fill, plan_.lanes * (plan_.paired ? 2 : 1));
      emit_loop(outer, at, high, k_.i64(narrow), false,
                [&](Scope& s, Value* i) { masked(s, axis, i, high, narrow, fill); });
      return;
    }
    if (unroll > 1) at = vectors(outer, axis, at, high, unroll, false, fill);
    at = vectors(outer, axis, at, high, 1, false, fill);
    tail(outer, axis, at, high, fill);
  }

  /// Whole rounds of `unroll` vectors of `lanes` (0: the plan's) from `at`; returns where they end.
  Value* vectors(Scope& outer, int axis, Value* at, Value* high, int unroll, bool streaming,
                 const std::function<void(Scope&)>& fill, int lanes = 0) {
    if (lanes == 0) lanes = plan_.lanes;
    int step = lanes * unroll;
    Value* stop = ir_.CreateAdd(at, ir_.CreateAnd(ir_.CreateSub(high, at), k_.i64(-step)));
    emit_loop(outer, at, stop, k_.i64(step), false, [&](Scope& round, Value* i) {
      round.make_certain();
      round.set_streaming(streaming);
      for (int c = 0; c < unroll; ++c) {
        Scope copy(round, false);
        copy.set_axis(axis, c ? ir_.CreateAdd(i, k_.i64(c * lanes)) : i);
        copy.set_lanes(axis, lanes);
        fill(copy);
        copy.seek();
        round.move_to(ir_.GetInsertBlock());
      }
    });
    outer.seek();
    return stop;
  }

  /// Whether every store of `bodies` writes whole aligned vectors from lane coordinate `low` on
  /// (i1); null if some cannot.
  Value* aligned_stores(Scope& outer, int axis, Value* low,
                        const std::vector<const atlas::Body*>& bodies) {
    Scope first(outer, false);
    first.set_axis(axis, low);
    first.set_lanes(axis, plan_.lanes);
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

  void tail(Scope& outer, int axis, Value* at, Value* high,
            const std::function<void(Scope&)>& fill) {
    if (plan_.masked_tails) {
      emit_if(outer, ir_.CreateICmpSLT(at, high),
              [&](Scope& s) { masked(s, axis, at, high, plan_.lanes, fill); });
      return;
    }
    emit_loop(outer, at, high, k_.i64(1), false, [&](Scope& s, Value* i) {
      s.make_certain();
      s.set_axis(axis, i);
      fill(s);
    });
  }

  /// One vector from `at`, of which the lanes below `high` exist.
  void masked(Scope& s, int axis, Value* at, Value* high, int lanes,
              const std::function<void(Scope&)>& fill) {
    s.make_certain();
    s.set_axis(axis, at);
    s.set_lanes(axis, lanes, mask(ir_.CreateSub(high, at), lanes));
    fill(s);
  }

  /// The first `count` of `lanes` (may be negative or more than there are). The comparison fills a
  /// register: where it does not, LLVM 19 may spill a mask with what lies above its lanes, and
  /// stores of narrow elements then use that.
  Value* mask(Value* count, int lanes) {
    count = ir_.CreateBinaryIntrinsic(Intrinsic::smin, count, k_.i64(lanes));
    count = ir_.CreateBinaryIntrinsic(Intrinsic::smax, count, k_.i64(0));
    llvm::Type* element = ir_.getIntNTy(static_cast<unsigned>(std::max(8, 128 / lanes)));
    Value* limit =
        ir_.CreateVectorSplat(static_cast<unsigned>(lanes), ir_.CreateTrunc(count, element));
    return ir_.CreateICmpULT(iota(element, lanes), limit);
  }

  // --- stages at one point (or a vector of points)

  void stages(Scope& scope) {
    for (size_t n = 0; n < block_.stages.size(); ++n) {
      const Stage& s = block_.stages[n];
      scope.seek();
      if (plan_.carried && n == 0)
        for (size_t r = 0; r < carried_.size(); ++r)
          scope.set_accumulator(
              static_cast<int>(r),
              {ir_.CreateLoad(carried_[r]->getAllocatedType(), carried_[r]), false});
      else if (s.kind == StageKind::point)
        emit_body(scope, s.body);
      else if (s.kind == StageKind::serial_row)
        serial_stage(scope, s, first_accumulator_[n]);
      else
        row_stage(scope, s, n);
    }
  }

  /// Loops over row axes [axis, last); `fill` runs inside them.
  void row_loops(Scope& scope, int axis, int last, const std::function<void(Scope&)>& fill) {
    if (axis == last) return fill(scope);
    Value* n = emit_expr(scope, extent(axis)).v;
    scope.seek();
    emit_loop(scope, k_.i64(0), n, k_.i64(1), at_least_one(axis), [&](Scope& s, Value* i) {
      s.set_axis(axis, i);
      row_loops(s, axis + 1, last, fill);
    });
  }

  void serial_stage(Scope& scope, const Stage& s, int accumulator) {
    int lanes = scope.lanes();
    std::vector<Value*> slots;
    for (size_t r = 0; r < s.running.size(); ++r) {
      auto [op, type] = s.running[r];
      Value* slot = k_.slot(k_.lane_type(type, lanes), "running");
      ir_.CreateStore(splat(k_, {k_.identity(op, type), false}, lanes), slot);
      slots.push_back(slot);
    }
    Scope inner(scope, false);
    for (size_t r = 0; r < slots.size(); ++r)
      inner.set_running(accumulator + static_cast<int>(r), slots[r], lanes > 1);
    row_loops(inner, rank_, axes_, [&](Scope& row) { emit_body(row, s.body); });
    inner.seek();
    scope.move_to(ir_.GetInsertBlock());
    for (size_t r = 0; r < slots.size(); ++r) {
      llvm::Type* type = k_.lane_type(s.running[r].second, lanes);
      scope.set_accumulator(accumulator + static_cast<int>(r),
                            {ir_.CreateLoad(type, slots[r]), lanes > 1});
    }
  }

  void row_stage(Scope& scope, const Stage& s, size_t number) {
    int accumulator = first_accumulator_[number];
    bool along = plan_.mode == LaneMode::row;
    if (s.reductions.empty()) {
      if (!along)
        return row_loops(scope, rank_, axes_, [&](Scope& row) { emit_body(row, s.body); });
      return row_loops(scope, rank_, axes_ - 1, [&](Scope& row) {
        Value* n = emit_expr(row, extent(axes_ - 1)).v;
        auto fill = [&](Scope& line) {
          line.seek();
          int work = static_cast<int>(s.body.instrs.size()) + arithmetic_count(s.body);
          lane_loop(line, axes_ - 1, k_.i64(0), n,
                    work <= 10   ? 4
                    : work <= 24 ? 2
                                 : 1,
                    {&s.body}, [&](Scope& lane) {
                      if (!lane.mask()) fetch_ahead(lane, number, 0);
                      emit_body(lane, s.body);
                    });
        };
        if (at_least_one(axes_ - 1)) return fill(row);
        emit_if(row, ir_.CreateICmpSGT(n, k_.i64(0)), fill);
      });
    }
    bool trees =
        std::any_of(s.reductions.begin(), s.reductions.end(), [](const auto& r) { return r.tree; });
    bool grouped = axes_ == rank_ + 1 ||
                   (extent(axes_ - 1).is_const() && extent(axes_ - 1).constant_value() % 64 == 0);
    RowShape shape;
    shape.total = extent_of(block_, rank_, axes_);
    shape.along_row = along && grouped && !trees;
    shape.by_partial = reads_by_partial(block_, s, plan_.mode);
    shape.lanes = shape.along_row ? plan_.lanes : scope.lanes();
    RowStage stage{s, number, shape, {}, nullptr}, ahead{ahead_, 0, shape, {}, nullptr};
    auto begin = [&](RowStage& one) {
      for (const atlas::Reduction& r : one.stage.reductions)
        one.reducers.push_back(Reducer::make(scope, r, shape));
    };
    begin(stage);
    if (plan_.carried && number == 1) {
      begin(ahead);
      stage.ahead = &ahead;
    }
    scope.seek();
    Value* count = shape.along_row    ? groups(scope, stage)
                   : shape.by_partial ? by_partial(scope, stage)
                                      : elements(scope, stage);
    auto carry = [&](size_t r, LaneValue value) {
      scope.seek();
      ir_.CreateStore(value.v, carried_[r]);
    };
    for (size_t r = 0; r < stage.reducers.size(); ++r) {
      LaneValue value = stage.reducers[r]->finish(scope, count);
      scope.set_accumulator(accumulator + static_cast<int>(r), value);
      if (plan_.carried && number == 0) carry(r, value);
    }
    for (size_t r = 0; r < ahead.reducers.size(); ++r)
      carry(r, ahead.reducers[r]->finish(scope, count));
    scope.seek();
  }

  struct RowStage {
    const Stage& stage;
    size_t number;
    RowShape shape;
    std::vector<std::unique_ptr<Reducer>> reducers;
    RowStage* ahead;  ///< runs along over the next point's row, or null
  };

  void update(Scope& scope, RowStage& stage, int copy, Value* position, Value* lanes_mask) {
    std::vector<LaneValue> values = emit_body(scope, stage.stage.body);
    for (size_t r = 0; r < stage.reducers.size(); ++r) {
      const atlas::Reduction& what = stage.stage.reductions[r];
      LaneValue reported = what.position == atlas::no_value ? LaneValue{} : values[what.position];
      stage.reducers[r]->update(scope, copy, values[what.value], reported, position, lanes_mask);
    }
  }

  void advance_all(Scope& scope, RowStage& stage, Value* count) {
    for (auto& r : stage.reducers) r->advance(scope, count);
    scope.seek();
  }

  /// Down a column each row element lies on a page of its own, which hardware does not foresee;
  /// `ahead` elements on is what will be read.
  void prefetch(Scope& row, const atlas::Body& body, int64_t ahead) {
    if (plan_.mode != LaneMode::parallel || row.lanes() == 1) return;
    for (const atlas::Instr& i : body.instrs) {
      if (i.code != atlas::Code::load ||
          i.expr.any_atom([](const Atom& a) { return a.kind == Atom::Kind::value; }))
        continue;
      auto step = i.expr.linear_in_axis(axes_ - 1);
      if (!step || step->first.is(0) || step->first.is(1)) continue;
      auto address = vector_address(row, i.buffer, i.expr + step->first * Expr(ahead));
      if (!address) continue;
      int64_t bytes =
          row.lanes() * size_of(k_.program.buffers[static_cast<size_t>(i.buffer)].dtype);
      for (int64_t line = 0; line < bytes; line += 64) {
        Value* at = ir_.CreateConstGEP1_64(ir_.getInt8Ty(), *address, static_cast<uint64_t>(line));
        ir_.CreateIntrinsic(Intrinsic::prefetch, {ir_.getPtrTy()},
                            {at, ir_.getInt32(0), ir_.getInt32(3), ir_.getInt32(1)});
      }
    }
  }

  /// One row element after the other; returns their number.
  Value* elements(Scope& scope, RowStage& stage) {
    llvm::AllocaInst* counter = k_.slot(ir_.getInt64Ty(), "position");
    ir_.CreateStore(k_.i64(0), counter);
    row_loops(scope, rank_, axes_, [&](Scope& row) {
      row.seek();
      Value* position = ir_.CreateLoad(ir_.getInt64Ty(), counter);
      prefetch(row, stage.stage.body, 16);
      update(row, stage, 0, position, nullptr);
      row.seek();
      Value* next = ir_.CreateAdd(position, k_.i64(1));
      ir_.CreateStore(next, counter);
      advance_all(row, stage, next);
    });
    scope.seek();
    return ir_.CreateLoad(ir_.getInt64Ty(), counter);
  }

  /// The elements of a single row axis, block by block and partial by partial; returns their
  /// number.
  Value* by_partial(Scope& scope, RowStage& stage) {
    constexpr int64_t block = 4096, partials = 64;
    Value* n = emit_expr(scope, extent(rank_)).v;
    scope.seek();
    bool some = at_least_one(rank_);
    int64_t last = some ? (extent(rank_).constant_value() - 1) % block + 1 : 0;
    emit_loop(scope, k_.i64(0), n, k_.i64(block), some, [&](Scope& outer, Value* base) {
      Value* end =
          ir_.CreateBinaryIntrinsic(Intrinsic::smin, ir_.CreateAdd(base, k_.i64(block)), n);
      emit_loop(outer, k_.i64(0), k_.i64(partials), k_.i64(1), true,
                [&](Scope& one, Value* number) {
                  for (auto& r : stage.reducers) r->begin_partial(one);
                  one.seek();
                  Value* reversed = ir_.CreateUnaryIntrinsic(
                      Intrinsic::bitreverse, ir_.CreateTrunc(number, ir_.getInt8Ty()));
                  Value* first = ir_.CreateZExt(ir_.CreateLShr(reversed, 2), ir_.getInt64Ty());
                  emit_loop(one, ir_.CreateAdd(base, first), end, k_.i64(partials),
                            last >= partials, [&](Scope& row, Value* i) {
                              if (some) row.make_certain();
                              row.set_axis(rank_, i);
                              prefetch(row, stage.stage.body, partials);
                              update(row, stage, 0, i, nullptr);
                              row.seek();
                            });
                  for (auto& r : stage.reducers) r->end_partial(one, number);
                  one.seek();
                });
      for (auto& r : stage.reducers) r->end_block(outer);
      outer.seek();
    });
    scope.seek();
    return n;
  }

  /// Vectors along the row, in groups of 64 elements; returns the number of elements.
  Value* groups(Scope& scope, RowStage& stage) {
    int axis = axes_ - 1;
    bool several = axes_ > rank_ + 1;
    llvm::AllocaInst* counter = several ? k_.slot(ir_.getInt64Ty(), "position") : nullptr;
    if (counter) ir_.CreateStore(k_.i64(0), counter);
    Value* total = nullptr;
    row_loops(scope, rank_, axis, [&](Scope& row) {
      Value* n = emit_expr(row, extent(axis)).v;
      row.seek();
      Value* before =
          counter ? static_cast<Value*>(ir_.CreateLoad(ir_.getInt64Ty(), counter)) : k_.i64(0);
      Value* whole = ir_.CreateAnd(n, k_.i64(-64));
      emit_loop(row, k_.i64(0), whole, k_.i64(64),
                at_least_one(axis) && extent(axis).constant_value() >= 64,
                [&](Scope& round, Value* i) {
                  // With a constant extent every element exists, or none does; the tail shares the
                  // invariants otherwise.
                  if (at_least_one(axis)) round.make_certain();
                  Value* position = ir_.CreateAdd(before, i);
                  group(round, stage, axis, i, position, nullptr);
                  Value* count = ir_.CreateAdd(position, k_.i64(64));
                  advance_all(round, stage, count);
                  if (stage.ahead) advance_all(round, *stage.ahead, count);
                });
      row.seek();
      if (counter) {
        ir_.CreateStore(ir_.CreateAdd(before, n), counter);
        return;
      }
      total = n;
      emit_if(row, ir_.CreateICmpSLT(whole, n), [&](Scope& rest) {
        group(rest, stage, axis, whole, whole, ir_.CreateSub(n, whole));
      });
    });
    scope.seek();
    return counter ? ir_.CreateLoad(ir_.getInt64Ty(), counter) : total;
  }

  /// The vectors of one group that begins at coordinate i; `left` (or null): how many of its
  /// elements exist.
  void group(Scope& scope, RowStage& stage, int axis, Value* i, Value* position, Value* left) {
    const int lanes = plan_.lanes;
    for (int c = 0; c < 64 / lanes; ++c) {
      auto vector = [&](Scope& s) {
        Scope copy(s, false);
        copy.set_axis(axis, c ? ir_.CreateAdd(i, k_.i64(c * lanes)) : i);
        Value* some =
            left ? mask(c ? ir_.CreateSub(left, k_.i64(c * lanes)) : left, lanes) : nullptr;
        copy.set_lanes(axis, lanes, some);
        if (!left) fetch_ahead(copy, stage.number, c);
        Value* where = c ? ir_.CreateAdd(position, k_.i64(c * lanes)) : position;
        update(copy, stage, c, where, some);
        if (stage.ahead) update(copy, *stage.ahead, c, where, some);
        copy.seek();
        s.move_to(ir_.GetInsertBlock());
      };
      if (left && c > 0)
        emit_if(scope, ir_.CreateICmpSGT(left, k_.i64(c * lanes)), vector);
      else
        vector(scope);
      scope.seek();
    }
  }

  Kernel& k_;
  llvm::IRBuilder<>& ir_;
  const atlas::LoopBlock& block_;
  LoopPlan plan_;
  int rank_, axes_;
  bool points_only_ = false;
  Stage ahead_;  ///< the first stage at the next point, where it is carried
  std::vector<llvm::AllocaInst*> carried_;         ///< what it came to, by reduction
  std::vector<std::vector<Prefetch>> prefetches_;  ///< by stage
  Value* large_ = nullptr;                         ///< whether the buffers exceed stream_bytes
  std::vector<int> first_accumulator_;
};

}  // namespace

void emit_loop_block(Kernel& k) { LoopEmitter(k).run(); }

}  // namespace hologram::codegen
