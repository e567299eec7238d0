// backend/cpu/products/groups.h: narrow operands copied as groups of k for the dot instructions.
#pragma once

#include "backend/cpu/operands/index_builder.h"
#include "backend/cpu/operands/runs.h"
#include "backend/cpu/products/plan.h"

namespace hologram::cpu {

/// Copies operands of a product whose plan uses dot instructions: a word of 32 bits holds `group`
/// values of k, the first one uppermost. The signs of bytes of the left operand are flipped if the
/// right one has the same type: the instruction takes an unsigned and a signed one. Bytes become
/// words of 16 bits for the instruction that takes these (Dots::words).
class GroupPacker : IndexBuilder {
 public:
  /// `notes`: 64 bytes beside the left block for what is known of its numbers; null unless the plan
  /// keeps tiny ones.
  GroupPacker(CpuFunction& kernel, const ProductPlan& plan, Value* notes);

  /// Forgets the tiny numbers of the left block.
  void start_block(Scope& scope);
  /// The left operand's row at the m that `scope` fixes, to out.
  void pack_row(Scope& scope, Value* out);
  /// The left operand's group `step` of k for rows [m_begin, m_begin + rows), one behind the other,
  /// to out.
  void pack_step(Scope& scope, Value* step, Value* m_begin, Value* rows, Value* out);
  /// Columns [n_begin, n_begin + columns) of the right operand, as a panel.
  void pack_panel(Scope& scope, Value* n_begin, Value* columns, Value* out);
  /// The same where k is contiguous; `base`: the operand's first element.
  void turn_panel(Scope& scope, Value* base, Value* n_begin, Value* columns, Value* out);

  /// Bytes: what flipping the left operand's signs changed, to out: -128 times (of unsigned bytes
  /// 128 times) the sums of the panel's columns.
  void column_sums(Scope& scope, Value* panel, Value* out);

  /// bf16: whether a number other than 0 in the left block or in `words` words is so small that
  /// the instruction, to which subnormal numbers are 0, might differ from multiply-adds (i1).
  Value* has_tiny(Scope& scope, Value* panels, Value* words);

 private:
  // Rows of windows: run by run, as words where a run is whole words, else as they are at first.
  void pack_runs(Scope& scope, Value* out);
  void pack_run(Scope& scope, const Level& run, Value* offset, bool as_words, Value* out);
  // The same where runs are few and no whole words: each vector is put together of masked loads.
  bool by_pieces() const;
  void pack_pieces(Scope& scope, Value* out);
  // The row's vector at `offset` of k as words, zeros behind the depth.
  void store_words(Value* x, Value* mask, Value* out, Value* offset);
  Value* gather_group(Scope& scope, const atlas::Body& body, DType of, int axis, Value* at,
                      Value* mask, Value* step);
  bool widens() const { return plan_.dots == Dots::words; }
  llvm::Type* words(int lanes) const { return k_.widen(k_.ir.getInt32Ty(), lanes); }
  Value* word(Value* base, Value* index) { return element(k_, DType::i32, base, index); }
  Value* smaller(Value* x, Value* least);
  Value* any_tiny(Value* least);

  const atlas::ProductBlock& p_;
  const ProductPlan& plan_;
  TileModel t_;
  int group_, m_axis_, n_axis_, k_axis_;
  std::optional<SplitBody> runs_;
  llvm::Type* halves_;  // a vector of numbers of 16 bits
  Value *depth_, *steps_;
  Value* least_;  // of the left block: see smaller()
};

}  // namespace hologram::cpu
