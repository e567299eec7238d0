// backend/cpu/loops/lanes.h: a loop block's axis cut into vectors, and what is left over.
#pragma once

#include <functional>

#include "backend/cpu/loops/frame.h"

namespace hologram::cpu {

class LoopLanes {
 public:
  /// Begins at the root scope's end.
  explicit LoopLanes(const LoopFrame& frame);

  /// Runs `fill` for all of [low, high) along `axis`: `unroll` vectors at a time, then single
  /// vectors, then the tail. `bodies` are what it emits.
  void loop(Scope& outer, int axis, Value* low, Value* high, int unroll,
            const std::vector<const atlas::Body*>& bodies, const std::function<void(Scope&)>& fill);

  /// Runs `fill` for [at, high), fewer than a vector of the plan's lanes: masked, or one by one.
  void rest(Scope& outer, int axis, Value* at, Value* high,
            const std::function<void(Scope&)>& fill);

  /// Behind all loops: waits for stores past the caches, once, since each wait empties the
  /// processor's buffers and lines may be short.
  void finish(Scope& root);

  /// The first `count` of `lanes` (may be negative or more than there are).
  Value* mask(Value* count, int lanes);

 private:
  void pairs(Scope& outer, int axis, Value* low, Value* high, Value* stream,
             const std::vector<const atlas::Body*>& bodies,
             const std::function<void(Scope&)>& fill);

  /// An element whose neighbours along the lanes are fetched ahead of their use.
  struct Reach {
    int buffer;
    Expr index;
  };

  std::vector<Reach> reaches(int axis, const std::vector<const atlas::Body*>& bodies,
                             int64_t ahead) const;
  std::vector<Reach> results(int axis, const std::vector<const atlas::Body*>& bodies) const;
  void fetch(Scope& scope, const std::vector<Reach>& reach, int count = 1,
             Value* distance = nullptr);
  Value* vectors(Scope& outer, int axis, Value* at, Value* high, int unroll, Value* streaming,
                 const std::function<void(Scope&)>& fill, int lanes = 0, Value* backwards = nullptr,
                 const std::vector<Reach>& results = {});
  Value* aligned_stores(Scope& outer, int axis, Value* low,
                        const std::vector<const atlas::Body*>& bodies);
  void tail(Scope& outer, int axis, Value* at, Value* high,
            const std::function<void(Scope&)>& fill);
  void masked(Scope& s, int axis, Value* at, Value* high, int lanes,
              const std::function<void(Scope&)>& fill);

  const LoopFrame& f_;
  CpuFunction& k_;
  llvm::IRBuilder<>& ir_;
  Value* large_ = nullptr;      ///< whether the buffers exceed cost::stream
  Value* middling_ = nullptr;   ///< whether they exceed cost::turn
  Value* backwards_ = nullptr;  ///< whether this pass goes from the end to the beginning
  bool streams_ = false;        ///< some loop may store past the caches
  bool from_zero_ = false;      ///< the lanes' coordinates begin with 0
};

}  // namespace hologram::cpu
