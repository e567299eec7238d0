// backend/cuda/loops/scatter.cpp: rows whose elements go to places that they name, in order.
//
// Each warp owns the places whose hash falls to it. It looks at all indices of a row, 32 at a time,
// one a lane, and handles the elements that go to its places: one after the other, lanes along the
// columns; or, of few columns, all 32 at once, but for those that go to one place, which take
// turns. So sums have the order of the row, without atomic operations and without a sort.
#include "backend/cuda/loops/scatter.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>
#include <set>

#include "backend/cuda/loops/points.h"
#include "backend/cuda/warp.h"
#include "codegen/nest.h"
#include "gpu/loops.h"
#include "gpu/points.h"

namespace hologram::cuda {
namespace {

namespace Intrinsic = llvm::Intrinsic;
using atlas::Code;
using atlas::Instr;
using atlas::ValueId;

constexpr int64_t serial_rows = 32;  // so many elements at most are one thread's
constexpr int64_t few_columns = 8;   // fewer than this leave most lanes idle
constexpr int threads = 256, warps = threads / 32;
constexpr int64_t group_columns = 128;  // that a CTA takes
constexpr int looks = 4;                // of 32 indices each, which are on their way together

// The value that `e` is linear in, with no other one anywhere.
std::optional<ValueId> place_in(const Expr& e) {
  std::optional<ValueId> found;
  for (const Term& t : e.terms())
    for (const AtomRef& a : t.atoms) {
      if (a->kind != Atom::Kind::value) {
        if (!a->is_leaf() && Expr::from_terms(0, {{1, {a}}}).any_atom([](const Atom& inner) {
              return inner.kind == Atom::Kind::value;
            }))
          return std::nullopt;
        continue;
      }
      const auto id = static_cast<ValueId>(a->id);
      if (found) return std::nullopt;  // of a square, or of two places
      found = id;
    }
  return found;
}

// Which instructions `id` needs, itself too.
void need(const atlas::Body& body, ValueId id, std::set<ValueId>& needed) {
  if (!needed.insert(id).second) return;
  const Instr& i = body.instrs[id];
  for (ValueId a : i.args)
    if (a != atlas::no_value) need(body, a, needed);
  i.expr.unbounded().any_atom([&](const Atom& a) {
    if (a.kind == Atom::Kind::value) need(body, static_cast<ValueId>(a.id), needed);
    return false;
  });
}

bool is_serial(const atlas::LoopBlock& b) {
  return b.stages.size() == 1 && b.stages[0].kind == atlas::StageKind::serial_row &&
         b.stages[0].running.empty() && b.stages[0].reductions.empty() &&
         std::ranges::none_of(b.axes, [](const atlas::Axis& a) { return a.extent.has_axes(); });
}

bool has_row_axis(const atlas::LoopBlock& b, const Expr& e) {
  for (size_t a = static_cast<size_t>(b.parallel_rank); a < b.axes.size(); ++a)
    if (e.has_axis(static_cast<int>(a))) return true;
  return false;
}

// The stage's only store, where nothing else of its buffer is read than what it overwrites.
const Instr* only_store(const atlas::Body& body) {
  const Instr* store = nullptr;
  for (const Instr& i : body.instrs) {
    if (i.code != Code::store) continue;
    if (store) return nullptr;
    store = &i;
  }
  for (const Instr& i : body.instrs)
    if (store && i.code == Code::load && i.buffer == store->buffer && !(i.expr == store->expr))
      return nullptr;
  return store;
}

class ScatterEmitter {
 public:
  ScatterEmitter(CudaFunction& k, const ScatterPlan& plan)
      : k_(k),
        ir_(k.ir),
        block_(k.program.loop()),
        body_(block_.stages[0].body),
        plan_(plan),
        lane_(ir_.CreateAnd(k.thread(), 31)) {}

  void run() {
    Scope& root = k_.root();
    Value* point = ir_.CreateZExt(k_.cta(), word());
    Value* part = ir_.CreateURem(point, k_.teams());
    point = ir_.CreateUDiv(point, k_.teams());
    Value* warp = ir_.CreateZExt(ir_.CreateLShr(k_.thread(), 5), word());
    owner_ = ir_.CreateAdd(ir_.CreateMul(part, k_.i64(warps)), warp);
    owners_ = ir_.CreateMul(k_.teams(), k_.i64(warps));
    rows_ = emit_expr(root, plan_.rows).v;
    width_ = emit_expr(root, plan_.width).v;
    root.seek();
    first_column_ = k_.i64(0), end_column_ = width_;
    if (!plan_.by_rows) point = choose_columns(point);
    fix_axes(root, block_.axes, plan_.points, point);
    root.seek();
    emit_loop(root, k_.i64(0), rows_, k_.i64(32 * looks), false,
              [&](Scope& scope, Value* base) { look(scope, base); });
    root.seek();
    k_.finish();
  }

