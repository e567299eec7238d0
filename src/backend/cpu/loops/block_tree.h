// backend/cpu/loops/block_tree.h: the fixed tree over the blocks of a reduction.
#pragma once

#include "backend/cpu/function.h"

namespace hologram::cpu {

/// Block results waiting to be combined, of `vectors` sums that run side by side: level l holds the
/// results of 2^l blocks if bit l of their number is set.
class BlockTree {
 public:
  BlockTree(CpuFunction& k, const atlas::Reduction& r, llvm::Type* type, int levels = 65,
            int vectors = 1);

  void reset(Scope& scope);
  /// A block's result.
  void push(Scope& scope, Value* value);
  /// The same for vector number `vector`; after those of all vectors, next_block().
  void push(Scope& scope, Value* value, Value* vector);
  void next_block(Scope& scope);
  Value* finish(Scope& scope, Value* identity);
  Value* finish(Scope& scope, Value* identity, Value* vector);

 private:
  Value* lowest(Value* n);
  Value* without_lowest(Value* n);
  Value* at(Value* level, Value* vector);
  Value* load(Value* level, Value* vector);

  CpuFunction& k_;
  const atlas::Reduction& r_;
  llvm::Type* type_;
  int vectors_;
  Value *levels_, *blocks_;
};

}  // namespace hologram::cpu
