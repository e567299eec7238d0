// schedule/machine.h: what the planner asks of the machine that a plan is for.
#pragma once

#include "atlas/class_graph.h"
#include "atlas/program.h"

namespace hologram::schedule {

/// How a product's right operand is laid out ahead of it.
struct Panel {
  int width = 0;  ///< columns side by side; 0: never packed ahead
  int group = 1;  ///< values of k that lie side by side
};

/// Answers and sizes. Nothing of it changes the bits of reproducible results: sums keep the order
/// that atlas/order.h fixes however they are cut. The sizes are a design's, not the processor's at
/// hand, so that plans are the same for every processor of a kind.
class Machine {
 public:
  virtual ~Machine() = default;
  /// For an operand's dtype and sums in `acc`.
  virtual Panel panel(DType operand, DType acc) const {
    (void)operand, (void)acc;
    return {};
  }
  int panel_width(DType operand) const { return panel(operand, operand).width; }
  /// ProductBlock::terms for a product whose bodies are not written yet and whose right operand
  /// will be packed, once if it keeps its content.
  virtual int terms(const atlas::ProductBlock& product, bool packed_once) const {
    (void)product, (void)packed_once;
    return 0;
  }
  /// Whether a weight that is a product's right operand, whose bodies are not written yet, is kept
  /// as three bfloat16 numbers for each of its own, in planes.
  virtual bool keeps_terms(const atlas::ProductBlock& product) const {
    (void)product;
    return false;
  }
  /// Whether a right operand of bytes that is new in each call is packed by a kernel of its own.
  virtual bool packs_given_bytes(const atlas::ProductBlock& product) const {
    (void)product;
    return false;
  }
  /// Columns side by side in the blocks of a weight that is kept as it is, numbers of `bits`, where
  /// four bytes of a column that follow each other along k lie together, for a product of it whose
  /// bodies are not written yet. 0: only the bytes of neighbouring columns do.
  virtual int word_columns(const atlas::ProductBlock& product, int bits) const {
    (void)product, (void)bits;
    return 0;
  }
  /// Vectors of sums that a loop keeps in registers side by side; 1 where a multiply-add is a
  /// sequence of instructions. As a rule panels are as wide as registers allow.
  virtual int sums_in_registers(DType operand) const {
    const int width = panel_width(operand);
    return width <= 8 ? 1 : width < 32 ? 8 : 16;
  }

  int vector = 16;  ///< f32 values that one step of a loop computes
  int units = 2;    ///< cores or multiprocessors that kernels are cut for
  /// Vectors that a loop's step of `vector` lanes fills where these share elements that they are
  /// multiplied with; sums take as many registers each.
  int shared_vectors = 1;
  /// Columns side by side in the blocks of a weight that is kept as it is and has a byte for each
  /// number: fewer than a kernel takes at a time are several streams of memory. 0: four vectors.
  int byte_columns = 0;
  // Of multiply-adds that wait for nothing but their own sum:
  int interleaved_sums = 4;  ///< so many in turn hide most of an addition's latency
  int busy_sums = 6;         ///< fewer leave the units waiting

  int64_t alignment = 64;          ///< of intermediates, in bytes: a multiple of 64
  size_t most_buffers = SIZE_MAX;  ///< of a kernel that comes of fusing

  int64_t near_bytes = 24 * 1024;               ///< of memory that a loop reads again at once
  int64_t far_bytes = 384 * 1024;               ///< of memory that the rounds of a loop read again
  int64_t row_scratch = 256 * 1024;             ///< of a row's values that stay between stages
  int64_t small_bytes = atlas::class_bytes;     ///< of a buffer that takes a boundary class
  int64_t small_total = atlas::boundary_bytes;  ///< of all such; 0: there is no such pool

  bool unrolls_windows = true;  ///< convolutions of short sums, their gradients and Winograd's
                                ///< method are kernels of their own; else they are products
  bool fuses = true;            ///< a float32 multiply-add rounded once is an instruction
  bool tails = true;            ///< a product's kernel also runs what follows on its rows
  bool parts = true;            ///< an epilogue may read several columns of a row
  bool symbolic_products =
      true;                ///< products of sizes that only a call knows; else these are loops
  bool sums_rows = false;  ///< one row times a matrix that lies along k is faster as sums of rows

  // Rows of products:
  int64_t in_place_rows = 4;   ///< so many read a right operand where it lies
  int64_t waiting_rows = 8;    ///< so many wait for the memory of the right operand
  int64_t gathered_rows = 32;  ///< from so many on the left operand's rows are copied in blocks

  double multiply_adds = 32;            ///< f32 multiply-adds in a cycle
  double transform_cycles = 40;         ///< Winograd's transform of a vector of pixels
  double weight_transform_cycles = 25;  ///< and of a 3 x 3 weight
};

/// A machine without panels.
inline const Machine& plain_machine() {
  static const Machine machine;
  return machine;
}

}  // namespace hologram::schedule
