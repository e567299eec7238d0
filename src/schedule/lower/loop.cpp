// schedule/lower/loop.cpp: element-wise and reduction clusters → loop blocks.
#include "schedule/lower/loop.h"

#include <algorithm>
#include <map>
#include <set>

#include "atlas/limits.h"
#include "atlas/order.h"
#include "schedule/lower/kinds.h"

namespace hologram::schedule {
namespace {

using atlas::Access;
using atlas::AxisKind;
using atlas::Val;
using ir::Op;
using ir::Value;

struct At {
  Value node;
  Index index;
};

struct AtLess {
  bool operator()(const At& a, const At& b) const {
    if (a.node != b.node) return a.node->id < b.node->id;
    for (size_t i = 0; i < a.index.size(); ++i)
      if (!(a.index[i] == b.index[i])) return a.index[i].hash() < b.index[i].hash();
    return false;
  }
};

class LoopLowering {
 public:
  /// `tail`: its axes keep their order, and rows are what lanes run along.
  LoopLowering(const Cluster& c, const Clustering& clustering, Storage& storage,
               const Machine& machine, bool tail = false)
      : c_(c), clustering_(clustering), storage_(storage), machine_(machine), tail_(tail) {
    order_axes();
    for (const Member& m : c.members)
      members_.push_back({m.node, placed(m.index), placed(m.operand)});
    find_levels();
  }

  void run_tail(Kernel& k) {
    choose_scratch();
    build(k, false);
    k.program.loop.lane_axis = static_cast<int>(order_.size()) - 1;
  }

  std::vector<Lowered> run() {
    std::vector<Lowered> out;
    if (c_.split) {
      out.push_back(partial_blocks());
      out.push_back(combine_blocks());
    } else {
      out.push_back(whole());
    }
    return out;
  }

 private:
  struct Accumulator {
    int number;
    DType type;
    int stage;
  };

  static bool is_reduce(Value v) {
    auto k = ir::info(v->op).kind;
    return k == ir::OpKind::reduce || k == ir::OpKind::reduce_index;
  }

  void order_axes();
  void find_levels();
  int level_below(Value v, const Index& index, bool start_inside);
  Index placed(const Index& index) const;
  bool is_row_level(const Member& m) const;
  Emitter emitter(Kernel& k, atlas::Body& body, int stage, std::shared_ptr<Emitter*> self = {},
                  Emitter::Local more = {});
  Lowered whole();
  Lowered partial_blocks();
  Lowered combine_blocks();
  void build(Kernel& k, bool collect);
  void point_stage(Kernel& k, int stage);
  void choose_scratch();
  bool prefers_rows() const;
  Expr row_position() const;
  Expr axis(size_t i) const { return Expr::axis(static_cast<int>(i), order_[i].extent); }

