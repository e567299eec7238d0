// atlas/program.h: block programs of the Atlas ISA: what the compiler emits and every backend
// executes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "atlas/blocks/attention.h"
#include "atlas/blocks/attention_grad.h"
#include "atlas/blocks/loop.h"
#include "atlas/blocks/product.h"
#include "atlas/blocks/sort.h"
#include "base/error.h"
#include "base/fingerprint.h"

namespace hologram::atlas {

/// The kinds of blocks. Their numbers are those of the binary form.
using Block = std::variant<LoopBlock, ProductBlock, AttentionBlock, AttentionGradBlock, SortBlock>;
enum class BlockKind : uint8_t { loop, product, attention, attention_grad, sort };

/// One kernel: its buffers, the number of size symbols, and one block.
struct Program {
 private:
  template <class B>
  static auto& as(auto& block) {
    auto* b = std::get_if<B>(&block);
    require(b, "program: a block of another kind, number {}", block.index());
    return *b;
  }

 public:
  std::vector<Buffer> buffers;
  int num_symbols = 0;
  Block block;

  BlockKind kind() const { return static_cast<BlockKind>(block.index()); }

  /// The block of a program of this kind. Throws Error(invalid_argument) for any other.
  LoopBlock& loop() { return as<LoopBlock>(block); }
  const LoopBlock& loop() const { return as<LoopBlock>(block); }
  ProductBlock& product() { return as<ProductBlock>(block); }
  const ProductBlock& product() const { return as<ProductBlock>(block); }
  AttentionBlock& attention() { return as<AttentionBlock>(block); }
  const AttentionBlock& attention() const { return as<AttentionBlock>(block); }
  AttentionGradBlock& attention_grad() { return as<AttentionGradBlock>(block); }
  const AttentionGradBlock& attention_grad() const { return as<AttentionGradBlock>(block); }
  SortBlock& sort() { return as<SortBlock>(block); }
  const SortBlock& sort() const { return as<SortBlock>(block); }

  bool has_tail() const {
    const auto* b = std::get_if<ProductBlock>(&block);
    return b && !b->tail.stages.empty();
  }

  /// A loop, or the tail of a product. Throws Error(invalid_argument) for other kinds.
  LoopBlock& nest() { return kind() == BlockKind::product ? product().tail : loop(); }
  const LoopBlock& nest() const { return kind() == BlockKind::product ? product().tail : loop(); }

  bool operator==(const Program&) const = default;
};

/// Checks types, definitions before use, axis scopes, buffer numbers and access, and bounds where
/// extents are known. Throws Error(invalid_argument) naming the place.
void verify(const Program& program);

/// Numbers the program's symbols densely by first use and returns the symbol that each number
/// stands for. Axes and values in expressions get the extents that the program gives them, as they
/// do when its text or binary form is read.
std::vector<Expr> number_symbols(Program& program);

/// Text form (the assembler's input); parse reads it back to an equal program.
std::string disassemble(const Program& program);
/// Throws Error(invalid_argument) with line and column.
Program assemble(std::string_view text);

/// Versioned binary form with a checksum. decode throws Error(corrupt).
std::string encode(const Program& program);
Program decode(std::string_view bytes);

/// Content fingerprint of the binary form.
Fingerprint fingerprint(const Program& program);

/// Replaces every arithmetic instruction whose op lacks Flag::exact by its sequence of exact
/// arithmetic (atlas/math.h); what backends run.
/// Those for which `keeps(op, operand type)` holds stay: the backend renders them itself, with the
/// same bits.
void expand_math(Program& program, const std::function<bool(ir::Op, DType)>& keeps = {});

}  // namespace hologram::atlas
