// backend/cpu/products/micro.h: register kernels: a tile of rows x panels summed over a depth.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "backend/cpu/function.h"
#include "backend/cpu/products/plan.h"

namespace hologram::cpu {

/// A number fixed in the generated code, or an argument of it.
using Fixed = std::optional<int64_t>;

/// What a register kernel is specialised for. It computes, for r < rows and c < panels *
/// tile.panel,
///   out[r * panels * tile.panel + c] = sum over k < depth of a[r * a_row + k * a_k] * b(k, c),
///   b(k, c) = b[(c / panel) * b_panel + k * b_k + c % panel],
/// (of a single panel only its first `vectors` vectors) by one multiply-add chain per k-block of
/// atlas::product_block, blocks added in ascending order.
struct MicroKernel {
  TileModel tile;
  DType type;     ///< of a, out and all arithmetic
  DType storage;  ///< of b in memory
  int rows;
  int panels;
  int vectors = 0;         ///< of a single panel, that hold columns; 0: all
  bool half_last = false;  ///< only the lower half of the last of these `vectors` holds columns
  Fixed a_row, a_k, b_k, b_panel, depth;
  Dots dots = Dots::none;     ///< not none: elements of a and b are groups of `type`'s size
  bool unsigned_rhs = false;  ///< groups of bytes: b is unsigned (and a signed, but for words)
  bool exact = false;         ///< bf16 groups: by multiply-adds, subnormals too
  bool from_row = false;      ///< every row starts from the vector scale[0 … panels * tile.panel)
  bool accumulate =
      false;          ///< instead: one chain that starts from out, its row r multiplied by scale[r]
  bool adds = false;  ///< the first block is added to out too, not written
  /// Fetches so many cache lines from ahead + k * ahead_k bytes on with each k: part of what comes
  /// next.
  int lines_ahead = 0;
  int64_t out_row = 0;  ///< elements between rows of out where not panels * tile.panel

  /// Adds the function to the module. Its arguments: a, a_row, a_k, b, b_k, b_panel, depth, out,
  /// scale, and with lines_ahead: ahead, ahead_k.
  llvm::Function* emit(CpuFunction& k) const;
};

/// sums + the products of the four unsigned bytes in each word of x and the signed ones of y; where
/// Target::i8_dots.
Value* dot_bytes(CpuFunction& k, Value* sums, Value* x, Value* y);

/// Vectors of bytes up to 15, and of signed ones.
struct HalvesTimes {
  Value *halves, *numbers;
};
/// sums + the products of the four bytes in each word of up to eight such pairs of vectors, by
/// AVX2's instructions.
Value* dot_halves(CpuFunction& k, Value* sums, std::span<const HalvesTimes> products);

/// sums + the products of the pairs of signed 16 bits in each word of x and y, by AVX2.
Value* dot_pairs(CpuFunction& k, Value* sums, Value* x, Value* y);

/// A vector of bytes, twice as many as `x` has elements, as pairs of words of 16 bits: a vector of
/// i32.
Value* widen_bytes(CpuFunction& k, Value* x, bool is_signed);

/// How a block of rows is covered by tiles: those from number `lower` on have a row less than
/// `height` (none: null). A tile whose rows would end behind the block's reaches back.
struct Cover {
  Value *rows, *height, *tiles, *lower = nullptr;

  /// The row from which a tile is the first to compute its rows.
  Value* begin(CpuFunction& k, Value* tile) const;
  /// The row that it starts at.
  Value* first(CpuFunction& k, Value* tile) const;
  Value* height_of(CpuFunction& k, Value* tile) const;
};
/// tile_height at run time, of the exact heights where all numbers of rows that occur are known (in
/// `counts`).
Cover emit_cover(CpuFunction& k, const TileModel& tile, Value* rows,
                 const std::vector<int64_t>& counts);

/// Calls kernels[shape] with `args`, where `shape` (i64) is one of the map's keys.
void call_one(Scope& scope, Value* shape, const std::map<int64_t, llvm::Function*>& kernels,
              const std::vector<Value*>& args);

/// An i64 value as a Fixed, if it is a constant.
Fixed fixed(Value* v);

}  // namespace hologram::cpu
