// interp/lanes.h: the interpreter works on batches of elements ("lanes") to spread the cost
// of dispatch.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "atlas/program.h"

namespace hologram::interp {

/// Elements per batch.
inline constexpr int lanes = 128;

template <class T>
using Lanes = std::array<T, lanes>;

/// A program buffer in memory.
struct Memory {
  char* base = nullptr;
  DType dtype = DType::f32;
  int64_t extent = 0;  ///< in elements
  bool owned = false;  ///< scratch
};

/// What bodies see besides their own values.
struct Frame {
  std::span<const int64_t> symbols;
  std::vector<Lanes<int64_t>> axes;    ///< coordinates of the batch's elements, by axis number
  std::vector<uint64_t> accumulators;  ///< results of reductions, the same for all lanes …
  const uint64_t* element =
      nullptr;              ///< … unless set: accumulator 0 of each lane (products, attention)
  int64_t part_stride = 0;  ///< not 0: accumulator p of each lane is at element + p * part_stride
  std::vector<Memory> memory;
  int32_t sticky = 0;             ///< atlas::StickyError bits so far
  bool scan = false;              ///< accumulate in blocks, with
  std::vector<uint64_t> carries;  ///< by accumulator: in f64 for f32 sums and products
};

/// Value of `e` for the first n lanes. `values` holds the body's values, `lanes` of them per
/// instruction (may be null when `e` has no v<id>). Arithmetic wraps; division by zero gives 0.
void eval_lanes(const Expr& e, const Frame& frame, const uint64_t* values, int n, int64_t* out);

/// Value of an expression over symbols, and over axes at lane 0.
int64_t eval_uniform(const Expr& e, const Frame& frame);

/// One instruction of Code::arithmetic on n lanes; sets *error on an integer division by zero.
void arithmetic(const atlas::Instr& i, const uint64_t* a, const uint64_t* b, const uint64_t* c,
                uint64_t* out, int n, bool* error);

/// Runs one body on batches; keeps room for its values.
class BodyRunner {
 public:
  explicit BodyRunner(const atlas::Body& body);

  /// Executes every instruction for lanes [0, n), instruction by instruction.
  void run(Frame& frame, int n);
  /// Bits of a value after run().
  const uint64_t* value(atlas::ValueId id) const { return values_.data() + size_t{id} * lanes; }
  /// The last instruction's value.
  const uint64_t* result() const {
    return value(static_cast<atlas::ValueId>(body_.instrs.size() - 1));
  }
  bool empty() const { return body_.instrs.empty(); }

 private:
  void step(const atlas::Instr& i, Frame& frame, int n, uint64_t* out);

  const atlas::Body& body_;
  std::vector<uint64_t> values_;
};

/// Enumerates an index space in row-major order, batch by batch, into frame.axes[first…].
class Walk {
 public:
  Walk(std::vector<int64_t> extents, int first);
  int64_t total() const { return total_; }
  /// Writes the coordinates of elements [begin, begin + n).
  void coordinates(Frame& frame, int64_t begin, int n) const;

 private:
  std::vector<int64_t> extents_;
  int first_;
  int64_t total_ = 1;
};

/// One reduction over row elements pushed in row-major order, in the order that atlas::Reduction
/// states.
class Reducer {
 public:
  Reducer(ir::Op op, DType type, bool tree);
  /// `positions` may be null: the running count is reported.
  void push(const uint64_t* values, const uint64_t* positions, int n);
  /// The result (accumulator bits); the reducer is then as new.
  uint64_t finish();

 private:
  void push_block(uint64_t value);
  void flush();
  void push_best(const uint64_t* values, const uint64_t* positions, int n);

  ir::Op op_;
  DType type_;
  bool tree_;
  std::array<uint64_t, 64> partial_;
  int64_t in_block_ = 0;
  std::vector<std::pair<int, uint64_t>> counter_;  ///< (level, value), levels descending
  int64_t count_ = 0;
  uint64_t best_ = 0, best_position_ = 0;
};

/// x and y combined by a reduce_* op (sum, prod, max, min).
uint64_t combine(ir::Op reduce, DType type, uint64_t x, uint64_t y);

/// The block kinds. `frame` has memory and symbols set.
void run_block(const atlas::LoopBlock& block, Frame& frame);
void run_block(const atlas::ProductBlock& block, Frame& frame);
void run_block(const atlas::AttentionBlock& block, Frame& frame);
void run_block(const atlas::AttentionGradBlock& block, Frame& frame);
void run_block(const atlas::SortBlock& block, Frame& frame);

/// atlas::StageKind::scan on the next n elements: out[l] for x[l]; `carry` as in Frame::carries.
void scan(ir::Op reduce, DType type, uint64_t* carry, const uint64_t* x, uint64_t* out, int n);
/// The carry before the first element.
uint64_t first_carry(ir::Op reduce, DType type);

}  // namespace hologram::interp
