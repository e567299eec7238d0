// atlas/blocks/loop.cpp: what holds for the stages of loops.
#include "atlas/blocks/loop.h"

#include <algorithm>
#include <set>

#include "atlas/verifier.h"

namespace hologram::atlas {
namespace {

bool is_reduce(ir::Op op) { return known(op) && ir::info(op).kind == ir::OpKind::reduce; }
bool is_reduce_index(ir::Op op) {
  return known(op) && ir::info(op).kind == ir::OpKind::reduce_index;
}

/// Whether values of `type` can be reduced: sums and products of truth values have no meaning of
/// their own.
bool may_reduce(ir::Op op, DType type) {
  if (!known(type) || compute_type(type) != type) return false;
  bool ordered = op != ir::Op::reduce_sum && op != ir::Op::reduce_prod;
  return is_reduce_index(op) || (is_reduce(op) && (ordered || type != DType::b8));
}

void reduction(const Stage& stage, const Reduction& r, const std::string& place) {
  require((is_reduce(r.op) || is_reduce_index(r.op)) && may_reduce(r.op, r.type),
          "{}: no such reduction", place);
  require(!(r.tree && is_reduce_index(r.op)), "{}: a tree of positions", place);
  DType found = Verifier::type_of(stage.body, r.value, stage.body.instrs.size(), place);
  require(found == r.type, "{}: %{} is {}; expected {}", place, r.value, name_of(found),
          name_of(r.type));
  if (r.position == no_value) return;
  require(is_reduce_index(r.op), "{}: a position for a value", place);
  found = Verifier::type_of(stage.body, r.position, stage.body.instrs.size(), place);
  require(found == DType::i64, "{}: %{} is {}; expected i64", place, r.position, name_of(found));
}

void scan(const LoopBlock& b, size_t number, const std::string& name) {
  const Stage& st = b.stages[number];
  int last = static_cast<int>(b.axes.size()) - 1;
  require(number + 1 == b.stages.size() && st.reductions.empty(),
          "{}: a scan is a stage of its own, the last one", name);
  require(last == b.parallel_rank && b.lane_axis == last,
          "{}: a scan runs along one row axis, which is the lane axis", name);
  std::set<int> stored, accumulated;
  size_t times = 0;
  for (const Instr& i : st.body.instrs) {
    if (i.code == Code::store) stored.insert(i.buffer);
    if (i.code == Code::accumulate) accumulated.insert(i.buffer);
    times += i.code == Code::accumulate;
  }
  for (const Instr& i : st.body.instrs)
    require(i.code != Code::load || !stored.count(i.buffer),
            "{}: a scan loads b{}, which it stores", name, i.buffer);
  require(times == accumulated.size() && times == st.running.size(),
          "{}: a scan accumulates each running accumulator once", name);
}

void check_stage(const LoopBlock& b, size_t number, std::vector<DType>& results, Verifier& v) {
  const Stage& st = b.stages[number];
  BodyScope s{.name = fmt::format("stage {}", number), .axes = {}, .accumulators = results};
  require(st.kind <= StageKind::scan, "{}: unknown kind", s.name);
  s.axes.assign(b.axes.size(), st.kind != StageKind::point);
  std::fill_n(s.axes.begin(), b.parallel_rank, true);
  require(st.kind != StageKind::point || st.reductions.empty(), "{}: a point stage reduces nothing",
          s.name);
  require(st.kind >= StageKind::serial_row || st.running.empty(),
          "{}: running accumulators in a stage that is not serial", s.name);
  if (st.kind == StageKind::scan) scan(b, number, s.name);
  s.running = &st.running;
  s.first_running = results.size() + st.reductions.size();
  require(s.first_running + st.running.size() <= limits::accumulators,
          "{}: more than {} accumulators", s.name, limits::accumulators);
  for (const auto& [op, type] : st.running)
    require(is_reduce(op) && may_reduce(op, type), "{}: no such running accumulator", s.name);
  v.body(st.body, s);
  for (const Reduction& r : st.reductions) {
    reduction(st, r, fmt::format("{}, a{}", s.name, results.size()));
    results.push_back(is_reduce_index(r.op) ? DType::i64 : r.type);
  }
  for (const auto& [op, type] : st.running) results.push_back(type);
}

}  // namespace

void verify_block(const LoopBlock& b, Verifier& v) {
  require(b.parallel_rank >= 0 && static_cast<size_t>(b.parallel_rank) <= b.axes.size(),
          "loop: {} parallel axes of {}", b.parallel_rank, b.axes.size());
  for (size_t k = 0; k < b.axes.size(); ++k)
    require((b.axes[k].kind == AxisKind::parallel) == (static_cast<int>(k) < b.parallel_rank),
            "axis i{}: parallel axes come first", k);
  v.axes(b.axes, b.parallel_rank);
  int last = static_cast<int>(b.axes.size()) - 1;
  require(b.lane_axis == -1 ||
              (b.lane_axis >= 0 && (b.lane_axis == last || b.lane_axis == b.parallel_rank - 1)),
          "loop: lane axis {}; expected the last parallel or row axis, or -1", b.lane_axis);
  require(b.stages.size() <= limits::stages, "loop: {} stages; expected at most {}",
          b.stages.size(), limits::stages);
  std::vector<DType> results;
  for (size_t k = 0; k < b.stages.size(); ++k) check_stage(b, k, results, v);
}

}  // namespace hologram::atlas
