// backend/cpu/loops/prefetch.cpp: what each row stage fetches ahead of its use.
#include "backend/cpu/loops/prefetch.h"

#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <map>

#include "backend/cpu/cost.h"
#include "codegen/memory.h"

namespace hologram::cpu {

using atlas::Stage;
using atlas::StageKind;

namespace {

using atlas::Instr;
using atlas::ValueId;

// The instructions of a body that an index takes, and the index with their new numbers.
class Slice {
 public:
  explicit Slice(const atlas::Body& body) : body_(body) {}

  Expr take(const Expr& index) {
    return index.substitute([&](const Atom& a) -> std::optional<Expr> {
      if (a.kind != Atom::Kind::value) return std::nullopt;
      return Expr::value(static_cast<int>(take(static_cast<ValueId>(a.id))), take(*a.a));
    });
  }
  atlas::Body numbers;

 private:
  ValueId take(ValueId id) {
    if (auto known = taken_.find(id); known != taken_.end()) return known->second;
    Instr i = body_.instrs[id];
    for (ValueId& a : i.args)
      if (a != atlas::no_value) a = take(a);
    i.expr = take(i.expr);
    numbers.instrs.push_back(std::move(i));
    return taken_[id] = static_cast<ValueId>(numbers.instrs.size() - 1);
  }

