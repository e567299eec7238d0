// backend/cpu/loops/stages.h: a loop block's stages at one point, or at a vector of points.
#pragma once

#include <deque>
#include <memory>

#include "backend/cpu/loops/lanes.h"
#include "backend/cpu/loops/prefetch.h"
#include "backend/cpu/loops/ranges.h"
#include "backend/cpu/loops/reduce.h"

namespace hologram::cpu {

class LoopStages {
 public:
  LoopStages(const LoopFrame& frame, LoopLanes& lanes);

  /// All stages at the point of `scope`.
  void emit(Scope& scope);

  /// All stages at two points, the second of which is the next one for the scope of the first.
  void emit_two(Scope& first, Scope& second);

  /// Whether rows may be walked one after the other, each for all points of a line: a single serial
  /// stage without accumulators.
  bool walks_rows_first() const;

  /// That stage at points [low, high) of the lane axis.
  void emit_rows_first(Scope& scope, Value* low, Value* high);

  /// The first stage at the point of `scope`, which is the first of all, where the plan carries it
  /// along.
  void emit_first(Scope& scope);

  /// The last stage at the point before that of `scope`, which is the last of all, where the plan
  /// has it trail.
  void emit_last(Scope& scope);

 private:
  struct RowStage {
    const atlas::Stage& stage;
    size_t number;
    RowShape shape;
    int together;  ///< vectors of a group at a time, instruction by instruction
    int64_t step;  ///< elements that a round of the loop takes
    std::vector<std::unique_ptr<Reducer>> reducers;
    RowStage* ahead;                      ///< runs along over the next point's row, or null
    const atlas::Body* behind = nullptr;  ///< and this over the last point's
    bool turns = false;                   ///< `ahead` runs by turns, not vector by vector
  };

  void emit(Scope& scope, size_t first, size_t last);
  void row_loops(Scope& scope, int axis, int last, const std::function<void(Scope&)>& fill);
  Value* indices_apart(Scope& scope, const Checks& checks);
  void checked_rows(Scope& scope, const atlas::Body& body, const Checks& checks);
  void serial_stage(Scope& scope, const atlas::Stage& s, int accumulator);
  void set_behind(Scope& scope);
  void row_stage(Scope& scope, const atlas::Stage& s, size_t number, bool turns = false);
  void scan_stage(Scope& scope, const atlas::Stage& s);
  void update(Scope& scope, RowStage& stage, int copy, Value* position, Value* lanes_mask);
  void advance_all(Scope& scope, RowStage& stage, Value* count);
  Value* elements(Scope& scope, RowStage& stage);
  Value* groups(Scope& scope, RowStage& stage);
  void rounds(Scope& row, RowStage& stage, Value* begin, Value* end, Value* before, bool nonempty);
  void group(Scope& scope, RowStage& stage, int axis, Value* i, Value* position, Value* left);

  const LoopFrame& f_;
  LoopLanes& lanes_;
  Prefetches prefetches_;
  CpuFunction& k_;
  llvm::IRBuilder<>& ir_;
  std::vector<int> first_accumulator_;
  std::deque<Checks> checks_;  ///< of serial stages: scopes know bodies by their addresses
  std::vector<llvm::AllocaInst*> carried_;  ///< what the first stage came to, by reduction
  std::vector<llvm::AllocaInst*> behind_;   ///< what accumulators were at the point before
};

}  // namespace hologram::cpu
