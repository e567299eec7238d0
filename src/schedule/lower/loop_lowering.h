// schedule/lower/loop_lowering.h: a cluster of element-wise values and reductions on its way to a
// loop block.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "schedule/lower/lower.h"

namespace hologram::schedule {

inline bool is_reduce(ir::Value v) {
  auto k = ir::info(v->op).kind;
  return k == ir::OpKind::reduce || k == ir::OpKind::reduce_index;
}

/// A value at coordinates.
struct At {
  ir::Value node;
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

  void run_tail(ProgramBuilder& k) {
    choose_scratch();
    build(k, false);
    k.program.nest().lane_axis = static_cast<int>(order_.size()) - 1;
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

  void order_axes();
  void find_levels();
  int level_below(ir::Value v, const Index& index, bool start_inside);
  Index placed(const Index& index) const;
  bool is_row_level(const Member& m) const;
  Emitter emitter(ProgramBuilder& k, atlas::Body& body, int stage,
                  std::shared_ptr<Emitter*> self = {}, Emitter::Local more = {});
  Lowered whole();
  Lowered partial_blocks();
  Lowered combine_blocks();
  void build(ProgramBuilder& k, bool collect);
  void point_stage(ProgramBuilder& k, int stage);
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
  std::map<ir::Value, int> level_;  // stage in which a reduction or a row-level store happens
  std::map<ir::Value, Accumulator> accumulators_;
  std::map<At, std::pair<int, int>, AtLess> computed_;  // first and last stage, while collecting
  std::map<At, int, AtLess> scratch_;                   // buffer; -1 until its first stage makes it
  std::map<At, int, AtLess> scratch_stage_;
  std::vector<int> partials_;  // slots of block results, split clusters
};

}  // namespace hologram::schedule
