// backend/cuda/attention/group_tiles.h: what attention by warpgroups has in common: who has which
// tile, copies into shared memory, and the way of the sums to the epilogue.
#pragma once

#include "backend/cuda/attention/groups.h"
#include "backend/cuda/attention/softmax.h"

namespace hologram::cuda {

/// The kernel @hologram_wide of attention.
class GroupTiles {
 public:
  /// `exact`: exponentials, as GroupSoftmax has them.
  GroupTiles(CudaFunction& k, const GroupsPlan& plan, bool exact);
  virtual ~GroupTiles() = default;
  void run();

 protected:
  using Values = std::vector<Value*>;
  static constexpr size_t halves = GroupSoftmax::halves;

  /// Computes a warpgroup's rows. `state`: slot and parity of the next keys and values, and the
  /// queries' parity; what follows is returned.
  virtual Values take_tile(AttentionRows& rows, Values state) = 0;

  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  Value* narrow(Value* n) { return ir_.CreateTrunc(n, ir_.getInt32Ty()); }
  Value* wide(Value* n) { return ir_.CreateZExt(n, ir_.getInt64Ty()); }
  llvm::Constant* zero() { return llvm::ConstantFP::get(real_, 0.0); }

  /// Barriers: of each kind and slot one that counts what comes, and one for those who have read
  /// it.
  Value* full(AttentionKind kind, Value* slot);
  Value* empty(AttentionKind kind, Value* slot);
  Value* place(AttentionKind kind, Value* slot);
  /// The next slot, and the parity of its phase.
  std::pair<Value*, Value*> next(Value* slot, Value* parity);
  /// Where the tile's keys begin and end, i64: a block at least, of which none may be seen.
  std::pair<Value*, Value*> keys_of(AttentionRows& rows);
  const GroupsShape::Part& part(AttentionKind kind) const { return shape_.parts[kind]; }

  /// Divides by the totals, runs the epilogue and stores logarithms of totals. The state's totals
  /// are the thread's shares.
  void finish(AttentionRows& rows, GroupSoftmax::State& state, Values& sums);
  /// What finish() also calls, with the row's totals and results before the epilogue.
  virtual void check_results(Scope&, const GroupSoftmax::State&, const Values&) {}

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  Async async_;
  const atlas::AttentionBlock& a_;
  const AttentionPlan& plan_;
  const GroupsShape& shape_;
  llvm::Type* real_;
  Value *base_ = nullptr, *group_ = nullptr, *lane_ = nullptr, *warp_ = nullptr;
  Value* leads_ = nullptr;  ///< the warp's first lane: a wait for products is over for a warp alone
  Value* warp_row_ = nullptr;  ///< the warp's first, among the CTA's
  std::optional<GroupSoftmax> softmax_;

 private:
  Values batch_of(Scope& at, const MappedFactor& f);
  void bring(AttentionKind kind, Value* slot, Value* first, const Values& batch);
  void bring_tiles(Scope& one);
  void take_tiles(Scope& consumer);

  const std::array<MappedFactor, 3>& matrices_;
  const bool exact_;
  Value *stride_ = nullptr, *tiles_ = nullptr;
};

}  // namespace hologram::cuda
