// backend/cpu/loops/half_vectors.cpp: which loops do little but read and write along their lanes.
#include "backend/cpu/loops/half_vectors.h"

#include <algorithm>

#include "backend/cpu/loops/plan.h"

namespace hologram::cpu {
namespace {

using atlas::Code;
using atlas::Instr;
using atlas::Stage;
using atlas::StageKind;

bool is_access(const Instr& i) { return i.code == Code::load || i.code == Code::store; }

// Whether the stage's elements lie side by side along the lanes, each as wide as a lane, with no
// more arithmetic than there are of them. What is the same for all lanes takes no time, nor do
// indices and truths much.
bool waits_for_memory(const Stage& s, const atlas::Program& p, int lane_axis) {
  const std::vector<bool> once = computed_once(s.body, lane_axis);
  const int lane = lane_bytes(p);
  int accesses = 0, work = 0;
  for (size_t n = 0; n < once.size(); ++n) {
    const Instr& i = s.body.instrs[n];
    if (i.code == Code::lookup) return false;
    if (i.code == Code::arithmetic && !once[n] && i.type != DType::b8 && i.type != DType::i64)
      work += work_of(i.op);
    if (!is_access(i) || (i.code == Code::load && once[n])) continue;
    const auto along = i.expr.linear_in_axis(lane_axis);
    if (!along || !along->first.is(1)) return false;
    if (i.code == Code::load && size_of(i.type) != lane) return false;
    ++accesses;
  }
  return work <= accesses;
}

// Whether the stage reduces its row, or gives what is there of it so far. A fold of twice as many
// maxima shows in short rows.
bool reduces(const Stage& s, const Expr& row) {
  constexpr int64_t short_row = 256;
  auto plain = [&](const atlas::Reduction& r) {
    const bool folds_long = r.op == ir::Op::reduce_max || r.op == ir::Op::reduce_min;
    return !r.tree && ir::info(r.op).kind == ir::OpKind::reduce &&
           !(folds_long && row.is_const() && row.constant_value() < short_row);
  };
  return s.kind == StageKind::scan || (s.kind == StageKind::row && !s.reductions.empty() &&
                                       std::ranges::all_of(s.reductions, plain));
}

bool is_point(const Stage& s) { return s.kind == StageKind::point; }

}  // namespace

Target target_for(const atlas::Program& p, const Target& target) {
  Target out = target;
  if (!target.processor->half_vectors || target.isa != Isa::avx512 ||
      p.kind() != atlas::BlockKind::loop)
    return out;
  const atlas::LoopBlock& b = p.loop();
  if (b.lane_axis < 0 || b.stages.empty()) return out;
  const bool rows = b.lane_axis >= b.parallel_rank;
  const Stage& first = b.stages[0];
  if ((rows ? reduces(first, b.axes.back().extent) &&
                  std::all_of(b.stages.begin() + 1, b.stages.end(), is_point)
            : b.stages.size() == 1 && is_point(first)) &&
      waits_for_memory(first, p, b.lane_axis))
    out.vector_bytes /= 2;
  return out;
}

}  // namespace hologram::cpu
