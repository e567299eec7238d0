// backend/cpu/products/plan.h: how a product is cut into units, blocks and register tiles. No LLVM
// in here.
#pragma once

#include <optional>
#include <vector>

#include "atlas/order.h"
#include "atlas/program.h"
#include "atlas/tile_math.h"
#include "backend/cpu/products/register_tile.h"
#include "backend/cpu/target.h"
#include "backend/cpu/units.h"

namespace hologram::cpu {

/// An operand body that is one plain load, linear in two axes: element (x, y) at base + x *
/// x_stride + y * y_stride.
struct StridedLoad {
  int buffer;
  Expr base;  ///< free of both axes
  Expr x_stride, y_stride;
};
/// nullopt unless `body` is a single unguarded load of that form, with strides free of axes.
std::optional<StridedLoad> strided_load(const atlas::Body& body, int x_axis, int y_axis);

/// The stride of `axis` in the body's first load that depends on it: 1, another constant, or
/// nullopt if unknown.
std::optional<int64_t> first_stride(const atlas::Body& body, int axis);

enum class LhsPath : uint8_t {
  direct,   ///< read in place, k contiguous
  rows,     ///< copied row by row, k contiguous
  columns,  ///< copied k by k, m contiguous
  turned,   ///< the same, copied row by row through squares
};
enum class RhsPath : uint8_t {
  packed,      ///< panels made ahead
  direct,      ///< read in place, n contiguous
  panels,      ///< panels made for each unit, a row of n at a time
  transposed,  ///< the same for an operand with k contiguous
};

/// Instructions that sum several products of narrow operands per lane.
enum class Dots : uint8_t {
  none,
  bf16,   ///< two products; subnormal numbers count as 0
  bytes,  ///< four products of a u8 and an i8, in either order
  words,  ///< two products of words of 16 bits, into which bytes are widened
};
/// What serves products of these types.
Dots dots_for(const Target& target, DType operand_type, DType acc_type);
/// How many products one of them sums.
int group_of(Dots dots);

/// The choices for one product on one target; plan.cpp gives the model.
struct ProductPlan {
  TileModel tile;
  Expr m, n, k;
  LhsPath lhs;
  RhsPath rhs;
  std::optional<StridedLoad> lhs_load, rhs_load;
  Dots dots = Dots::none;
  bool flips_lhs = false;     ///< dots of bytes: the left operand's signs are flipped
  bool unsigned_rhs = false;  ///< dots of bytes and words: the right operand is unsigned
  bool keeps_tiny = false;    ///< dots of bf16 give way to multiply-adds where a subnormal counts
  int group = 1;              ///< values of k in one step; operands are copied in such groups
  Expr steps;                 ///< k in groups
  DType rhs_storage;          ///< element type of the panels that the register kernels read
  bool fine = false;          ///< shared among threads even where it takes a few µs
  int64_t block_rows;         ///< most rows of a unit
  int64_t block_panels;       ///< most panels of a unit
  int64_t block_depth = 0;    ///< of k that a unit walks before the next, with all its tiles; 0: k
  bool one_stream = false;    ///< few rows of a matrix that no core keeps: a panel at a time
  int panel_group;            ///< units are whole groups of so many panels, but for the last
  int parts = 1;              ///< of the columns; a panel is of one part, groups have one of each
  Expr part;                  ///< columns of a part
  Expr panels;                ///< of the whole right operand
  Expr m_units, n_units;      ///< per batch point
  Expr units;                 ///< in all

  /// Panels that a register tile of `rows` rows spans. With parts: all of them or one.
  int panels_for(int rows) const {
    if (parts == 1) return one_stream ? 1 : cpu::panels_for(tile, rows);
    return rows * parts <= tile.max_rows ? parts : 1;
  }
  /// The numbers of rows that units have, if they are known.
  std::vector<int64_t> row_counts() const { return even_blocks(m, block_rows); }
  /// The heights of register tiles that can occur.
  std::vector<int> heights() const { return block_heights(tile, m, block_rows); }
};

/// A product of known sizes that is small enough to run straight from where its operands lie.
struct SmallProduct {
  int64_t m = 0, n = 0, k = 0;
  int lanes = 1;         ///< per vector: no more than a register has, fewer for few columns
  int span = 1;          ///< vectors side by side in a register tile
  int rows = 1;          ///< most rows of a register tile
  StridedLoad lhs = {};  ///< with constant strides
  std::optional<StridedLoad> rhs = {};  ///< likewise; none: packed panels
  bool transposed = false;  ///< the right operand has k contiguous: each unit turns it over
  Expr units = 1;           ///< batch points
};
/// nullopt unless `program` is such a product for this target.
std::optional<SmallProduct> plan_small_product(const atlas::Program& program, const Target& target);

/// A product of at most four rows with a right operand that lies along n or k and is too large to
/// copy.
struct StreamProduct {
  int64_t m;
  Expr n, k;
  int lanes;
  bool turned;      ///< k is contiguous (and known): squares are transposed in registers
  int streams;      ///< along n: values of k that are read side by side
  int64_t columns;  ///< of a unit
  StridedLoad lhs, rhs;
  Expr units;
};
std::optional<StreamProduct> plan_stream_product(const atlas::Program& program,
                                                 const Target& target);

/// A product of few rows whose right operand is computed from narrower numbers, in registers:
/// weights of one byte or half of one with their scales.
struct NarrowProduct {
  int64_t m, n, k;
  int lanes;
  int vectors;      ///< of columns side by side: those of a unit
  int64_t segment;  ///< of k, a divisor of atlas::product_block in which scales are the same
  int steps;        ///< of k that share what they are taken from (two halves of a byte), or a line
  int stream;       ///< columns whose bytes follow each other in memory, step by step
  Expr units;
};
/// Machine::byte_columns. Without dots of bytes an AVX2 unit of 64 columns reads four streams, of
/// which a Zen 3 core gets 1.2 times as much from memory as of one.
inline int byte_columns(const Target& target) {
  return target.isa == Isa::avx2 && !target.i8_dots ? 16 : 64;
}
std::optional<NarrowProduct> plan_narrow_product(const atlas::Program& program,
                                                 const Target& target);

/// A product of float32 whose right operand is whole numbers of 8 or 4 bits with scales, for dot
/// instructions of bytes: a row's values are whole numbers of three digits of 8 bits, or of two
/// where the product's precision is not the highest, in units of a segment's own, by its largest
/// one, and sums over a segment are exact.
struct DigitProduct {
  Expr m;
  int64_t n, k;
  int lanes = 1;          ///< sums of a vector
  int columns = 4;        ///< of a unit: the bytes of a vector
  int64_t segment = 1;    ///< of k, in which scales are the same
  bool halves = false;    ///< two values share a byte
  bool in_words = false;  ///< a word's bytes lie together (Machine::word_columns)
  bool pairs = false;     ///< a row's values are one digit of 16 bits, for products of pairs
  int64_t rows = 1;       ///< most rows of a unit
  int digits = 3;         ///< of a row's values
  Expr row_blocks = {};   ///< per batch point
  Expr units = {};