  const Cluster& c_;
  const Clustering& clustering_;
  Storage& storage_;
  const Machine& machine_;
  bool tail_;
  std::vector<ClusterAxis> order_;
  size_t parallel_ = 0;  // leading parallel axes of order_
  std::vector<Member> members_;
  std::map<Value, int> level_;  // stage in which a reduction or a row-level store happens
  std::map<Value, Accumulator> accumulators_;
  std::map<At, std::pair<int, int>, AtLess> computed_;  // first and last stage, while collecting
  std::map<At, int, AtLess> scratch_;                   // buffer; -1 until its first stage makes it
  std::map<At, int, AtLess> scratch_stage_;
  std::vector<int> partials_;  // slots of block results, split clusters
};

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
        if (const Atom* x = single_axis(m.index[i]); x && x->id == a.id)
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

// A body in which reductions before `stage` are accumulators; `more` may know further values.
Emitter LoopLowering::emitter(Kernel& k, atlas::Body& body, int stage,
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

// Finds element-wise values that several row stages compute and that cost more than a store and a
// load.
void LoopLowering::choose_scratch() {
  Expr row(1);
  for (size_t i = parallel_; i < order_.size(); ++i) row *= order_[i].extent;
  if (!row.is_const() || (!tail_ && !prefers_rows())) return;
  Kernel trial(storage_.slots);
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
    int64_t size = row.constant_value() * size_of(at.node->dtype);
    if (!worth || bytes + size > (tail_ ? atlas::limits::tail_scratch_bytes : machine_.row_scratch))
      continue;
    bytes += size;
    covered.insert(below.begin(), below.end());
    scratch_.emplace(at, -1);
    scratch_stage_.emplace(at, it->second.first);
  }
}

void LoopLowering::build(Kernel& k, bool collect) {
  atlas::LoopBlock& loop = k.program.loop;
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
void LoopLowering::point_stage(Kernel& k, int stage) {
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
  if (!s.body.instrs.empty()) k.program.loop.stages.push_back(std::move(s));
}

Lowered LoopLowering::whole() {
  choose_scratch();
  Kernel k(storage_.slots);
  build(k, false);
  simplify_axes(k.program.loop, machine_);
  return {std::move(k.program), std::move(k.buffers), cluster_name(c_), -1};
}

// First half of a split reduction: every block of 4,096 row elements is a parallel unit of its own.
Lowered LoopLowering::partial_blocks() {
  Shape parallel_shape, row_shape;
  for (size_t i = 0; i < order_.size(); ++i)
    (i < parallel_ ? parallel_shape : row_shape).push_back(order_[i].extent);
  Expr n = numel(row_shape), blocks = ceil_div(n, Expr(atlas::sum_block));
  Kernel k(storage_.slots);
  atlas::LoopBlock& loop = k.program.loop;
  // The block axis comes first, so that neighbouring points stay neighbours.
  Expr b = Expr::axis(0, blocks),
       count = min(Expr(atlas::sum_block), n - Expr(atlas::sum_block) * b);
  loop.axes.push_back({AxisKind::parallel, blocks});
  AxisMap map;
  for (size_t i = 0; i < parallel_; ++i) {
    loop.axes.push_back({AxisKind::parallel, order_[i].extent});
    map.emplace(static_cast<int>(i), Expr::axis(static_cast<int>(i) + 1, order_[i].extent));
  }
  loop.parallel_rank = static_cast<int>(parallel_) + 1;
  loop.axes.push_back({AxisKind::row, count});
  Expr position = Expr(atlas::sum_block) * b + Expr::axis(loop.parallel_rank, count);
  Index rows = through_reshape(row_shape, {n}, {position});
  for (size_t i = 0; i < rows.size(); ++i) map.emplace(static_cast<int>(parallel_ + i), rows[i]);

  atlas::Stage s{atlas::StageKind::row, {}, {}, {}}, p{atlas::StageKind::point, {}, {}, {}};
  Emitter e = emitter(k, s.body, 0), pe = emitter(k, p.body, 0);
  Shape partial_shape{blocks};
  partial_shape.insert(partial_shape.end(), parallel_shape.begin(), parallel_shape.end());
  Index partial_at{b};
  for (size_t i = 0; i < parallel_; ++i) partial_at.push_back(map.at(static_cast<int>(i)));
  for (const Member& m : members_) {
    if (is_reduce(m.node)) {
      Val x = e.widen(e.value(m.node->input(), substitute(m.operand, map)));
      int number = static_cast<int>(s.reductions.size());
      s.reductions.push_back({m.node->op, x.type, x.id, false, atlas::no_value});
      partials_.push_back(storage_.temporary(x.type, partial_shape, "partials"));
      pe.store(partials_.back(), partial_at, pe.builder().accumulator(number, x.type));
    } else if (is_row_level(m)) {
      Index at = substitute(m.index, map);
      for (int slot : storage_.stores_of(m.node)) e.store(slot, at, e.value(m.node, at));
    }
  }
  loop.stages.push_back(std::move(s));
  loop.stages.push_back(std::move(p));
  simplify_axes(loop, machine_);
  return {std::move(k.program), std::move(k.buffers), cluster_name(c_) + " (blocks)", -1};
}

// Second half: the binary counter over the blocks' results, then everything with one element per
// point.
Lowered LoopLowering::combine_blocks() {
  Expr n(1);
  for (size_t i = parallel_; i < order_.size(); ++i) n *= order_[i].extent;
  Expr blocks = ceil_div(n, Expr(atlas::sum_block));
  Kernel k(storage_.slots);
  atlas::LoopBlock& loop = k.program.loop;
  Index at{Expr::axis(static_cast<int>(parallel_), blocks)};
  for (size_t i = 0; i < parallel_; ++i) {
    loop.axes.push_back({AxisKind::parallel, order_[i].extent});
    at.push_back(axis(i));
  }
  loop.parallel_rank = static_cast<int>(parallel_);
  loop.axes.push_back({AxisKind::row, blocks});
  atlas::Stage s{atlas::StageKind::row, {}, {}, {}};
  atlas::BodyBuilder body(s.body);
  size_t next = 0;
  for (const Member& m : members_) {
    if (!is_reduce(m.node)) continue;
    int slot = partials_[next];
    const Slot& from = storage_.slots[static_cast<size_t>(slot)];
    Val x = body.load(k.buffer(slot, Access::read), from.dtype, offset_of(at, from.strides));
    s.reductions.push_back({m.node->op, x.type, x.id, true, atlas::no_value});
    accumulators_[m.node] = {static_cast<int>(next++), x.type, 0};
  }
  loop.stages.push_back(std::move(s));
  point_stage(k, 1);
  simplify_axes(loop, machine_);
  return {std::move(k.program), std::move(k.buffers), cluster_name(c_), -1};
}

}  // namespace

void lower_tail_loop(const Cluster& tail, const Clustering& clustering, Storage& storage,
                     const Machine& machine, Kernel& k) {
  LoopLowering(tail, clustering, storage, machine, true).run_tail(k);
}

Kernels lower_loop(const Context& cx) {
  return LoopLowering(cx.cluster, cx.clustering, cx.storage, *cx.options.machine).run();
}

}  // namespace hologram::schedule
