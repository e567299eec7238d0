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

/// Answers and sizes. What decides the bits of reproducible results is the same for every processor
/// of a kind: the sizes are a design's, not the cache at hand.
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

  int vector = 16;                   ///< f32 values that one step of a loop computes
  int64_t near_bytes = 24 * 1024;    ///< of memory that a loop reads again at once
  int64_t far_bytes = 384 * 1024;    ///< of memory that the rounds of a loop read again
  int64_t row_scratch = 256 * 1024;  ///< of a row's values that stay between stages
  bool unrolls_windows = true;       ///< first layers, narrow groups, expansions and Winograd as
                                     ///< kernels of their own; else they are products
  int64_t small_bytes = atlas::class_bytes;     ///< of a buffer that takes a boundary class
  int64_t small_total = atlas::boundary_bytes;  ///< of all such; 0: there is no such pool
  double multiply_adds = 32;                    ///< f32 multiply-adds in a cycle
  double transform_cycles = 40;                 ///< Winograd's transform of a vector of pixels
  double weight_transform_cycles = 25;          ///< and of a 3 x 3 weight
};

/// A machine without panels.
inline const Machine& plain_machine() {
  static const Machine machine;
  return machine;
}

}  // namespace hologram::schedule
