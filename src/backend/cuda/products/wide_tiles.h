// backend/cuda/products/wide_tiles.h: what products by warpgroups have in common: who has which
// tile, copies into slots of shared memory, and the way of the sums to the epilogue.
#pragma once

#include "backend/cuda/async.h"
#include "backend/cuda/products/planes.h"
#include "backend/cuda/products/tile.h"
#include "backend/cuda/sums.h"

namespace hologram::cuda {

/// How the module's other kernel is cut, if this one's tiles of so many columns may be so few that
/// k is cut.
std::optional<Tiling> merged_tiling(const atlas::ProductBlock& block, int columns,
                                    const Tiling& other);

/// How a CTA's tile of 128 rows is cut, and its shared memory.
struct WideShape {
  static constexpr int rows = 128, group = 128, consumers = 2, threads = group * (1 + consumers);
  static constexpr int group_rows = rows / consumers;

  int columns;                  ///< of the tile
  int step;                     ///< values of k of a slot
  int slots;                    ///< of shared memory
  int left_bytes, right_bytes;  ///< of a slot
  int slice;                    ///< columns of sums that a warp puts into its shared memory
  int arrivals;                 ///< that free a slot
  bool turned_rows = false;     ///< as SumSlices has them
  bool mends = false;           ///< sums that are not finite
  bool left_registers = false;  ///< the left factor comes from registers

  constexpr int slot_bytes() const { return left_bytes + right_bytes; }
  constexpr int warp_bytes() const { return SumSlices{columns, slice, 1}.bytes(); }
  constexpr int sums_at() const { return slots * slot_bytes(); }
  constexpr int barriers_at() const { return sums_at() + 4 * consumers * warp_bytes(); }
  constexpr int shared_bytes() const { return barriers_at() + 2 * slots * 8; }
};

/// The kernel @hologram_wide of a product.
class WideTiles {
 public:
  /// `merged`: how the module's other kernel is cut, whose tiles the sums of parts of k are left
  /// in; or nothing, where k is never cut.
  WideTiles(CudaFunction& k, const WideFactors& factors, const WideShape& shape,
            std::optional<Tiling> merged);
  virtual ~WideTiles() = default;
  void run();

 protected:
  using Values = std::vector<Value*>;

  /// What a consumer's thread keeps for all tiles; the builder stands where it begins.
  virtual void start_consumers() {}
  /// Sums up slots [begin, end) (i32) along k of a tile of a warpgroup's 64 rows: `state` is the
  /// next slot and the parity of its phase, and what follows is returned. The sums are a thread's
  /// of wgmma: of every eight columns two neighbours, in rows row_of_lane() and eight below that.
  virtual Values multiply_tile(Scope& round, Value* begin, Value* end, Values state,
                               Values& sums) = 0;

  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  Value* full(Value* slot);   ///< the barrier of what comes into it
  Value* empty(Value* slot);  ///< the barrier of those who read it
  Value* slot_base(Value* slot);
  /// The next slot, and the parity of its phase.
  std::pair<Value*, Value*> next(Value* slot, Value* parity);
  Value* group() const { return group_; }  ///< the consumers' number, i32
  Value* warp() const { return warp_; }    ///< in its group
  Value* lane() const { return lane_; }
  SumSlices slices_of() const { return {shape_.columns, shape_.slice, lanes_, shape_.turned_rows}; }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  Async async_;
  const atlas::ProductBlock& block_;
  const WideFactors& factors_;

 private:
  struct Tile {
    Value *row, *column;           // of its first result, i32
    Value *batch, *part;           // their numbers, i32
    Value *begin, *end;            // of the part's slots along k, i32
    Values left = {}, right = {};  // coordinates of the factors behind x and k, i32
  };

  Value* wide(Value* n) { return ir_.CreateZExt(n, ir_.getInt64Ty()); }
  const Expr& extent(int axis) const { return block_.axes[static_cast<size_t>(axis)].extent; }
  Value* value(Scope& at, const Expr& e);
  Tile find_tile(Scope& at, Value* unit);
  void bring(const MappedFactor& f, int map, int count, Value* to, Value* x, Value* k,
             const Values& batch, Value* barrier);
  void bring_tiles(Scope& one);
  void multiply_tiles(Scope& consumer);
  void finish(Scope& round, const Tile& tile, const Values& sums);
  void run_epilogue(Scope& row, Value* column, Value* from);
  void leave(Scope& point, const Tile& tile, Value* row, Value* column, Value* from);

  const WideShape shape_;
  const std::optional<Tiling> merged_;
  int lanes_;  // neighbours of a lane in the epilogue
  llvm::Type* sum_;
  Value *base_ = nullptr, *stride_ = nullptr, *units_ = nullptr;
  Value* parts_ = nullptr;                                        // of a tile
  Value *down_ = nullptr, *across_ = nullptr, *steps_ = nullptr;  // of tiles; of k
  Value *group_ = nullptr, *lane_ = nullptr, *warp_ = nullptr;    // of consumers
};

/// What the launch of @hologram_wide needs, to the facts of its module's other kernel; and the
/// kernel that merges parts, where only this one leaves such.
void add_wide_facts(Facts& facts, llvm::Module& module, const atlas::Program& program,
                    const WideFactors& factors, const WideShape& shape,
                    const std::optional<Tiling>& merged);

}  // namespace hologram::cuda
