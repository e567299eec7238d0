// backend/cuda/sums.h: from the sums that products of warpgroups leave to bodies over them.
#pragma once

#include <functional>

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// How the sums of a warp's 16 rows are handed on: through shared memory that it has for itself,
/// `slice` columns at a time, so that neighbouring lanes have neighbouring columns, `lanes` each.
struct SumSlices {
  int columns, slice, lanes;
  bool turned_rows = false;  ///< of every eight, as row_of_lane() has them

  constexpr int bytes() const { return 16 * slice * 4; }  ///< of a warp's shared memory
};

/// Neighbours that a lane has: of a short body 16 bytes of 16-bit results; of longer ones less,
/// whose values have to find room beside the sums.
int lanes_of_sums(const atlas::Body& epilogue);

/// Of eight rows, the one whose sums a lane has: lane / 4 or, of turned rows, the even ones before
/// the odd ones.
Value* row_of_lane(CudaFunction& k, Value* lane, bool turned_rows);

/// Calls `take` for each `lanes` of a thread's sums after they have changed places: the row of the
/// warp's 16, the first column (i32) and where in `memory` the sums are. `sums` are a thread's of
/// wgmma: of every eight columns two neighbours, in rows row_of_lane() and eight below that.
void hand_out(CudaFunction& k, Scope& scope, const SumSlices& slices, Value* memory, Value* lane,
              const std::vector<Value*>& sums,
              const std::function<void(Scope&, Value* row, Value* column, Value* from)>& take);

/// Runs `body` over the sums at `from`, as accumulator 0, at coordinates `column` (i64) and those
/// behind it of `axis`: as one vector or, where the row ends before the last of them or not all of
/// them are finite and `mend` is there, one by one, mended.
void run_over(CudaFunction& k, Scope& row, const atlas::Body& body, int axis, Value* column,
              Value* end, Value* from, int lanes, llvm::Type* type,
              const std::function<Value*(Scope&, Value*)>& mend = nullptr);

}  // namespace hologram::cuda
