// backend/cpu/loops/plan.cpp: how a loop block is cut into lanes.
#include "backend/cpu/loops/plan.h"
#include "atlas/order.h"
#include "atlas/rewriting.h"
#include "backend/cpu/cost.h"
#include "backend/cpu/loops/columns_plan.h"
#include "backend/cpu/loops/ranges.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>

namespace hologram::cpu {

using atlas::Code;
using atlas::Instr;
using atlas::Stage;
using atlas::StageKind;

std::vector<bool> computed_once(const atlas::Body& body, int axis) {
  std::vector<bool> once;
  for (const Instr& i : body.instrs) {
    const bool value = i.code == Code::constant || i.code == Code::arithmetic ||
                       i.code == Code::load || i.code == Code::lookup ||
                       (axis >= 0 && i.code == Code::accumulator);
    const bool fixed = !i.expr.any_atom([](const Atom& a) { return a.kind == Atom::Kind::value; });
    once.push_back(value && fixed && !(axis < 0 ? i.expr.has_axes() : i.expr.has_axis(axis)) &&
                   std::ranges::all_of(
                       i.args, [&](atlas::ValueId a) { return a == atlas::no_value || once[a]; }));
  }
  return once;
}

namespace {

// Values that all lanes share: where these are points, no accumulators are, nor is scratch memory.
std::vector<bool> shared_by_lanes(const atlas::Program& p, const Stage& s) {
  const atlas::LoopBlock& b = p.nest();
  const bool points = b.lane_axis >= 0 && b.lane_axis < b.parallel_rank;
  const bool own =
      points && (b.stages.size() > 1 || std::ranges::any_of(p.buffers, [](auto& buffer) {
                   return buffer.access == atlas::Access::scratch;
                 }));
  return computed_once(s.body, own ? -1 : b.lane_axis);
}

// Whether a value is an f64 that is loaded for nothing but a conversion, which halves it at once.
std::vector<bool> narrowed_at_once(const atlas::Body& body) {
  std::vector<bool> only;
  for (const Instr& i : body.instrs) only.push_back(i.code == Code::load && i.type == DType::f64);
  for (const Instr& i : body.instrs) {
    const bool cast = i.code == Code::arithmetic && ir::info(i.op).kind == ir::OpKind::cast;
    for (atlas::ValueId a : i.args)
      if (a != atlas::no_value && !(cast && size_of(i.type) < size_of(DType::f64))) only[a] = false;
  }
  return only;
}

}  // namespace

int lane_bytes(const atlas::Program& p) {
  int widest = 1, widest_index = 1;
  bool floats = false;
  auto see = [&](DType t) {
    if (t == DType::i64 || t == DType::u64) {
      widest_index = 8;
      return;
    }
    widest = std::max(widest, size_of(t));
    floats = floats || is_float(t);
  };
  // Ranges of points know what coordinates compare to.
  const bool ranges = p.nest().stages.size() == 1 && p.nest().stages[0].kind == StageKind::point;
  for (const Stage& s : p.nest().stages) {
    const std::vector<bool> once = shared_by_lanes(p, s), narrowed = narrowed_at_once(s.body);
    const std::vector<bool> places =
        ranges ? atlas::of_coordinates(s.body) : std::vector<bool>(s.body.instrs.size());
    for (size_t n = 0; n < once.size(); ++n) {
      const Instr& i = s.body.instrs[n];
      if (i.code == Code::index || i.code == Code::clamp_index || once[n] || places[n]) continue;
      see(narrowed[n] ? DType::f32 : i.type);
      if (i.code == Code::arithmetic && ir::info(i.op).kind == ir::OpKind::cast)
        see(narrowed[i.args[0]] ? DType::f32 : i.from);
    }
    for (const atlas::Reduction& r : s.reductions) see(r.type);
  }
  return floats ? std::max(widest, 2) : std::max(widest, widest_index);
}

namespace {

int arithmetic_along(const atlas::Body& body, int axis) {
  int n = 0;
  const std::vector<bool> once = computed_once(body, axis);
  for (size_t k = 0; k < once.size(); ++k) {
    const Instr& i = body.instrs[k];
    if (once[k]) continue;
    if (i.code == Code::arithmetic) n += work_of(i.op);
    if (i.code == Code::lookup) ++n;
  }
  return n;
}

int block_arithmetic(const atlas::LoopBlock& b) {
  int n = 0;
  for (const Stage& s : b.stages) n += arithmetic_count(s.body);
  return n;
}

// Values that are loaded and may stay in registers until the end of the body.
int load_count(const atlas::LoopBlock& b) {
  int n = 0;
  for (const Stage& s : b.stages) {
    const std::vector<bool> once = computed_once(s.body);
    for (size_t k = 0; k < once.size(); ++k) n += s.body.instrs[k].code == Code::load && !once[k];
  }
  return n;
}
constexpr int most_paired_loads = 20;

// Beyond this much arithmetic memory is not what limits a kernel, and stores past the caches only
// hold it up; pairs of vectors also fetch ahead, so that more arithmetic hides memory.
constexpr int max_streamed_work = 24, max_streamed_pair_work = 128;

// Whether a row stage only reads and reduces, with so little arithmetic that it waits for memory.
bool reads_and_reduces(const Stage& s) {
  constexpr int most_work = 4;
  return s.kind == StageKind::row && !s.reductions.empty() &&
         std::ranges::none_of(
             s.reductions,
             [](const auto& r) { return r.tree || ir::info(r.op).kind != ir::OpKind::reduce; }) &&
         arithmetic_count(s.body) <= most_work &&
         std::ranges::all_of(s.body.instrs, [](const Instr& i) {
           return i.code == Code::load || i.code == Code::constant || i.code == Code::arithmetic ||
                  i.code == Code::index;
         });
}

// Whether the first stage of the next row can run along with this row's second one: it then waits
// for memory while the other computes. A second stage that does not reduce must be the last, and
// compute so little that memory is what it waits for.
bool carries(const atlas::LoopBlock& b, const LoopPlan& plan, const Target& target) {
  constexpr int most_beside = 24;
  if (plan.mode != LaneMode::row || target.isa != Isa::avx512 || b.stages.size() < 2 ||
      b.parallel_rank == 0 || static_cast<int>(b.axes.size()) != b.parallel_rank + 1 ||
      b.axes.back().extent.has_axes())
    return false;
  Expr points = extent_of(b, 0, b.parallel_rank);
  if (points.has_axes() || (points.is_const() && points.constant_value() < 4 * carried_rows))
    return false;
  for (int n = 0; n < 2; ++n) {
    const Stage& s = b.stages[static_cast<size_t>(n)];
    const bool only_computes =
        n == 1 && b.stages.size() == 2 && arithmetic_along(s.body, b.parallel_rank) <= most_beside;
    if (s.kind != StageKind::row || (s.reductions.empty() && !only_computes) ||
        std::any_of(s.reductions.begin(), s.reductions.end(), [](const auto& r) {
          return r.tree || ir::info(r.op).kind != ir::OpKind::reduce;
        }))
      return false;
  }
  return reads_and_reduces(b.stages[0]);
}

// Whether the rows of two points are read by turns: of two streams a Zen 3 fetches more ahead than
// of one. Loads that are widened, or the states of several reductions, take longer than memory.
bool takes_two_rows(const atlas::Program& program, const LoopPlan& plan, const Target& target) {
  constexpr int64_t least_row = 1024, least_bytes = 2 * cost::turn;
  const atlas::LoopBlock& b = program.nest();
  auto below = [](const Expr& n, int64_t least) {
    return n.has_axes() || (n.is_const() && n.constant_value() < least);
  };
  auto whole = [&](const Instr& i) {
    return i.code != Code::load || size_of(i.type) * plan.lanes == target.vector_bytes;
  };
  return plan.mode == LaneMode::row && target.isa == Isa::avx2 && !plan.alternate &&
         b.parallel_rank > 0 && static_cast<int>(b.axes.size()) == b.parallel_rank + 1 &&
         !below(b.axes.back().extent, least_row) && !below(buffer_bytes(program), least_bytes) &&
         reads_and_reduces(b.stages[0]) && b.stages[0].reductions.size() == 1 &&
         std::ranges::all_of(b.stages[0].body.instrs, whole) &&
         std::ranges::all_of(b.stages.begin() + 1, b.stages.end(),
                             [](const Stage& s) { return s.kind == StageKind::point; });
}

// Whether the third stage of a point may run along with the next point's second one, which then
// does not wait for the sums of a row. At the first point of a call it runs at that very point, in
// front of the second stage, on whatever its result holds: so this must be harmless, and written
// anew.
bool trails(const atlas::LoopBlock& b, const std::vector<atlas::Buffer>& buffers) {
  constexpr int most_work = 8;
  constexpr int64_t longest = 64 * 1024;  // bytes of a row, of which four are in use at a time
  if (b.stages.size() != 3) return false;
  const Stage& last = b.stages[2];
  const Expr& extent = b.axes.back().extent;
  if (last.kind != StageKind::row || !last.reductions.empty() || !last.running.empty() ||
      arithmetic_along(last.body, b.parallel_rank) > most_work || !extent.is_const())
    return false;
  auto touches = [&](int stage, Code code, int buffer, const Expr* at) {
    return std::ranges::any_of(
        b.stages[static_cast<size_t>(stage)].body.instrs, [&](const auto& i) {
          return i.code == code && i.buffer == buffer && (!at || i.expr == *at) &&
                 (code == Code::load || !at || i.args[1] == atlas::no_value);
        });
  };
  for (const Instr& i : last.body.instrs) {
    const bool access = i.code == Code::load || i.code == Code::store;
    if (!access && i.code != Code::constant && i.code != Code::accumulator &&
        (i.code != Code::arithmetic || !(is_float(i.type) || i.type == DType::b8)))
      return false;
    if (!access) continue;
    const atlas::Buffer& buffer = buffers[static_cast<size_t>(i.buffer)];
    if (buffer.access == atlas::Access::scratch ||
        extent.constant_value() * size_of(buffer.dtype) > longest)
      return false;
    const bool written = touches(2, Code::store, i.buffer, nullptr);
    if (i.code == Code::load && written && !touches(1, Code::store, i.buffer, &i.expr))
      return false;
    if (i.code == Code::store &&
        (touches(0, Code::load, i.buffer, nullptr) || touches(1, Code::load, i.buffer, nullptr)))
      return false;
  }
  return true;
}

// Whether lanes share elements, in vectors that begin at multiples of their length.
bool shares_elements(const atlas::LoopBlock& b, const LoopPlan& plan) {
  int lane = b.parallel_rank - 1;
  if (plan.mode != LaneMode::parallel || plan.tiled || lane < 1) return false;
  for (const atlas::Axis& a : b.axes)
    if (!a.extent.is_const()) return false;
  return std::ranges::any_of(b.stages, [&](const Stage& s) {
    return std::ranges::any_of(s.body.instrs, [&](const Instr& i) {
      return i.code == Code::load && shared_element(i.expr, lane);
    });
  });
}

// Whether sums down rows take elements that all lanes share, and registers hold those of wider
// steps: so many for each factor along the lanes.
bool shares_factors(const atlas::Program& program, const LoopPlan& plan, const Target& target) {
  constexpr int64_t most_sums = 12;  // of 16 registers
  const atlas::LoopBlock& b = program.nest();
  const int lane = b.parallel_rank - 1, vectors = shared_vectors(target);
  const Expr& extent = b.axes[static_cast<size_t>(b.lane_axis)].extent;
  if (plan.mode != LaneMode::parallel || vectors == 1 || !extent.is_const() ||
      extent.constant_value() % (vectors * plan.lanes) != 0)
    return false;
  int64_t most = 0;
  for (const Stage& s : b.stages) {
    if (s.kind == StageKind::point) continue;
    if (s.kind != StageKind::serial_row || !s.running.empty()) return false;
    std::map<atlas::ValueId, int64_t> sums;  // by factor along the lanes
    auto loads = [&](atlas::ValueId id, bool along) {
      const Instr& i = s.body.instrs[id];
      return i.code == Code::load && i.expr.has_axis(lane) == along &&
             program.buffers[static_cast<size_t>(i.buffer)].access == atlas::Access::read;
    };
    for (const Instr& i : s.body.instrs)
      if (i.code == Code::arithmetic && i.op == ir::Op::fma && loads(i.args[0], false) &&
          loads(i.args[1], true))
        most = std::max(most, ++sums[i.args[1]]);
  }
  return most > 1 && most * vectors <= most_sums;
}

// Whether a body's lanes may be alternate (Scope::set_alternate): what varies along them is read
// and written in 16 bits or as truths, which one instruction reorders, and computed in float32
// without a look at where it lies. `loads` counts bfloat16 numbers.
bool takes_alternate(const atlas::Body& body, const std::vector<atlas::Buffer>& buffers, int lane,
                     bool accumulators_vary, int& loads) {
  std::vector<bool> varies;
  auto fits = [](DType t) { return t == DType::f32 || t == DType::bf16 || t == DType::b8; };
  for (const Instr& i : body.instrs) {
    const bool by_place = i.expr.has_axis(lane);
    const bool by_value = i.expr.any_atom([&](const Atom& a) {
      return a.kind == Atom::Kind::value && varies[static_cast<size_t>(a.id)];
    });
    const bool by_operand = std::ranges::any_of(
        i.args, [&](atlas::ValueId a) { return a != atlas::no_value && varies[a]; });
    const bool access = i.code == Code::load || i.code == Code::store;
    varies.push_back(by_place || by_value || by_operand ||
                     (i.code == Code::accumulator && accumulators_vary));
    if (i.code == Code::accumulate || (access && i.args[i.code == Code::store] != atlas::no_value))
      return false;
    if (!varies.back()) continue;
    if (access) {
      const DType type = buffers[static_cast<size_t>(i.buffer)].dtype;
      if (by_value || !by_place || (type != DType::bf16 && type != DType::b8)) return false;
      loads += type == DType::bf16;
    } else if (i.code == Code::accumulator) {
      if (i.type != DType::f32) return false;
    } else if (i.code != Code::arithmetic || !fits(i.type) ||
               (ir::info(i.op).kind == ir::OpKind::cast && !fits(i.from))) {
      return false;
    }
  }
  return true;
}

// Whether lanes are even and odd elements by turns, which saves AVX2 most of what widening and
// rounding bfloat16 takes.
bool alternates(const atlas::Program& program, const LoopPlan& plan, const Target& target) {
  const atlas::LoopBlock& b = program.nest();
  const int lanes = target.vector_bytes / size_of(DType::f32);
  const Expr& extent = b.axes[static_cast<size_t>(b.lane_axis)].extent;
  const bool rows = plan.mode == LaneMode::row;
  constexpr int64_t few = 4;  // vectors, whose ends would count
  if (target.isa != Isa::avx2 || program.kind() != atlas::BlockKind::loop ||
      lane_bytes(program) != size_of(DType::f32) || plan.lanes != lanes * plan.vectors ||
      plan.whole_lines || plan.tiled || extent.has_axes() ||
      (extent.is_const() && extent.constant_value() % (2 * lanes) != 0 &&
       extent.constant_value() < few * 2 * lanes))
    return false;
  if (!rows && std::ranges::any_of(program.buffers, [](const atlas::Buffer& buffer) {
        return buffer.access == atlas::Access::scratch;
      }))
    return false;
  int loads = 0;
  return std::ranges::all_of(
             b.stages,
             [&](const Stage& s) {
               return (s.kind == StageKind::point || s.kind == StageKind::row) &&
                      s.running.empty() &&
                      std::ranges::all_of(s.reductions,
                                          [](const atlas::Reduction& r) {
                                            return r.type == DType::f32 &&
                                                   ir::info(r.op).kind == ir::OpKind::reduce;
                                          }) &&
                      takes_alternate(s.body, program.buffers, b.lane_axis, !rows, loads);
             }) &&
         loads > 0;
}

// Of points whose lines are one to four whole vectors, or of other known lengths where a border
// cuts them: how many of the last axes a unit walks whole, since finding each line by itself takes
// longer than the line. 0: such lines they are not.
int short_lines(const atlas::LoopBlock& b, const LoopPlan& plan) {
  constexpr int64_t most_vectors = 4, longest = 4096;
  constexpr size_t most_instrs = 256;  // of a line, whose vectors are all written out
  const int last = b.parallel_rank - 1;
  if (plan.mode != LaneMode::parallel || plan.tiled || plan.whole_lines ||
      plan.vectors > 1 + plan.alternate || last < 1 || b.stages.size() != 1 ||
      b.stages[0].kind != StageKind::point)
    return 0;
  for (const atlas::Axis& a : b.axes)
    if (a.extent.has_axes()) return 0;
  auto extent = [&](int axis) {
    const Expr& n = b.axes[static_cast<size_t>(axis)].extent;
    return n.is_const() ? n.constant_value() : longest + 1;
  };
  const int64_t line = extent(last);
  const bool borders = has_borders(b.stages[0].body, last);
  const int64_t most_points = borders ? longest : 1024;
  if (borders) {
    if (line > longest) return 0;
  } else {
    if (line % plan.lanes || line > most_vectors * plan.lanes) return 0;
    const auto vectors = static_cast<size_t>(line / plan.lanes);
    if (b.stages[0].body.instrs.size() * vectors > most_instrs) return 0;
  }
  return last > 1 && line * extent(last - 1) <= most_points ? 2 : 1;
}

}  // namespace

Expr buffer_bytes(const atlas::Program& program) {
  Expr bytes(0);
  for (const atlas::Buffer& b : program.buffers)
    if (b.access != atlas::Access::scratch) bytes += b.extent * Expr(size_of(b.dtype));
  return bytes;
}

LoopPlan plan_loop(const atlas::Program& program, const Target& target) {
  const atlas::LoopBlock& b = program.nest();
  LoopPlan plan;
  int rank = static_cast<int>(b.axes.size());
  if (b.lane_axis >= 0 && b.lane_axis == b.parallel_rank - 1)
    plan.mode = LaneMode::parallel;
  else if (b.lane_axis >= 0 && b.lane_axis == rank - 1)
    plan.mode = LaneMode::row;
  else
    return plan;
  plan.lanes = std::min(64, target.vector_bytes / lane_bytes(program));
  const Expr& extent = b.axes[static_cast<size_t>(b.lane_axis)].extent;
  if (extent.is_const()) {
    auto n = static_cast<uint64_t>(std::max<int64_t>(1, extent.constant_value()));
    if (n < static_cast<uint64_t>(plan.lanes)) plan.lanes = static_cast<int>(std::bit_ceil(n));
  }
  if (plan.lanes == 1) plan.mode = LaneMode::scalar;
  plan.masked_tails = target.isa == Isa::avx512;
  int work = block_arithmetic(b);
  Expr bytes = buffer_bytes(program);
  plan.vectors = shares_factors(program, plan, target) ? shared_vectors(target)
                                                       : column_vectors(program, plan, target);
  plan.lanes *= plan.vectors;
  plan.columns = block_columns(program, plan, target);
  plan.unroll = work <= 8 ? 4 : work <= 24 ? 2 : 1;
  bool points = std::all_of(b.stages.begin(), b.stages.end(),
                            [](const Stage& s) { return s.kind == StageKind::point; });
  // Two chains of arithmetic side by side keep more units busy, where registers suffice for both.
  plan.paired = plan.mode == LaneMode::parallel && points && plan.unroll == 1 && plan.lanes <= 16 &&
                target.isa == Isa::avx512 && load_count(b) <= most_paired_loads;
  int64_t least_bytes = plan.paired ? cost::stream(target) : cost::turn;
  plan.may_stream = writes_around_caches(target) &&
                    work <= (plan.paired ? max_streamed_pair_work : max_streamed_work) &&
                    (!bytes.is_const() || bytes.constant_value() > least_bytes);
  if (int run = interleaved_lines(b, program.buffers); run > 0 && plan.mode == LaneMode::parallel) {
    // Bytes are shuffled within 16 by one instruction each, not beyond.
    plan.interleaved = run;
    plan.lanes =
        std::min(lane_bytes(program) == 1 ? 16 : 64, target.vector_bytes / lane_bytes(program));
    plan.unroll = 1;
    plan.paired = plan.may_stream = false;
    return plan;
  }
  if (plan.mode == LaneMode::parallel &&
      !transposed_loads(b, program.buffers, least_lines(plan.masked_tails)).empty()) {
    plan.tiled = true;
    const int bytes = lane_bytes(program);
    plan.lanes = std::min(target.vector_bytes / bytes, 16);
    if (!plan.masked_tails) plan.squares = std::max(1, 64 / (plan.lanes * bytes));
    plan.unroll = 1;
    plan.paired = plan.may_stream = false;
  }
  plan.whole_lines = shares_elements(b, plan);
  plan.alternate = alternates(program, plan, target);
  if (plan.alternate && plan.vectors == 1) {
    plan.lanes *= 2;
    plan.vectors = 2;
    plan.columns = block_columns(program, plan, target);
    plan.unroll = std::min(plan.unroll, 2);
  }
  plan.block_axes = short_lines(b, plan);
  plan.written_out = plan.block_axes > 0 && copies_points(b.stages[0].body, b.lane_axis, extent);
  // Ranges between borders rarely begin with a line of memory.
  if (plan.block_axes > 0 && has_borders(b.stages[0].body, b.lane_axis)) plan.may_stream = false;
  // The rows of a product's tail are in the cache already.
  plan.carried = !program.has_tail() && carries(b, plan, target);
  plan.trailing = plan.carried && trails(b, program.buffers);
  plan.two_rows = !program.has_tail() && takes_two_rows(program, plan, target);
  return plan;
}

int arithmetic_count(const atlas::Body& body) { return arithmetic_along(body, -1); }

int vectors_together(const Stage& stage, const LoopPlan& plan, const Target& target) {
  constexpr int most = 4, least_work = rendered_work;
  const bool partials = std::ranges::all_of(stage.reductions, [](const atlas::Reduction& r) {
    return ir::info(r.op).kind == ir::OpKind::reduce;
  });
  if (target.isa != Isa::avx2 || plan.mode != LaneMode::row || !partials ||
      arithmetic_count(stage.body) < least_work)
    return 1;
  return std::min(most / plan.vectors, atlas::sum_partials / plan.lanes);
}

std::vector<atlas::ValueId> transposed_loads(const atlas::LoopBlock& b,
                                             const std::vector<atlas::Buffer>& buffers,
                                             int64_t least) {
  constexpr size_t most = 4;
  std::vector<atlas::ValueId> found;
  int lane = b.parallel_rank - 1, other = lane - 1;
  if (b.stages.size() != 1 || b.stages[0].kind != StageKind::point || b.lane_axis != lane ||
      other < 0)
    return {};
  auto below = [](const Expr& n, int64_t limit) {
    return n.is_const() && n.constant_value() < limit;
  };
  if (below(b.axes[static_cast<size_t>(lane)].extent, least) ||
      below(b.axes[static_cast<size_t>(other)].extent, least))
    return {};
  for (const atlas::Axis& a : b.axes)
    if (a.extent.has_axes()) return {};
  const auto& instrs = b.stages[0].body.instrs;
  std::map<int64_t, std::vector<atlas::ValueId>> loads;  // whose lines are so many elements apart
  for (size_t n = 0; n < instrs.size(); ++n) {
    const Instr& i = instrs[n];
    if (i.code == Code::store) {
      auto step = i.expr.linear_in_axis(lane);
      if (!step || !step->first.is(1)) return {};
    }
    if (i.code != Code::load ||
        (i.args[0] != atlas::no_value && !slice_of(b.stages[0].body, i.args[0])) ||
        buffers[static_cast<size_t>(i.buffer)].access != atlas::Access::read ||
        i.expr.any_atom([](const Atom& a) { return a.kind == Atom::Kind::value; }))
      continue;
    auto along = i.expr.linear_in_axis(lane), across = i.expr.linear_in_axis(other);
    if (!along || !across || !across->first.is_const()) continue;
    const int64_t lines = across->first.constant_value();
    const Expr& stride = along->first;
    if (lines < -1 || lines == 0 ||
        (stride.is_const() && std::abs(stride.constant_value()) <= std::abs(lines)))
      continue;
    loads[lines].push_back(static_cast<atlas::ValueId>(n));
  }
  // Lines that lie apart are picked from vectors of all, so others must read what lies between.
  for (const auto& [lines, some] : loads)
    if (std::abs(lines) == 1 || lines == static_cast<int64_t>(some.size()))
      found.insert(found.end(), some.begin(), some.end());
  std::ranges::sort(found);
  return found.size() > most ? std::vector<atlas::ValueId>{} : found;
}

std::vector<std::vector<atlas::ValueId>> neighbours(const atlas::LoopBlock& b,
                                                    const std::vector<atlas::ValueId>& loads) {
  const auto& instrs = b.stages[0].body.instrs;
  std::vector<std::vector<atlas::ValueId>> out;
  std::vector<bool> taken(loads.size());
  auto place = [&](size_t of, size_t from) -> std::optional<int64_t> {
    const Instr &x = instrs[loads[of]], &y = instrs[loads[from]];
    const Expr apart = x.expr - y.expr;
    if (x.buffer != y.buffer || !apart.is_const() || x.args[0] != atlas::no_value ||
        y.args[0] != atlas::no_value)
      return std::nullopt;
    return apart.constant_value();
  };
  for (size_t n = 0; n < loads.size(); ++n) {
    if (taken[n]) continue;
    const auto across = instrs[loads[n]].expr.linear_in_axis(b.parallel_rank - 2);
    const auto lines = static_cast<size_t>(std::abs(across->first.constant_value()));
    std::vector<atlas::ValueId> some;
    std::vector<size_t> numbers;
    for (size_t at = 0; at < lines; ++at)
      for (size_t i = n; i < loads.size() && some.size() == at; ++i)
        if (!taken[i] && place(i, n) == static_cast<int64_t>(at)) {
          some.push_back(loads[i]);
          numbers.push_back(i);
        }
    if (some.size() < lines) numbers = {n}, some = {loads[n]};
    for (size_t i : numbers) taken[i] = true;
    out.push_back(std::move(some));
  }
  return out;
}

std::optional<atlas::Body> slice_of(const atlas::Body& body, atlas::ValueId id) {
  std::vector<bool> needed(body.instrs.size());
  needed[id] = true;
  for (size_t n = id + size_t{1}; n-- > 0;) {
    if (!needed[n]) continue;
    const Instr& i = body.instrs[n];
    if (i.code != Code::constant && i.code != Code::index && i.code != Code::arithmetic)
      return std::nullopt;
    if (i.expr.any_atom([](const Atom& a) { return a.kind == Atom::Kind::value; }))
      return std::nullopt;
    for (atlas::ValueId a : i.args)
      if (a != atlas::no_value) needed[a] = true;
  }
  atlas::Body out;
  std::vector<atlas::ValueId> number(body.instrs.size(), atlas::no_value);
  for (size_t n = 0; n <= id; ++n) {
    if (!needed[n]) continue;
    number[n] = static_cast<atlas::ValueId>(out.instrs.size());
    Instr i = body.instrs[n];
    for (atlas::ValueId& a : i.args)
      if (a != atlas::no_value) a = number[a];
    out.instrs.push_back(i);
  }
  return out;
}

int interleaved_lines(const atlas::LoopBlock& b, const std::vector<atlas::Buffer>& buffers) {
  constexpr int64_t longest = 4, least_lanes = 16;
  int run = b.parallel_rank - 1, line = run - 1, stores = 0;
  if (b.stages.size() != 1 || b.stages[0].kind != StageKind::point || b.lane_axis != run ||
      line < 0)
    return 0;
  const Expr &n = b.axes[static_cast<size_t>(run)].extent,
             &length = b.axes[static_cast<size_t>(line)].extent;
  if (!n.is_const() || n.constant_value() < 2 || n.constant_value() > longest ||
      (length.is_const() && length.constant_value() < least_lanes))
    return 0;
  for (const atlas::Axis& a : b.axes)
    if (a.extent.has_axes()) return 0;
  for (const Instr& i : b.stages[0].body.instrs) {
    bool load = i.code == Code::load, store = i.code == Code::store;
    if (i.code == Code::clamp_index) return 0;
    if (!load && !store) continue;
    auto along = i.expr.linear_in_axis(line), across = i.expr.linear_in_axis(run);
    bool values = i.expr.any_atom([](const Atom& a) { return a.kind == Atom::Kind::value; });
    if (!along || values) return 0;
    const Expr& step = along->first;
    if (load && !(step.is_const() && std::abs(step.constant_value()) <= 4)) return 0;
    if (store) {
      const atlas::Buffer& out = buffers[static_cast<size_t>(i.buffer)];
      if (++stores > 1 || i.args[1] != atlas::no_value || out.access != atlas::Access::write ||
          !(along->first == n) || !across || !across->first.is(1))
        return 0;
    }
  }
  return stores == 1 ? static_cast<int>(n.constant_value()) : 0;
}

Expr extent_of(const atlas::LoopBlock& block, int first, int last) {
  Expr n(1);
  for (int k = first; k < last; ++k) n *= block.axes[static_cast<size_t>(k)].extent;
  return n;
}

}  // namespace hologram::cpu