 private:
  struct Look {
    Value *row, *place, *mine;  // of this lane's element: place modulo 2^32, whether it is owned
  };

  llvm::Type* word() { return ir_.getInt64Ty(); }
  Value* members() { return ir_.getInt32(~0u); }

  Value* choose_columns(Value* point) {
    Value* groups = emit_expr(k_.root(), ceil_div(plan_.width, Expr(group_columns))).v;
    k_.root().seek();
    Value* group = ir_.CreateURem(point, groups);
    first_column_ = ir_.CreateMul(group, k_.i64(group_columns));
    end_column_ = ir_.CreateBinaryIntrinsic(Intrinsic::smin, width_,
                                            ir_.CreateAdd(first_column_, k_.i64(group_columns)));
    return ir_.CreateUDiv(point, groups);
  }

  void fix_row(Scope& scope, Value* row) {
    fix_axes(scope, block_.axes, block_.parallel_rank, static_cast<int>(block_.axes.size()), row);
  }

  void look(Scope& scope, Value* base) {
    std::vector<Look> found;
    for (int n = 0; n < looks; ++n) found.push_back(probe(scope, base, n));
    scope.seek();
    for (const Look& l : found) {
      Value* ballot =
          ir_.CreateIntrinsic(Intrinsic::nvvm_vote_ballot_sync, {}, {members(), l.mine});
      plan_.by_rows ? take_together(scope, l, ballot) : take_in_turn(scope, l, ballot);
      scope.seek();
    }
  }

  // What is beyond the row's end looks at its last element, and owns nothing.
  Look probe(Scope& scope, Value* base, int number) {
    scope.seek();
    Value* row = ir_.CreateAdd(ir_.CreateAdd(base, k_.i64(32 * number)), wide(lane_));
    Value* exists = ir_.CreateICmpSLT(row, rows_);
    Value* last = ir_.CreateSub(rows_, k_.i64(1));
    row = ir_.CreateBinaryIntrinsic(Intrinsic::smin, row, last);
    Scope copy(scope, false);
    copy.set_lanes(-1, 1, exists);
    fix_row(copy, row);
    Value* place = ir_.CreateTrunc(emit_body(copy, plan_.probe)[plan_.place].v, ir_.getInt32Ty());
    copy.seek();
    scope.move_to(ir_.GetInsertBlock());
    Value* hash = wide(ir_.CreateMul(place, ir_.getInt32(0x9e3779b1)));
    Value* owner = ir_.CreateLShr(ir_.CreateMul(hash, owners_), 32);
    return {row, place, ir_.CreateAnd(exists, ir_.CreateICmpEQ(owner, owner_))};
  }

  Value* wide(Value* v) { return ir_.CreateZExt(v, word()); }

  // A lane has the same columns of all elements, so its own order is enough.
  void take_in_turn(Scope& scope, const Look& look, Value* ballot) {
    Value* count = wide(ir_.CreateUnaryIntrinsic(Intrinsic::ctpop, ballot));
    emit_loop(scope, k_.i64(0), count, k_.i64(1), false, {ballot},
              [&](Scope& one, Value*, std::vector<Value*> now) -> std::vector<Value*> {
                one.seek();
                Value* first = ir_.CreateIntrinsic(Intrinsic::cttz, {ir_.getInt32Ty()},
                                                   {now[0], ir_.getTrue()});
                fix_row(one, shuffle(ir_, look.row, first, false));
                one.seek();
                Value* from = ir_.CreateAdd(first_column_, wide(lane_));
                columns(one, from, 32);
                one.seek();
                return {ir_.CreateAnd(now[0], ir_.CreateSub(now[0], ir_.getInt32(1)))};
              });
  }

