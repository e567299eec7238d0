// codegen/loop_prefetch.cpp: what each row stage fetches ahead of its use.
#include "codegen/loop_prefetch.h"

#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "codegen/memory.h"

namespace hologram::codegen {

using atlas::Stage;
using atlas::StageKind;

Prefetches::Prefetches(const LoopFrame& f) : f_(f) {
  constexpr int enough = 12;
  constexpr int64_t ahead = 2048;
  of_stage_.resize(f.block.stages.size());
  if (f.plan.mode != LaneMode::row) return;
  std::vector<std::pair<int, Expr>> seen;
  if (f.plan.carried) {
    for (const atlas::Instr& i : f.ahead.body.instrs) {
      auto step = i.expr.linear_in_axis(f.axes - 1);
      if (i.code != atlas::Code::load || !step || !step->first.is(1)) continue;
      int64_t size = f.element_bytes(i.buffer);
      of_stage_[1].push_back({i.buffer, i.expr + Expr(2 * ahead / size), 3});
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
    if (f.block.stages[n].kind != StageKind::row) continue;
    for (const atlas::Instr& i : f.block.stages[n].body.instrs) {
      bool load = i.code == atlas::Code::load, store = i.code == atlas::Code::store;
      if (!load && !store) continue;
      const atlas::Buffer& b = f.k.program.buffers[static_cast<size_t>(i.buffer)];
      auto step = i.expr.linear_in_axis(f.axes - 1);
      if (b.access == atlas::Access::scratch || !step || !step->first.is(1) ||
          i.expr.any_atom([](const Atom& a) { return a.kind == Atom::Kind::value; }) ||
          std::find(seen.begin(), seen.end(), std::pair(i.buffer, i.expr)) != seen.end())
        continue;
      seen.emplace_back(i.buffer, i.expr);
      if (store) {
        if (busy && n > busiest) of_stage_[busiest].push_back({i.buffer, i.expr, 2});
        if (f.plan.carried && n == 1)
          of_stage_[n].push_back(
              {i.buffer, i.expr + Expr(ahead / f.element_bytes(i.buffer)), 3, true});
      } else if (!busy) {
        of_stage_[n].push_back({i.buffer, i.expr + Expr(ahead / f.element_bytes(i.buffer)), 3});
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
}

void Prefetches::emit(Scope& scope, size_t number, int offset) const {
  llvm::IRBuilder<>& ir = f_.k.ir;
  for (const Prefetch& p : of_stage_[number]) {
    int64_t bytes = scope.lanes() * f_.element_bytes(p.buffer);
    if (scope.lanes() == 1 || offset * bytes % 64 != 0) continue;
    if (auto address = vector_address(scope, p.buffer, p.index))
      ir.CreateIntrinsic(llvm::Intrinsic::prefetch, {ir.getPtrTy()},
                         {*address, ir.getInt32(p.write ? 1 : 0),
                          ir.getInt32(static_cast<uint32_t>(p.locality)), ir.getInt32(1)});
  }
}

}  // namespace hologram::codegen
