// backend/cuda/loops/points.cpp: loops of points alone: a thread for each.
#include "backend/cuda/loops/points.h"

#include <algorithm>
#include <numeric>

#include "codegen/index.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

constexpr size_t most_widened = 48;  // instructions of bodies that a thread runs on several points

}  // namespace

void fix_axes(Scope& scope, std::span<const atlas::Axis> axes, std::span<const int> which,
              Value* number) {
  CudaFunction& k = static_cast<CudaFunction&>(scope.function());
  Expr rest(1);  // how many numbers there are
  for (int a : which) rest *= axes[static_cast<size_t>(a)].extent;
  for (size_t n = which.size(); n-- > 1;) {
    const Expr& extent = axes[static_cast<size_t>(which[n])].extent;
    Value* size = emit_expr(scope, extent).v;
    scope.seek();
    const Expr number_known = rest.is_const() ? Expr::axis(0, rest) : Expr::symbol(0);
    Value* q = emit_floor_div(k, number, size, number_known, extent);
    scope.set_axis(which[n], k.ir.CreateSub(number, k.ir.CreateMul(q, size)));
    number = q;
    if (rest.is_const()) rest = floor_div(rest, max(extent, Expr(1)));
  }
  if (!which.empty()) scope.set_axis(which[0], number);
}

void fix_axes(Scope& scope, std::span<const atlas::Axis> axes, int first, int last, Value* number) {
  std::vector<int> which(static_cast<size_t>(std::max(last - first, 0)));
  std::iota(which.begin(), which.end(), first);
  fix_axes(scope, axes, which, number);
}

Value* take_last(Scope& scope, Value*& rest, const Expr& count) {
  CudaFunction& k = static_cast<CudaFunction&>(scope.function());
  if (count.is(1)) return k.i64(0);
  Value* size = emit_expr(scope, count).v;
  scope.seek();
  Value* q = emit_floor_div(k, rest, size, Expr::symbol(0), count);
  Value* last = k.ir.CreateSub(rest, k.ir.CreateMul(q, size));
  rest = q;
  return last;
}

int neighbours_of(const atlas::Program& program) {
  const atlas::LoopBlock& block = program.loop();
  const int last = block.parallel_rank - 1;
  if (last < 0 || block.lane_axis != last) return 1;
  int64_t bytes = 0;  // of the widest element among those that lie beside each other
  size_t instructions = 0;
  for (const atlas::Stage& s : block.stages) {
    instructions += s.body.instrs.size();
    for (const atlas::Instr& i : s.body.instrs) {
      if (i.code != atlas::Code::load && i.code != atlas::Code::store) continue;
      const auto along = i.expr.linear_in_axis(last);
      if (along && along->first.is(1))
        bytes =
            std::max<int64_t>(bytes, size_of(program.buffers[static_cast<size_t>(i.buffer)].dtype));
    }
  }
  const Expr& extent = block.axes[static_cast<size_t>(last)].extent;
  const int count = bytes == 0 ? 1 : static_cast<int>(std::clamp<int64_t>(16 / bytes, 1, 8));
  const bool few = extent.is_const() && extent.constant_value() < 4 * count;
  return few || instructions > most_widened ? 1 : count;
}

namespace {

// All stages at the points that `point` fixes.
void emit_stages(Scope& point, const atlas::LoopBlock& block) {
  for (const atlas::Stage& s : block.stages) emit_body(point, s.body);
}

// The thread's neighbours as one vector or, where the row ends before the last of them, one by one.
void emit_neighbours(CudaFunction& k, Scope& share, const atlas::LoopBlock& block, Value* number,
                     int neighbours) {
  const int last = block.parallel_rank - 1;
  std::vector<atlas::Axis> axes(block.axes.begin(), block.axes.begin() + last + 1);
  const Expr extent = axes.back().extent;
  axes.back().extent = ceil_div(extent, Expr(neighbours));
  Value* count = emit_expr(share, axes.back().extent).v;
  share.seek();
  Value* row = emit_floor_div(k, number, count, Expr::symbol(0), axes.back().extent);
  Value* first =
      k.ir.CreateMul(k.ir.CreateSub(number, k.ir.CreateMul(row, count)), k.i64(neighbours));
  fix_axes(share, axes, 0, last, row);
  Value* size = emit_expr(share, extent).v;
  share.seek();
  Value* end = k.ir.CreateAdd(first, k.i64(neighbours));
  Value* whole = k.ir.CreateICmpSLE(end, size);
  emit_if(share, whole, [&](Scope& point) {
    point.set_axis(last, first);
    point.set_lanes(last, neighbours);
    emit_stages(point, block);
  });
  share.seek();
  Value* from = k.ir.CreateSelect(whole, size, first);
  emit_loop(share, from, size, k.i64(1), false, [&](Scope& point, Value* at) {
    point.set_axis(last, at);
    emit_stages(point, block);
  });
}

}  // namespace

void emit_points(CudaFunction& k, const Facts& facts, int neighbours) {
  auto& ir = k.ir;
  Value* first = ir.CreateMul(ir.CreateZExt(k.cta(), ir.getInt64Ty()), k.i64(facts.threads));
  Value* number = ir.CreateAdd(first, ir.CreateZExt(k.thread(), ir.getInt64Ty()));
  const atlas::LoopBlock& block = k.program.loop();
  emit_if(k.root(), ir.CreateICmpSLT(number, k.total()), [&](Scope& share) {
    if (neighbours > 1) return emit_neighbours(k, share, block, number, neighbours);
    fix_axes(share, block.axes, 0, block.parallel_rank, number);
    emit_stages(share, block);
  });
  k.root().seek();
  k.finish();
}

}  // namespace hologram::cuda