  const atlas::Body& body_;
  std::map<ValueId, ValueId> taken_;
};

bool has_values(const Expr& e) {
  return e.any_atom([](const Atom& a) { return a.kind == Atom::Kind::value; });
}

}  // namespace

Prefetches::Prefetches(const LoopFrame& f) : f_(f) {
  constexpr int enough = 12;
  const int64_t ahead = f.k.target.processor->row_fetch;
  of_stage_.resize(f.block.stages.size());
  if (f.plan.mode != LaneMode::row) return;
  find_gathers();
  auto fetch = [&](size_t stage, const Instr& i, int64_t bytes, bool write = false) {
    const Expr there = i.expr + Expr(bytes / f.element_bytes(i.buffer));
    if (bytes > 0) of_stage_[stage].push_back({i.buffer, there, 3, write});
  };
  std::vector<std::pair<int, Expr>> seen;
  if (f.plan.carried) {
    for (const atlas::Instr& i : f.ahead.body.instrs) {
      auto step = i.expr.linear_in_axis(f.axes - 1);
      if (i.code == atlas::Code::load && step && step->first.is(1)) fetch(1, i, 2 * ahead);
    }
    for (const atlas::Instr& i : f.block.stages[0].body.instrs)
      if (i.code == atlas::Code::load) seen.emplace_back(i.buffer, i.expr);
  }
  auto work = [](const Stage& s) {
    return s.kind == StageKind::row ? arithmetic_count(s.body) : -1;
  };
  size_t busiest = 0;
  for (size_t n = 0; n < f.block.stages.size(); ++n)
    if (work(f.block.stages[n]) > work(f.block.stages[busiest])) busiest = n;
  bool busy = work(f.block.stages[busiest]) >= enough;
  for (size_t n = 0; n < f.block.stages.size(); ++n) {
    if (f.block.stages[n].kind != StageKind::row || f.plan.two_rows) continue;
    for (const atlas::Instr& i : f.block.stages[n].body.instrs) {
      bool load = i.code == atlas::Code::load, store = i.code == atlas::Code::store;
      if (!load && !store) continue;
      const atlas::Buffer& b = f.k.program.buffers[static_cast<size_t>(i.buffer)];
      auto step = i.expr.linear_in_axis(f.axes - 1);
      if (b.access == atlas::Access::scratch || !step || !step->first.is(1) || has_values(i.expr) ||
          std::find(seen.begin(), seen.end(), std::pair(i.buffer, i.expr)) != seen.end())
        continue;
      seen.emplace_back(i.buffer, i.expr);
      if (store) {
        if (busy && n > busiest) of_stage_[busiest].push_back({i.buffer, i.expr, 2});
        if (f.plan.carried && n == 1) fetch(n, i, ahead, true);
      } else if (!busy) {
        fetch(n, i, ahead);
      } else if (f.rank > 0) {
        int last = f.rank - 1;
        auto next = [&](const Atom& a) -> std::optional<Expr> {
          if (a.kind != Atom::Kind::axis || a.id != last) return std::nullopt;
          return Expr::axis(last, f.extent(last)) + Expr(1);
        };
        if (i.expr.has_axis(last))
          of_stage_[busiest].push_back({i.buffer, i.expr.substitute(next), 2});
      }
    }
  }
  // The last row's last stage runs by itself behind all rows, where nothing follows and no row is.
  if (f.plan.trailing) of_stage_[2].clear();
}

void prefetch_down(const LoopFrame& f, Scope& row, const atlas::Body& body, int64_t ahead) {
  if (row.lanes() == 1) return;
  llvm::IRBuilder<>& ir = f.k.ir;
  for (const atlas::Instr& i : body.instrs) {
    if (i.code != atlas::Code::load || has_values(i.expr)) continue;
    auto step = i.expr.linear_in_axis(f.axes - 1);
    if (!step || step->first.is(0) || step->first.is(1)) continue;
    auto address = vector_address(row, i.buffer, i.expr + step->first * Expr(ahead));
    if (!address) continue;
    int64_t bytes = row.lanes() * f.element_bytes(i.buffer);
    for (int64_t line = 0; line < bytes; line += 64) {
      Value* at = ir.CreateConstGEP1_64(ir.getInt8Ty(), *address, static_cast<uint64_t>(line));
      ir.CreateIntrinsic(llvm::Intrinsic::prefetch, {ir.getPtrTy()},
                         {at, ir.getInt32(0), ir.getInt32(3), ir.getInt32(1)});
    }
  }
}

void Prefetches::emit(Scope& scope, size_t number, int offset) const {
  llvm::IRBuilder<>& ir = f_.k.ir;
  for (const Prefetch& p : of_stage_[number]) {
    int64_t bytes = scope.lanes() * f_.element_bytes(p.buffer);
    if (scope.lanes() == 1 || offset * bytes % 64 != 0) continue;
    auto address = vector_address(scope, p.buffer, p.index);
    for (int64_t line = 0; address && line < bytes; line += 64)
      ir.CreateIntrinsic(
          llvm::Intrinsic::prefetch, {ir.getPtrTy()},
          {ir.CreateConstGEP1_64(ir.getInt8Ty(), *address, static_cast<uint64_t>(line)),
           ir.getInt32(p.write ? 1 : 0), ir.getInt32(static_cast<uint32_t>(p.locality)),
           ir.getInt32(1)});
  }
}

// Whether an instruction gives the same at any time of the kernel's run: nothing that it computes.
bool Prefetches::known_before(const Instr& i) const {
  if (i.code == atlas::Code::load)
    return f_.k.program.buffers[static_cast<size_t>(i.buffer)].access == atlas::Access::read;
  return i.code != atlas::Code::accumulator && i.code != atlas::Code::accumulate;
}

void Prefetches::find_gathers() {
  constexpr int64_t most = 4096;  // bytes of a row
  int row = f_.axes - 1;
  if (f_.rank == 0 || f_.axes != f_.rank + 1 || !f_.extent(row).is_const()) return;
  for (const Stage& s : f_.block.stages)
    for (const Instr& i : s.body.instrs) {
      if (i.code != atlas::Code::load || i.args[0] != atlas::no_value || !has_values(i.expr))
        continue;
      const atlas::Buffer& b = f_.k.program.buffers[static_cast<size_t>(i.buffer)];
      int64_t size = f_.element_bytes(i.buffer), bytes = f_.extent(row).constant_value() * size;
      auto step = i.expr.linear_in_axis(row);
      if (b.access != atlas::Access::read || !step || !step->first.is(1) || bytes > most ||
          (b.extent.is_const() && b.extent.constant_value() * size < cost::distant))
        continue;
      Slice slice(s.body);
      Expr index = slice.take(step->second);
      bool early = !index.has_axis(row) && slice.numbers.instrs.size() <= 16;
      bool by_point = index.has_axis(f_.rank - 1);
      for (const Instr& n : slice.numbers.instrs) {
        early = early && !n.expr.has_axis(row) && known_before(n);
        by_point = by_point || n.expr.has_axis(f_.rank - 1);
      }
      if (by_point && early) gathers_.push_back({std::move(slice.numbers), i.buffer, index, bytes});
    }
}

void Prefetches::emit_gathered(Scope& scope) const {
  constexpr int64_t points = 4, line = 64;
  llvm::IRBuilder<>& ir = f_.k.ir;
  int last = f_.rank - 1;
  for (const Gather& g : gathers_) {
    Value* here = emit_expr(scope, Expr::axis(last, f_.extent(last))).v;
    Value* end = emit_expr(scope, f_.extent(last)).v;
    Scope ahead(scope, false);
    ahead.seek();
    Value* there =
        ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, ir.CreateAdd(here, f_.k.i64(points)),
                                 ir.CreateSub(end, f_.k.i64(1)));
    ahead.set_axis(last, there);
    std::vector<LaneValue> numbers = emit_body(ahead, g.numbers);
    Value* index = emit_expr(ahead, g.index, &numbers).v;
    ahead.seek();
    Value* row =
        ir.CreateGEP(f_.k.memory_type(f_.k.program.buffers[static_cast<size_t>(g.buffer)].dtype),
                     f_.k.buffer(g.buffer), index);
    for (int64_t at = 0; at < g.bytes; at += line)
      ir.CreateIntrinsic(llvm::Intrinsic::prefetch, {ir.getPtrTy()},
                         {ir.CreateConstGEP1_64(ir.getInt8Ty(), row, static_cast<uint64_t>(at)),
                          ir.getInt32(0), ir.getInt32(2), ir.getInt32(1)});
    scope.seek();
  }
}

}  // namespace hologram::cpu
