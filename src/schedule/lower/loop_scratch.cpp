// schedule/lower/loop_scratch.cpp: which values of a row stay in memory between a loop's stages.
#include <algorithm>
#include <set>

#include "atlas/limits.h"
#include "schedule/lower/loop_lowering.h"

namespace hologram::schedule {

using ir::Op;
using ir::Value;

// Whether memory is walked contiguously along the rows rather than along the points.
bool LoopLowering::prefers_rows() const {
  if (parallel_ == order_.size()) return false;
  if (parallel_ == 0) return true;
  int rows = 0, points = 0;
  auto look = [&](Value v, const Index& index) {
    const Slot& s = storage_.slots[static_cast<size_t>(storage_.slot_of(v))];
    Expr offset = offset_of(placed(index), s.strides);
    auto one = [&](size_t i) {
      auto split = offset.linear_in_axis(static_cast<int>(i));
      return split && split->first.is(1);
    };
    rows += one(order_.size() - 1);
    points += one(parallel_ - 1);
  };
  clustering_.for_each_access(c_, [&](Value v, const Index& index) {
    if (!c_.find(v)) look(v, index);
  });
  return rows >= points;
}

// Finds element-wise values that several row stages compute and that cost more than a store and a
// load.
void LoopLowering::choose_scratch() {
  Expr row(1);
  for (size_t i = parallel_; i < order_.size(); ++i) row *= order_[i].extent;
  if (!row.is_const() || (!tail_ && !prefers_rows())) return;
  ProgramBuilder trial(storage_.slots);
  build(trial, true);
  accumulators_.clear();
  auto expensive = [&](Value v) {
    return !(ir::info(v->op).flags & ir::exact) || v->is(Op::div) || v->is(Op::sqrt);
  };
  std::set<Value> covered;
  int64_t bytes = 0;
  for (auto it = computed_.rbegin(); it != computed_.rend(); ++it) {
    const At& at = it->first;
    if (it->second.first == it->second.second || covered.count(at.node)) continue;
    bool worth = false;
    std::vector<Value> stack{at.node};
    std::set<Value> below;
    while (!stack.empty()) {
      Value v = stack.back();
      stack.pop_back();
      if (!below.insert(v).second) continue;
      worth |= expensive(v);
      for (Value in : v->inputs)
        if (!clustering_.is_root(in) && !in->inputs.empty()) stack.push_back(in);
    }
    if (trial.program.buffers.size() + scratch_.size() >= machine_.most_buffers) continue;
    int64_t size = row.constant_value() * size_of(at.node->dtype);
    if (!worth || bytes + size > (tail_ ? atlas::limits::tail_scratch_bytes : machine_.row_scratch))
      continue;
    bytes += size;
    covered.insert(below.begin(), below.end());
    scratch_.emplace(at, -1);
    scratch_stage_.emplace(at, it->second.first);
  }
}

}  // namespace hologram::schedule
