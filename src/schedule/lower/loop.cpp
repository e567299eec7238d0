// schedule/lower/loop.cpp: element-wise and reduction clusters → loop blocks.
#include "schedule/lower/loop.h"

#include <algorithm>

#include "schedule/lower/kinds.h"
#include "schedule/lower/loop_lowering.h"

namespace hologram::schedule {

using atlas::AxisKind;
using atlas::Val;
using ir::Op;
using ir::Value;

// Parallel axes by descending stride of the first stored member, then rows.
void LoopLowering::order_axes() {
  order_ = c_.axes;
  std::stable_partition(order_.begin(), order_.end(), [](const ClusterAxis& a) { return !a.row; });
  while (parallel_ < order_.size() && !order_[parallel_].row) ++parallel_;
  if (tail_) return;
  for (const Member& m : c_.members) {
    std::vector<int> stores = storage_.stores_of(m.node);
    if (stores.empty()) continue;
    const Slot& slot = storage_.slots[static_cast<size_t>(stores[0])];
    auto stride = [&](const ClusterAxis& a) -> int64_t {
      for (size_t i = 0; i < m.index.size(); ++i)
        if (auto x = m.index[i].linear_in_axis(a.id); x && x->first.is(1) && !x->second.has_axes())
          return slot.strides[i].is_const() ? slot.strides[i].constant_value() : INT64_MAX;
      return INT64_MAX;
    };
    std::stable_sort(
        order_.begin(), order_.begin() + static_cast<ptrdiff_t>(parallel_),
        [&](const ClusterAxis& a, const ClusterAxis& b) { return stride(a) > stride(b); });
    return;
  }
}

Index LoopLowering::placed(const Index& index) const {
  AxisMap map;
  for (size_t i = 0; i < order_.size(); ++i) map.emplace(order_[i].id, axis(i));
  return substitute(index, map);
}

bool LoopLowering::is_row_level(const Member& m) const {
  for (const Expr& e : m.index)
    for (size_t i = parallel_; i < order_.size(); ++i)
      if (e.has_axis(static_cast<int>(i))) return true;
  return false;
}

// 1 + the stage of the last reduction that the expression needs.
int LoopLowering::level_below(Value v, const Index& index, bool start_inside) {
  int level = 0;
  auto visit = [&](Value r, const Index&) {
    if (auto it = level_.find(r); it != level_.end() && is_reduce(r))
      level = std::max(level, it->second + 1);
  };
  if (start_inside) {
    visit(v, index);
    if (is_reduce(v) && c_.find(v)) return level;
    if (v->is(Op::parameter) || (clustering_.is_root(v) && !c_.find(v))) return level;
  }
  if (v->is(Op::constant) || v->is(Op::iota)) return level;
  clustering_.walk(v, index, visit, [this](Value r) { return c_.find(r) != nullptr; });
  return level;
}

void LoopLowering::find_levels() {
  for (const Member& m : members_)
    level_[m.node] = is_reduce(m.node) ? level_below(m.node->input(), m.operand, true)
                                       : level_below(m.node, m.index, false);
}

Expr LoopLowering::row_position() const {
  Expr n(0);
  for (size_t i = parallel_; i < order_.size(); ++i) n = n * order_[i].extent + axis(i);
  return n;
}

// A body in which reductions before `stage` are accumulators; `more` may know further values.
Emitter LoopLowering::emitter(ProgramBuilder& k, atlas::Body& body, int stage,
                              std::shared_ptr<Emitter*> self, Emitter::Local more) {
  return Emitter(
      k, body, storage_.slot_of,
      [this](Value v) { return v->is(Op::parameter) || (clustering_.is_root(v) && !c_.find(v)); },
      [this, stage, self, more](Value v, const Index& index) -> std::optional<Val> {
        if (auto it = accumulators_.find(v);
            it != accumulators_.end() && it->second.stage < stage) {
          Emitter& e = **self;
          return e.convert(e.builder().accumulator(it->second.number, it->second.type), v->dtype);
        }
        return more ? more(v, index) : std::nullopt;
      });
}

void LoopLowering::build(ProgramBuilder& k, bool collect) {
  atlas::LoopBlock& loop = k.program.nest();
  for (const ClusterAxis& a : order_)
    loop.axes.push_back({a.row ? AxisKind::row : AxisKind::parallel, a.extent});
  loop.parallel_rank = static_cast<int>(parallel_);
  int last = -1;
  for (const Member& m : members_)
    if (is_reduce(m.node) || (is_row_level(m) && !storage_.stores_of(m.node).empty()))
      last = std::max(last, level_[m.node]);
  int count = 0;
  for (int stage = 0; stage <= last; ++stage) {
    atlas::Stage s{atlas::StageKind::row, {}, {}, {}};
    auto self = std::make_shared<Emitter*>();
    Emitter e = emitter(
        k, s.body, stage, self, [&, stage](Value v, const Index& index) -> std::optional<Val> {
          auto it = scratch_.find(At{v, index});
          if (collect || it == scratch_.end() || scratch_stage_.at(it->first) == stage)
            return std::nullopt;
          return e.builder().load(it->second, v->dtype, row_position());
        });
    *self = &e;
    e.on_compute = [&, stage](Value v, const Index& index, Val x) {
      At at{v, index};
      if (collect) {
        auto [it, added] = computed_.emplace(at, std::pair(stage, stage));
        if (!added) it->second.second = stage;
        return;
      }
      auto it = scratch_.find(at);
      if (it == scratch_.end() || scratch_stage_.at(at) != stage) return;
      if (it->second < 0) {
        Expr row(1);
        for (size_t i = parallel_; i < order_.size(); ++i) row *= order_[i].extent;
        it->second = k.scratch(v->dtype, row);
      }
      e.builder().store(it->second, row_position(), x);
    };
    std::vector<std::pair<Value, Accumulator>> made;
    for (const Member& m : members_) {
      if (level_[m.node] != stage) continue;
      if (is_reduce(m.node)) {
        Val x = e.widen(e.value(m.node->input(), m.operand));
        s.reductions.push_back({m.node->op, x.type, x.id, false, atlas::no_value});
        bool arg = ir::info(m.node->op).kind == ir::OpKind::reduce_index;
        made.push_back({m.node, {count++, arg ? DType::i64 : x.type, stage}});
      } else if (is_row_level(m)) {
        for (int slot : storage_.stores_of(m.node))
          e.store(slot, m.index, e.value(m.node, m.index));
      }
    }
    for (auto& [v, acc] : made) accumulators_[v] = acc;
    if (s.body.instrs.empty() && s.reductions.empty()) continue;
    loop.stages.push_back(std::move(s));
  }
  point_stage(k, last + 1);
}

// Stores of what has one element per parallel point.
void LoopLowering::point_stage(ProgramBuilder& k, int stage) {
  atlas::Stage s{atlas::StageKind::point, {}, {}, {}};
  auto self = std::make_shared<Emitter*>();
  Emitter e = emitter(k, s.body, stage, self);
  *self = &e;
  auto each_store = [&](const auto& store) {
    for (const Member& m : members_)
      if (!is_row_level(m))
        for (int slot : storage_.stores_of(m.node)) store(slot, m);
  };
  // What is written into a parameter comes behind all that reads it.
  bool in_place = false;
  each_store([&](int slot, const Member&) {
    in_place |= storage_.slots[static_cast<size_t>(slot)].kind == SlotKind::input;
  });
  if (in_place) each_store([&](int, const Member& m) { e.value(m.node, m.index); });
  each_store([&](int slot, const Member& m) { e.store(slot, m.index, e.value(m.node, m.index)); });
  if (!s.body.instrs.empty()) k.program.nest().stages.push_back(std::move(s));
}

Lowered LoopLowering::whole() {
  choose_scratch();
  ProgramBuilder k(storage_.slots);
  build(k, false);
  simplify_axes(k.program.nest(), machine_);
  return {std::move(k.program), std::move(k.buffers), cluster_name(c_), -1};
}

void lower_tail_loop(const Cluster& tail, const Clustering& clustering, Storage& storage,
                     const Machine& machine, ProgramBuilder& k) {
  LoopLowering(tail, clustering, storage, machine, true).run_tail(k);
}

namespace {

// Parts of a concatenation that one kernel has code for: above the first number, so many to a
// kernel.
constexpr size_t most_parts = 128, parts_of_kernel = 64;

// The cluster where only some parts of the concatenation are, along the axis that joins them.
Cluster among_parts(const Cluster& c, int axis, Value joined, size_t first, size_t end) {
  Cluster out = c;
  const Expr start = concat_start(joined, first), size = concat_start(joined, end) - start;
  for (ClusterAxis& a : out.axes)
    if (a.id == axis) a.extent = size;
  const AxisMap place{{axis, Expr::axis(axis, size) + start}};
  for (Member& m : out.members) m.index = substitute(m.index, place);
  return out;
}

// A loop over points that joins very many parts, as loops that join some of them each.
std::vector<Cluster> by_parts(const Cluster& c) {
  if (c.has_rows() || c.split) return {c};
  for (const Member& m : c.members) {
    if (!m.node->is(Op::concat) || m.node->inputs.size() <= most_parts) continue;
    const Atom* axis = single_axis(m.index[static_cast<size_t>(m.node->attrs.ints[0])]);
    if (!axis) continue;
    std::vector<Cluster> out;
    const size_t n = m.node->inputs.size();
    for (size_t k = 0; k < n; k += parts_of_kernel)
      out.push_back(among_parts(c, axis->id, m.node, k, std::min(n, k + parts_of_kernel)));
    return out;
  }
  return {c};
}

}  // namespace

Kernels lower_loop(const Context& cx) {
  Kernels out;
  for (const Cluster& c : by_parts(cx.cluster))
    for (Lowered& k : LoopLowering(c, cx.clustering, cx.storage, *cx.options.machine).run())
      out.push_back(std::move(k));
  return out;
}

}  // namespace hologram::schedule