  // Of the elements that go to one place, a lane's turn is the number of those before its own.
  void take_together(Scope& scope, const Look& look, Value* ballot) {
    emit_if(scope, ir_.CreateICmpNE(ballot, ir_.getInt32(0)), [&](Scope& some) {
      some.seek();
      Value* same =
          ir_.CreateIntrinsic(Intrinsic::nvvm_match_any_sync_i32, {}, {members(), look.place});
      Value* lower = ir_.CreateSub(ir_.CreateShl(ir_.getInt32(1), lane_), ir_.getInt32(1));
      Value* before = ir_.CreateAnd(ir_.CreateAnd(same, ballot), lower);
      Value* turn = ir_.CreateUnaryIntrinsic(Intrinsic::ctpop, before);
      Value* turns =
          ir_.CreateSelect(look.mine, ir_.CreateAdd(turn, ir_.getInt32(1)), ir_.getInt32(0));
      for (uint32_t distance = 16; distance > 0; distance /= 2)
        turns = ir_.CreateBinaryIntrinsic(Intrinsic::umax, turns,
                                          shuffle(ir_, turns, ir_.getInt32(distance), true));
      emit_loop(some, k_.i64(0), wide(turns), k_.i64(1), false, [&](Scope& round, Value* now) {
        round.seek();
        Value* mine = ir_.CreateAnd(look.mine, ir_.CreateICmpEQ(wide(turn), now));
        emit_if(round, mine, [&](Scope& one) {
          one.seek();
          fix_row(one, look.row);
          columns(one, k_.i64(0), 1);
        });
        round.seek();
        sync_warp(ir_);  // the next one of a place reads what this one wrote
      });
    });
  }

  void columns(Scope& row, Value* from, int64_t step) {
    row.seek();
    if (plan_.columns.empty()) {
      emit_if(row, ir_.CreateICmpSLT(from, end_column_),
              [&](Scope& one) { emit_body(one, body_); });
      return;
    }
    emit_loop(row, from, end_column_, k_.i64(step), false, [&](Scope& one, Value* column) {
      fix_axes(one, block_.axes, plan_.columns, column);
      emit_body(one, body_);
    });
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  const atlas::LoopBlock& block_;
  const atlas::Body& body_;
  const ScatterPlan& plan_;
  Value* lane_;
  Value *owner_ = nullptr, *owners_ = nullptr, *rows_ = nullptr, *width_ = nullptr;
  Value *first_column_ = nullptr, *end_column_ = nullptr;
};

}  // namespace

std::optional<ScatterPlan> plan_scatter(const atlas::Program& program) {
  const atlas::LoopBlock& b = program.loop();
  if (!is_serial(b) || CudaFunction::has_scratch(program)) return std::nullopt;
  const atlas::Body& body = b.stages[0].body;
  ScatterPlan plan;
  plan.rows = gpu::row_of(b);
  plan.width = Expr(1);
  if (gpu::at_most(plan.rows, serial_rows)) return std::nullopt;
  const Instr* store = only_store(body);
  if (!store) return std::nullopt;
  const Expr to = store->expr.unbounded();
  const std::optional<ValueId> place = place_in(to);
  if (!place || has_row_axis(b, to) || body.instrs[*place].code != Code::clamp_index)
    return std::nullopt;
  plan.place = *place;
  std::set<ValueId> needed;
  need(body, plan.place, needed);
  plan.probe = body;
  for (ValueId id = 0; id < body.instrs.size(); ++id) {
    const Instr& i = body.instrs[id];
    if (needed.contains(id)) {
      if (i.code == Code::load && i.buffer == store->buffer) return std::nullopt;
      continue;
    }
    Instr& dropped = plan.probe.instrs[id] = Instr();
    dropped.code = Code::constant;
  }
  for (int a = 0; a < b.parallel_rank; ++a) {
    const bool names = std::ranges::any_of(
        needed, [&](ValueId id) { return body.instrs[id].expr.unbounded().has_axis(a); });
    (names ? plan.points : plan.columns).push_back(a);
    if (!names) plan.width *= gpu::points_of(b.axes, a, a + 1);
  }
  plan.by_rows = plan.width.is_const() && plan.width.constant_value() < few_columns;
  return plan;
}

Facts scatter_facts(const atlas::Program& program, const ScatterPlan& plan) {
  Facts facts;
  facts.total = plan.by_rows ? Expr(1) : ceil_div(plan.width, Expr(group_columns));
  for (int a : plan.points) facts.total *= gpu::points_of(program.loop().axes, a, a + 1);
  facts.threads = threads;
  facts.points = 1;
  facts.parts = max(ceil_div(plan.rows, Expr(32)), Expr(1));
  return facts;
}

void emit_scatter(CudaFunction& k, const ScatterPlan& plan) { ScatterEmitter(k, plan).run(); }

}  // namespace hologram::cuda