  /// Of k that a column's word of bytes holds.
  int values() const { return halves ? 8 : 4; }
  /// A row in memory: its digits, a plane for each place, and what is known of its segments.
  int64_t plane_bytes() const { return (k * digit_bytes() + 63) / 64 * 64 + 64; }
  int digit_bytes() const { return pairs ? 2 : 1; }
  int64_t row_bytes() const {
    return digits * plane_bytes() + ((k + segment - 1) / segment + 1) / 2 * 64;
  }
};
std::optional<DigitProduct> plan_digit_product(const atlas::Program& program, const Target& target);

/// Steps of a block of k; bytes that one term of 32 rows, or of 32 columns, has in a step.
inline constexpr int64_t block_steps = atlas::tile_k_block / atlas::tile_step, plane_bytes = 2048;

/// A product of tiles (AMX), whose right operand is packed.
struct TileProduct {
  TileModel tile;  ///< a panel is two tiles wide
  int terms;       ///< bfloat16 numbers per element; 0: signed bytes
  bool prefetch;   ///< kernels fetch ahead of use: Target::tile_prefetch
  Expr m, n, k;
  Expr steps;   ///< products of tiles along k: of 32 values, 64 bytes
  int rows;     ///< of a tile
  Expr groups;  ///< of two tiles of rows
  int parts;    ///< of the columns: a panel is of one, and units have as many panels of each
  Expr part;    ///< columns of a part
  Expr panels;
  std::optional<StridedLoad> lhs;  ///< read in place: whole tiles of plain bfloat16 numbers
  int64_t block_groups;            ///< most groups of a unit
  int64_t block_panels;            ///< most panels of a unit
  Expr m_units, n_units;           ///< per batch point
  Expr units;                      ///< in all

  int planes() const { return terms ? terms : 1; }
  int64_t group_rows() const { return int64_t{2} * rows; }
  /// Values of k in one step.
  int step() const { return terms ? 32 : 64; }
  /// Cycles in tiles of one step of a group and a panel.
  int step_cycles() const;
  /// Whether sums need memory of their own between blocks of k.
  bool blocked() const;
};
/// The model by which float32 is split, in cycles of one core: of a product by multiply-adds, and
/// of the tile products of so many terms.
double fma_cycles(const Processor& p, int64_t m, int64_t n, int64_t k);
double tile_cycles(const Processor& p, int64_t m, int64_t n, int64_t k, int terms);
/// nullopt unless the product has terms, or is one of packed bytes on a target with tiles. Throws
/// Error(unsupported) for terms without tiles or without panels.
std::optional<TileProduct> plan_tile_product(const atlas::Program& program, const Target& target);

/// Where what a unit copies would leave the second-level cache before it is used: cuts `p` into
/// units that walk k in blocks, with sums of all their tiles in memory (ProductPlan::block_depth).
/// `batch`: points of it.
void plan_long_sum(ProductPlan& p, const atlas::ProductBlock& block, double batch,
                   const Target& target);
/// Throws Error(unsupported) for types that products cannot accumulate in.
ProductPlan plan_product(const atlas::Program& program, const Target& target);

Launch launch_of(const ProductPlan& plan, const atlas::Program& program, const Target& target);
Launch launch_of(const SmallProduct& plan, const atlas::Program& program, const Target& target);
Launch launch_of(const StreamProduct& plan, const atlas::Program& program, const Target& target);
Launch launch_of(const NarrowProduct& plan, const atlas::Program& program, const Target& target);
Launch launch_of(const DigitProduct& plan, const atlas::Program& program, const Target& target);
Launch launch_of(const TileProduct& plan, const atlas::Program& program, const Target& target);

}  // namespace hologram::cpu
