// backend/cpu/loops/prefetch.h: memory that a loop block's row stages will want soon.
#pragma once

#include "backend/cpu/loops/frame.h"

namespace hologram::cpu {

/// Along rows the stage that computes most has time to fetch what the next row reads and what
/// this row will write. Where no stage computes much, each reads some way ahead of itself:
/// hardware stops at the end of each page. A stage that carries the next row's first stage reads
/// that row itself, and what it writes was not read before.
class Prefetches {
 public:
  explicit Prefetches(const LoopFrame& frame);

  /// Fetches what stage `number` is to fetch at the lanes of `scope`, `offset` vectors on from
  /// where a cache line begins.
  void emit(Scope& scope, size_t number, int offset) const;

  /// At a point: fetches the rows of large buffers that a point some way on along the last parallel
  /// axis finds by numbers it loads (embeddings), which hardware does not foresee.
  void emit_gathered(Scope& scope) const;

 private:
  /// A load of a row by its number: what its index takes, and the index in front of the row.
  struct Gather {
    atlas::Body numbers;
    int buffer;
    Expr index;
    int64_t bytes;  ///< of the row
  };
  bool known_before(const atlas::Instr& i) const;
  void find_gathers();

  /// An element of a buffer whose neighbours along the lanes a stage fetches ahead of their use.
  struct Prefetch {
    int buffer;
    Expr index;
    int locality;  ///< 3: to the nearest cache, 2: to the second
    bool write = false;
  };

  const LoopFrame& f_;
  std::vector<std::vector<Prefetch>> of_stage_;
  std::vector<Gather> gathers_;
};

/// Down a column each row element lies on a page of its own, which hardware does not foresee: what
/// `body` reads `ahead` row elements on.
void prefetch_down(const LoopFrame& f, Scope& row, const atlas::Body& body, int64_t ahead);

}  // namespace hologram::cpu
