// backend/cuda/async.h: what works beside the threads of a CTA on GPUs of compute capability 9.0:
// copies by tensor maps, barriers in shared memory that count their bytes, and products of
// warpgroups.
//
// LLVM knows little of it: most is inline assembly. What waits owns the registers that it waits
// for, so that nothing that reads or writes them moves past it.
#pragma once

#include <span>
#include <vector>

#include "backend/cuda/function.h"

namespace hologram::cuda {

/// A factor in shared memory, as a product of a warpgroup takes it: in rows of 128 bytes, eight
/// rows with the same pattern. Rows are along k or else, of 16-bit numbers, along x, 64 of x in
/// each and `next` bytes to the next 64. Rows along k may have 64 bytes instead.
struct SharedMatrix {
  Value* start;  ///< of the first element, i32
  bool depth_run;
  int next;
  int row_bytes = 128;
};

class Async {
 public:
  static constexpr int pattern_rows = 8, row_bytes = 128;
  static constexpr int depth_bytes = 32;  ///< values of k of one product

  explicit Async(CudaFunction& k) : k_(k), ir_(k.ir) {}

  /// Where the shared memory that comes with the launch begins, i32: a multiple of 1,024.
  Value* memory();

  /// A barrier for `count` arrivals a phase; fence() behind the last one that is made.
  void make_barrier(Value* barrier, int count);
  void fence_barriers();
  /// Until the phase of this parity (i32) is over.
  void wait(Value* barrier, Value* parity);
  /// Arrives, and has the phase wait for so many bytes more.
  void expect(Value* barrier, int bytes);
  /// Arrives where `when` (i1) holds.
  void arrive(Value* barrier, Value* when);
  /// Copies a box that begins at these coordinates (i32) of a tensor map.
  void copy(Value* to, Value* map, std::span<Value* const> at, Value* barrier);

  /// Gives registers of this warpgroup to others, or takes some.
  void keep_registers(int count, bool fewer);

  /// Before products whose sums were touched otherwise.
  void fence(std::vector<Value*>& sums);
  /// sums (a thread's of 64 rows) += left * right^T, or = where `adds` (i1) does not hold or is
  /// null: of 16 values of k, or of 32 of bytes, which are number `part` of those in the rows.
  void multiply(DType type, const SharedMatrix& left, const SharedMatrix& right, int part,
                Value* adds, std::vector<Value*>& sums);
  /// The same for 16-bit numbers of the left factor in four registers: of rows lane / 4 and eight
  /// below, two neighbours along k from 2 (lane % 4) on, and those eight values of k behind them.
  void multiply(DType type, std::span<Value* const> left, const SharedMatrix& right, int part,
                bool adds, std::vector<Value*>& sums);
  void commit();
  /// Until all but the last `left` committed products are done.
  void wait_products(int left, std::vector<Value*>& sums);

 private:
  Value* descriptor(const SharedMatrix& m, int part);
  llvm::CallInst* assembly(llvm::Type* result, const std::string& text,
                           const std::string& constraints, std::span<Value* const> arguments);
  void own(const std::string& text, std::vector<Value*>& sums);
  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
};

}  // namespace hologram::cuda
