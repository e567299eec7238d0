// backend/cpu/loops/squares.h: loads along the axis before the lanes, read as squares of lanes that
// are turned over.
#pragma once

#include <vector>

#include "backend/cpu/loops/frame.h"

namespace hologram::cpu {

/// The squares that a loop block's transposed loads make, of its only body.
class Squares {
 public:
  /// At the end of the kernel's root.
  explicit Squares(const LoopFrame& frame);

  /// What there is of a square: a mask of its lines, or null for all, its columns, and how many
  /// lines.
  struct Some {
    Value* lines;
    int columns;
    Value* count;
  };

  /// Loads the squares that begin at coordinates `first` of the axis before the lanes and j of the
  /// lane axis, and puts them into memory with a row for each line.
  void load(Scope& scope, Value* first, Value* j, const Some& some) const;
  /// Gives the body in `line`, line r of these squares, what they hold for it.
  void preset(Scope& line, Value* r) const;

  /// Whether the lines of a square are short enough to be written out one by one, so that it stays
  /// in registers.
  bool fit_registers() const;
  /// Then: the body for all lines of a whole square.
  void lines_in_registers(Scope& scope, Value* first, Value* j) const;

 private:
  /// Transposed loads of neighbours (as a rule, one load), the square of what they read, a row of
  /// it, and what guards it, if anything does. `words`: an element of the square is all of them;
  /// else they take turns.
  struct Square {
    std::vector<atlas::ValueId> loads;
    Value* memory;
    atlas::Body guard;
    llvm::Type* row;
    bool words;
    bool backwards;  ///< the lines go down in memory: a column is read from the last one on

    /// How many squares they are side by side.
    int count() const { return words ? 1 : static_cast<int>(loads.size()); }
  };

  const atlas::Instr& load_of(const Square& q) const { return body_.instrs[q.loads[0]]; }
  DType type_of(const Square& q) const {
    return k_.program.buffers[static_cast<size_t>(load_of(q).buffer)].dtype;
  }
  void load_one(Scope& scope, const Square& to, Value* first, Value* j, const Some& some) const;
  void load_neighbours(Scope& scope, const Square& to, Value* first, Value* j,
                       const Some& some) const;
  std::vector<Value*> turned(Scope& scope, const Square& q, Value* first, Value* j, int n) const;
  Value* row_of(const Square& q, Value* r, size_t number) const;
  Value* part_of_words(const Square& q, Value* row, size_t number) const;
  /// Where column j + c of neighbours begins.
  Value* column(Scope& scope, const Square& q, Value* first, Value* j, int c) const;
  void fetch_column(Scope& scope, const Square& q, Value* first, Value* j, int c) const;
  void fetch_ahead(Value* p) const;
  void fetch(Value* p) const;

  const LoopFrame& f_;
  CpuFunction& k_;
  llvm::IRBuilder<>& ir_;
  const atlas::Body& body_;
  std::vector<Square> squares_;
};

}  // namespace hologram::cpu
