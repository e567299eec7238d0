// schedule/roots.cpp: which nodes get a place of their own instead of being computed where they are
// read.
#include <algorithm>

#include "schedule/cluster.h"

namespace hologram::schedule {
namespace {

using ir::Op;
using ir::OpKind;
using ir::Value;

bool is_heavy(Value v) {
  switch (ir::info(v->op).kind) {
    case OpKind::reduce:
    case OpKind::reduce_index:
    case OpKind::scan:
    case OpKind::dot:
    case OpKind::attention:
    case OpKind::scatter:
    case OpKind::external:
    case OpKind::external_result:
      return true;
    default:
      return false;
  }
}

bool is_view(Value v) {
  return ir::info(v->op).kind == OpKind::movement && v->op != Op::concat && v->op != Op::pad;
}

// Rough cost of one element-wise operation, in vector instructions.
int cost_of(Value v) {
  if (ir::info(v->op).kind == OpKind::leaf || is_view(v)) return 0;
  if (v->op == Op::concat) return 3 * static_cast<int>(v->inputs.size());
  if (v->op == Op::pad || v->op == Op::take) return 4;
  if (v->op == Op::div || v->op == Op::rem || v->op == Op::sqrt) return 4;
  return ir::info(v->op).flags & ir::exact ? 1 : 16;
}

constexpr int cap = 1 << 20;

struct Inline {
  int cost = 0;  // of recomputing the value from roots
  int loads = 0;
  bool moves_data = false;  // has a take, concat or pad inside
};

}  // namespace

void Clustering::choose_roots() {
  root_.assign(graph_.nodes().size(), 0);
  std::vector<int> uses(graph_.nodes().size(), 0);  // by computing consumers, through views
  for (const auto& o : graph_.outputs) {
    ++uses[o.value->id];
    root_[o.value->id] = !o.value->is(Op::parameter);
  }
  for (auto it = live_.rbegin(); it != live_.rend(); ++it) {
    Value v = *it;
    int passed = is_view(v) && !root_[v->id] ? uses[v->id] : 1;
    std::vector<Value> distinct(v->inputs);
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    for (Value in : distinct) uses[in->id] = std::min(cap, uses[in->id] + std::max(1, passed));
  }
  auto make_root = [&](Value v) {
    OpKind k = ir::info(v->op).kind;
    if (k != OpKind::leaf) root_[v->id] = 1;
  };
  auto base = [](Value v) {
    while (is_view(v)) v = v->input();
    return v;
  };
  std::vector<Inline> inl(graph_.nodes().size());
  for (Value v : live_) {
    Inline& mine = inl[v->id];
    if (is_heavy(v)) root_[v->id] = 1;
    mine.cost = cost_of(v);
    mine.loads = v->is(Op::parameter);
    mine.moves_data = v->is(Op::take) || v->is(Op::concat) || v->is(Op::pad);
    for (Value in : v->inputs) {
      if (root_[in->id]) {
        ++mine.loads;
        continue;
      }
      mine.cost = std::min(cap, mine.cost + inl[in->id].cost);
      mine.loads = std::min(cap, mine.loads + inl[in->id].loads);
      mine.moves_data |= inl[in->id].moves_data;
    }
    if (v->is(Op::dot_general)) {
      Value l = base(v->input(0)), r = base(v->input(1));
      bool cheap_l = inl[l->id].cost <= 2 && !inl[l->id].moves_data && uses[l->id] == 1;
      bool cheap_r = inl[r->id].cost <= 8 && uses[r->id] == 1;
      if (!cheap_l) make_root(l);
      if (!cheap_r) make_root(r);
    } else if (v->is(Op::attention)) {
      for (size_t i = 0; i < 3; ++i) make_root(base(v->input(i)));
      if (v->inputs.size() > 3 && inl[v->input(3)->id].cost > 6) make_root(base(v->input(3)));
    } else if (v->is(Op::host_call)) {
      for (Value in : v->inputs)
        root_[in->id] = !in->is(Op::parameter);  // the host wants even constants in memory
    } else if (v->is(Op::scatter)) {
      if (inl[v->input(2)->id].cost > 32) make_root(base(v->input(2)));
    }
    if (root_[v->id] || is_view(v) || ir::info(v->op).kind == OpKind::leaf) continue;
    bool shared = uses[v->id] >= 2 && (mine.cost >= 4 || mine.loads >= 3 || mine.moves_data);
    if (shared || mine.cost > 400 || mine.loads > 48) root_[v->id] = 1;
  }
}

}  // namespace hologram::schedule
