// strips/reducer.h: reductions of strips, in the order that atlas::Reduction states.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "atlas/blocks/loop.h"
#include "strips/body.h"

namespace hologram::strips {

/// One reduction of a stage, as loops.
struct ReductionPlan {
  VectorFn combine;
  atlas::ValueId value;
  int bytes;
  uint64_t identity;
  bool tree;

  /// Nothing for what is not rendered.
  static std::optional<ReductionPlan> of(const atlas::Reduction& r, const Vectors& vectors);
};

/// Takes the elements of a row one after the other. Lanes are either points, each with a reduction
/// of its own, or elements of the one row.
class Reducer {
 public:
  /// `points`: how many lanes have a row of their own; 1: lanes are elements.
  static int64_t bytes(const ReductionPlan& plan, bool points);
  Reducer(const ReductionPlan& plan, bool points, char* memory)
      : plan_(plan), stride_((points ? most_lanes : 1) * plan.bytes), memory_(memory) {}

  void begin(int64_t points);
  /// Element number `row` of the points [first, first + n).
  void push(const char* values, int64_t row, int64_t first, int64_t n);
  /// n further elements of the only point.
  void push(const char* values, int64_t n);
  /// For each point, to out.
  void finish(int64_t rows, char* out);

 private:
  char* partial(int64_t k) const { return memory_ + k * stride_; }
  void flush(int64_t partials);
  void count(const char* results);

  const ReductionPlan& plan_;
  int64_t stride_, points_ = 1, done_ = 0;
  char* memory_;
  std::vector<std::pair<int, std::vector<char>>> counter_;  // (level, results), levels descending
};

}  // namespace hologram::strips
