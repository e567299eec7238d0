// backend/cpu/operands/runs.cpp: operand bodies whose index along an axis is taken apart (windows
// of an image).
//
// The innermost level is contiguous, so a row of windows is a few vector copies; a guard (padding)
// is the same for a whole run and selects an address, not lanes.
#include "backend/cpu/operands/runs.h"

#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <functional>

#include "codegen/nest.h"

namespace hologram::cpu {
namespace {

// The largest constant below `extent` by which something of the body divides the axis whole.
int64_t divisor_of(const atlas::Body& body, int axis, int64_t extent) {
  int64_t found = 0;
  for (const atlas::Instr& i : body.instrs)
    i.expr.any_atom([&](const Atom& a) {
      if (a.kind != Atom::Kind::floor_div && a.kind != Atom::Kind::mod) return false;
      const Atom* x = a.a->as_atom();
      if (!x || x->kind != Atom::Kind::axis || x->id != axis || !a.b->is_const()) return false;
      int64_t d = a.b->constant_value();
      if (d > 1 && d < extent && extent % d == 0) found = std::max(found, d);
      return false;
    });
  return found;
}

void replace_axis(atlas::Body& body, int axis, const Expr& by) {
  for (atlas::Instr& i : body.instrs)
    i.expr = i.expr.substitute([&](const Atom& a) -> std::optional<Expr> {
      return a.kind == Atom::Kind::axis && a.id == axis ? std::optional(by) : std::nullopt;
    });
}

}  // namespace

std::optional<SplitBody> split_axis(const atlas::Body& body, int axis, const Expr& extent,
                                    int next_axis) {
  if (!extent.is_const()) return std::nullopt;
  SplitBody out{body, {}};
  int64_t size = extent.constant_value();
  while (int64_t d = divisor_of(out.body, axis, size)) {
    Expr outer = Expr::axis(next_axis, Expr(size / d)), inner = Expr::axis(next_axis + 1, Expr(d));
    replace_axis(out.body, axis, outer * Expr(d) + inner);
    out.levels.push_back({next_axis, size / d, d});
    axis = next_axis + 1;
    next_axis += 2;
    size = d;
  }
  if (out.levels.empty()) return std::nullopt;
  out.levels.push_back({axis, size, 1});
  return out;
}

std::optional<atlas::Body> block_axis(const atlas::Body& body, int axis, const Expr& extent,
                                      int lanes, int next_axis) {
  bool some = false, whole = true;
  atlas::Body out = body;
  Expr group = Expr::axis(next_axis, ceil_div(extent, Expr(lanes))),
       lane = Expr::axis(next_axis + 1, Expr(lanes)), all = group * Expr(lanes) + lane;
  for (atlas::Instr& i : out.instrs)
    i.expr = i.expr.substitute([&](const Atom& a) -> std::optional<Expr> {
      if (a.kind == Atom::Kind::axis && a.id == axis) return all;
      if (a.kind != Atom::Kind::floor_div && a.kind != Atom::Kind::mod) return std::nullopt;
      const Atom* x = a.a->as_atom();
      if (!x || x->kind != Atom::Kind::axis || x->id != axis) {
        // Anything else than the axis itself would have to be looked into.
        bool direct = x && (x->kind == Atom::Kind::floor_div || x->kind == Atom::Kind::mod);
        whole = whole && (direct || !a.a->has_axis(axis));
        return std::nullopt;
      }
      if (!a.b->is_const() || a.b->constant_value() % lanes != 0) {
        whole = false;
        return std::nullopt;
      }
      some = true;
      Expr by(a.b->constant_value() / lanes);
      if (a.kind == Atom::Kind::floor_div) return floor_div(group, by);
      return mod(group, by) * Expr(lanes) + lane;
    });
  return some && whole ? std::optional(std::move(out)) : std::nullopt;
}

void gather_runs(Scope& scope, const SplitBody& split, DType from, DType to, int lanes,
                 Value* out) {
  CpuFunction& k = function_of(scope);
  Operand operand{split.body, from, to, lanes};
  std::function<void(Scope&, size_t, Value*)> nest = [&](Scope& s, size_t level, Value* at) {
    const Level& l = split.levels[level];
    if (level + 1 == split.levels.size())
      return operand.gather(s, {l.axis, k.i64(0), k.i64(l.extent)}, at);
    emit_loop(s, k.i64(0), k.i64(l.extent), k.i64(1), true, [&](Scope& inner, Value* i) {
      inner.set_axis(l.axis, i);
      inner.seek();
      nest(inner, level + 1, element(k, to, at, k.ir.CreateNSWMul(i, k.i64(l.stride))));
    });
  };
  nest(scope, 0, out);
}

void gather_part(Scope& scope, const SplitBody& split, DType from, DType to, int lanes,
                 Value* begin, Value* count, Value* out) {
  CpuFunction& k = function_of(scope);
  auto& ir = k.ir;
  Operand operand{split.body, from, to, lanes};
  const Level& inside = split.levels.back();
  scope.seek();
  Value *size = k.i64(inside.extent), *end = ir.CreateNSWAdd(begin, count);
  Value* first = ir.CreateUDiv(begin, size);
  Value* last = ir.CreateUDiv(ir.CreateNSWSub(end, k.i64(1)), size);
  emit_loop(
      scope, first, ir.CreateNSWAdd(last, k.i64(1)), k.i64(1), true, [&](Scope& s, Value* run) {
        s.seek();
        Value* at = run;  // among the runs of a level and all outside it
        for (size_t level = split.levels.size() - 1; level-- > 0;) {
          const Level& l = split.levels[level];
          s.set_axis(l.axis, level ? ir.CreateURem(at, k.i64(l.extent)) : at);
          at = ir.CreateUDiv(at, k.i64(l.extent));
        }
        Value* origin = ir.CreateNSWMul(run, size);
        Value* low = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, origin, begin);
        Value* high =
            ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, ir.CreateNSWAdd(origin, size), end);
        Value* to_run = element(k, to, out, ir.CreateNSWSub(low, begin));
        operand.gather(s, {inside.axis, ir.CreateNSWSub(low, origin), ir.CreateNSWSub(high, low)},
                       to_run);
      });
}

}  // namespace hologram::cpu
