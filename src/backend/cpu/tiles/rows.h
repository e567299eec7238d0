// backend/cpu/tiles/rows.h: the left operand of a product of tiles, copied as rows of tiles.
#pragma once

#include "backend/cpu/operands/index_builder.h"
#include "backend/cpu/operands/runs.h"
#include "backend/cpu/products/plan.h"
#include "backend/cpu/tiles/terms.h"

namespace hologram::cpu {

/// Copies rows: groups of two tiles, in them the steps, in these the terms, then the group's rows
/// of 64 bytes and room for 32.
class TileRows : IndexBuilder {
 public:
  TileRows(CpuFunction& kernel, const TileProduct& plan, Value* steps);

  /// Bytes of a group.
  Value* group_bytes() { return mul(steps_, int64_t{plan_.planes()} * 2048); }
  /// Bytes of memory to work in, for use_memory.
  Value* memory_bytes();
  void use_memory(Value* memory) { memory_ = memory; }
  /// Copies rows [m, m + count) to `out`; with f32 operands classes[r] gets the atlas::Magnitudes
  /// (i32) of each row.
  void pack(Scope& scope, Value* m, Value* count, Value* out, Value* classes);

 private:
  Value* place(Value* row);
  // An operand that lies along m: a tile of rows by words of k, turned over in registers.
  void pack_columns(Scope& scope, Value* m, Value* count, Value* out, Value* classes);
  // By plane, the words number `word` of a step's 16 for 16 rows; folds their classes.
  std::vector<Value*> column_words(Scope& scope, Value* m, Value* mask, Value* step, int word,
                                   Value*& least, Value*& most);
  Value* column(Scope& scope, Value* m, Value* mask, Value* k);
  void row(Scope& scope, Value* out, Value* class_out);
  Value* values(Scope& scope, Value* offset, Value* mask);
  std::vector<Value*> terms(Value* x);
  Value* bytes(Value* x);

  const atlas::ProductBlock& p_;
  const TileProduct& plan_;
  Value *steps_, *depth_;
  bool along_m_;
  std::optional<SplitBody> runs_;  // windows: a row is read in runs to memory_ first
  Value* memory_ = nullptr;
  Value *least_ = nullptr, *most_ = nullptr;  // of a row's first terms: see TileClasses
};

}  // namespace hologram::cpu
