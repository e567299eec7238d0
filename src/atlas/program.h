// atlas/program.h: block programs of the Atlas ISA: what the compiler emits and every backend
// executes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "base/expr.h"
#include "base/fingerprint.h"
#include "ir/op.h"

namespace hologram::atlas {

/// Position of an instruction's result in its body.
using ValueId = uint32_t;
inline constexpr ValueId no_value = ~0u;

enum class Code : uint8_t {
  constant,     ///< `bits` in `type`
  index,        ///< the integer expression `expr` as an i64
  clamp_index,  ///< args[0] (i64) if it is in [0, n), n = `expr`; otherwise 0, and the sticky error
                ///< index_out_of_range is set; `expr` is a dimension (symbols only). Its result may
                ///< be used in expressions as v<id>.
  load,         ///< buffer[expr]; with args[0] (b8) false memory is not touched and the result is 0
  store,        ///< buffer[expr] = args[0], if args[1] (b8) is absent or true. No result.
  arithmetic,   ///< element-wise `op` on args in their common `type` (casts: from `from` to `type`)
  accumulator,  ///< result number `buffer` of earlier reductions; in an epilogue 0 is the product's
                ///< element
  accumulate,   ///< serial stages: combines args[0] into running accumulator `buffer` (`op` a
                ///< reduce_*), gives the new value
  lookup,       ///< element args[0] (i32) modulo n of the n constants `table`; n is a power of two
};

/// One SSA instruction. f16 and bf16 are storage types: they are loaded, stored and cast (and
/// selected); arithmetic is done in their compute type.
struct Instr {
  Code code;
  ir::Op op = ir::Op::add;
  DType type = DType::f32;  ///< result type; for compares and stores the type of the operands
  DType from = DType::f32;  ///< casts: source type
  std::array<ValueId, 3> args{no_value, no_value, no_value};
  uint64_t bits = 0;
  int buffer = -1;
  Expr expr;
  std::vector<uint64_t> table = {};  ///< lookup: bits in `type`, 2 to 16 of them

  bool operator==(const Instr&) const = default;
};

/// The result type of an instruction (b8 for compares).
DType result_type(const Instr& i);

struct Body {
  std::vector<Instr> instrs;
  ValueId add(Instr i) {
    instrs.push_back(std::move(i));
    return static_cast<ValueId>(instrs.size() - 1);
  }
  bool operator==(const Body&) const = default;
};

enum class Access : uint8_t {
  read,
  write,
  read_write,  ///< may alias nothing else in the program
  scratch,  ///< private to one parallel point: `extent` elements, contents undefined at its start
};

struct Buffer {
  DType dtype;
  Access access;
  Expr extent;  ///< elements that may be addressed: [0, extent)

  bool operator==(const Buffer&) const = default;
};

enum class AxisKind : uint8_t { parallel, row };

/// Axis number k of a block is i<k>. The extent of a row axis may depend on parallel axes before
/// it.
struct Axis {
  AxisKind kind;
  Expr extent;

  bool operator==(const Axis&) const = default;
};

/// One reduction over all row axes, its operand computed by the stage's body. Sums and products:
/// blocks of 4,096 in row-major order, inside a block 64 strided partials that start from the
/// identity (partial j takes elements j, j + 64, …) and a halving tree (j takes j + 32, then j +
/// 16, …), tails padded with the identity; blocks are combined as a binary counter does (equal
/// sizes first, then the rest from the smallest up), the earlier operand first. `tree` drops the
/// 4,096 blocks: each row element is itself a block's result and only the binary counter is
/// applied. No elements give the identity. reduce_arg* takes the first of equal elements in
/// row-major order, and gives 0 for no elements.
struct Reduction {
  ir::Op op;   ///< a reduce_* row
  DType type;  ///< of operand and result (reduce_arg*: of the operand; the result is i64)
  ValueId value;
  bool tree = false;
  ValueId position =
      no_value;  ///< reduce_arg*: i64 value to report; none = the row-major row position

  bool operator==(const Reduction&) const = default;
};

enum class StageKind : uint8_t {
  point,       ///< runs once per parallel point
  row,         ///< runs for every row element, in any order; may reduce and store
  serial_row,  ///< runs for every row element in row-major order; may accumulate and store
  /// The last stage of a block with one row axis, which is its lane axis: runs for every row
  /// element; each running accumulator is accumulated once, in blocks of 16 elements: for s = 1, 2,
  /// 4, 8 every element whose number in the block has bit s set takes the last one of the s before
  /// its group of s as the left operand; then all take the carry so. The carry starts as the
  /// identity and takes each block's last element; that of f32 sums and products is an f64, rounded
  /// where elements take it. What is stored here is not loaded here.
  scan,
};

struct Stage {
  StageKind kind;
  Body body;
  std::vector<Reduction> reductions;  ///< row stages: appended to the block's accumulators
  std::vector<std::pair<ir::Op, DType>>
      running;  ///< serial stages: running accumulators, likewise appended

  bool operator==(const Stage&) const = default;
};

/// A loop nest. Parallel axes come first and their points are independent. Accumulators are
/// numbered through all stages in order, reductions before running ones.
struct LoopBlock {
  std::vector<Axis> axes;
  int parallel_rank = 0;
  int lane_axis = -1;  ///< which axis backends should vectorise: the last parallel or the last row
                       ///< axis; -1: none
  std::vector<Stage> stages;

  bool operator==(const LoopBlock&) const = default;
};

/// C[b, m, n] = epilogue(sum over k of lhs(b, m, k) * rhs(b, k, n)). Axes: batch_rank parallel
/// ones, then m, n (parallel) and k (row). The operand bodies end with the operand's value (types
/// `operand_type` and `rhs_type()`) and see the batch axes and m, k (n, k); the epilogue sees batch
/// axes, m and n, reads the sum as accumulator 0 in `acc_type` and stores. reproducible: one FMA
/// chain from +0 per k-block of 384; the first block's sum, to which the others are added in
/// ascending order (0 when K is 0). Otherwise subnormal bfloat16 operands, and products and sums of
/// bfloat16 operands below 2^-126, may count as 0, and factors and terms of rhs that are the same
/// for a group of k may be applied to the group's sums.
struct ProductBlock {
  std::vector<Axis> axes;
  int batch_rank = 0;
  Body lhs, rhs, epilogue;
  DType operand_type = DType::f32;  ///< of lhs
  bool mixed = false;               ///< of lhs i8 and rhs u8, or the other way round
  DType acc_type = DType::f32;
  int precision = 0;  ///< 0 highest, 1 high, 2 medium
  bool reproducible = false;
  int packed_rhs = -1;  ///< buffer that holds rhs packed as panels, or -1: the rhs body. With
                        ///< K' = ceil(K / group), element (k, n) of batch b is at
                        ///< (((b * ceil(N / width) + n / width) * K' + k / group) * width + n %
                        ///< width) * group + group - 1 - k % group, zero-padded
  int panel_width = 0;  ///< columns per panel
  int panel_group = 1;  ///< 1, 2 or 4: values of k that lie side by side, the first one last
  int terms = 0;        ///< 1 to 3: tile products of sums of so many bfloat16 numbers, accumulated
                        ///< in f32 (atlas/tile_math.h); 0: chains. With terms, b<packed_rhs>
                        ///< holds u32 words of two values of k, the first one lower: with S =
                        ///< ceil(K / 32), those of step s, term t, row r (k = 32 s + 2 r) and
                        ///< column n of batch b at ((((b * ceil(N / width) + n / width) * S + s) *
                        ///< terms + t) * 16 + r) * width + n % width

  /// Above 1: columns come in so many parts of equal size, and the epilogue takes those of all
  /// parts at once (the gates of a unit). Behind k comes an axis `column` (N / parts) that the
  /// epilogue sees in place of n; its accumulator p is the sum of column p * N / parts + column.
  /// Panels are then of one part each, and the parts' panels of the same columns lie side by side:
  /// where n / width, n % width and ceil(N / width) stand above and below, take (n' / width) *
  /// parts + p, n' % width and ceil(N / parts / width) * parts, with n' = n % (N / parts), p = n /
  /// (N / parts).
  int parts = 1;

  /// float32 only, by Winograd's F(2x2, 3x3). lhs is the 3 x 3 windows of an image; behind k come
  /// the axes number, row, column, channel (extents N, H + 2, W + 2, C) that `image` sees:
  ///   m = (number * H + row) * W + column, k = (3u + v) * C + channel, batch_rank = 0,
  ///   lhs(m, k) = image(number, row + u, column + v, channel).
  /// packed_rhs holds G w G^T rounded once from float64 , in panels of 16 matrices C x
  /// width: element (i, j, c, n) at (((n / width) * 16 + 4i + j) * C + c) * width + n % width.
  /// A tile's 4 x 4 pixels become B^T d B, rows first; products sum over c as above; A^T s A, rows
  /// first, are the tile's four sums, each but (a + b) + c or (b - c) - d of the ones before. A sum
  /// that is not finite is replaced by the one that lhs and rhs give without Winograd.
  bool winograd = false;
  Body image;

  /// What follows the rows (a layer norm), run behind the epilogue of all elements; none without
  /// stages. Its parallel axes are the product's batch axes and m, its row axis is n, by the same
  /// numbers. The epilogue's results are read only at the element that it stored, so that each
  /// row's tail may run as soon as the row is there. The product has one part then, no terms, and
  /// is none of winograd.
  LoopBlock tail;

  DType rhs_type() const {
    if (!mixed) return operand_type;
    return operand_type == DType::i8 ? DType::u8 : DType::i8;
  }

  bool operator==(const ProductBlock&) const = default;
  std::array<Body*, 4> bodies() { return {&lhs, &rhs, &image, &epilogue}; }
  std::array<const Body*, 4> bodies() const { return {&lhs, &rhs, &image, &epilogue}; }
};

/// softmax(scale * q k^T + bias) v for each batch point, online over keys. Axes: batch_rank
/// parallel ones, then query, key, depth (of q and k), value depth. The bodies end with their
/// element; `score` (may be empty) maps accumulator 0, the scaled score, to the final score and
/// sees batch, query and key axes (-inf masks out); `epilogue` sees batch, query and value depth
/// and stores accumulator 0. Rows whose scores are all -inf give 0; values of keys whose score is
/// -inf may be read. Unless reproducible, bfloat16 operands may make exponentials bfloat16 once
/// they are summed, and products' subnormals 0. `lse` (may be empty) sees batch and query axes and
/// stores accumulator 0, the row's maximum + log(sum of exponentials), -inf where all scores are.
struct AttentionBlock {
  std::vector<Axis> axes;
  int batch_rank = 0;
  Body q, k, v, score, epilogue, lse;
  DType operand_type = DType::f32;
  double scale = 1.0;
  bool causal = false;  ///< key axis <= query axis, besides `score`
  bool reproducible = false;

  bool operator==(const AttentionBlock&) const = default;
  std::array<Body*, 6> bodies() { return {&q, &k, &v, &score, &epilogue, &lse}; }
  std::array<const Body*, 6> bodies() const { return {&q, &k, &v, &score, &epilogue, &lse}; }
};

/// Gradients of an attention block's operands. Axes: batch_rank parallel ones, then member (row:
/// the query heads that share keys and values), query, key, depth, value depth. With x = scale * q
/// k^T by the chains of products, y = score(x), -inf behind the diagonal if causal:
///   p = exp(y - lse), 0 in rows whose lse is -inf,
///   s = ((g v^T - delta) * p) * slope(x) * scale  (slope empty: 1),
///   dv = sum of p g, dk = sum of s q over members, then queries; dq = sum of s k over keys.
/// These sums are each one chain of multiply-adds in ascending order from 0; terms with y = -inf
/// may be left out. q sees batch, member, query and depth; k batch, key and depth; v batch, key and
/// value depth; g (the result's gradient) batch, member, query and value depth; lse and delta (of
/// the compute type) batch, member and query; score and slope batch, member, query and key, with
/// accumulator 0 = x. dq, dk and dv see the axes of q, k and v and store accumulator 0; an empty
/// one is not computed.
struct AttentionGradBlock {
  std::vector<Axis> axes;
  int batch_rank = 0;
  Body q, k, v, g, lse, delta, score, slope, dq, dk, dv;
  DType operand_type = DType::f32;
  double scale = 1.0;
  bool causal = false;  ///< key axis <= query axis, besides `score`

  bool operator==(const AttentionGradBlock&) const = default;
  std::array<Body*, 11> bodies() {
    return {&q, &k, &v, &g, &lse, &delta, &score, &slope, &dq, &dk, &dv};
  }
  std::array<const Body*, 11> bodies() const {
    return {&q, &k, &v, &g, &lse, &delta, &score, &slope, &dq, &dk, &dv};
  }
  /// Their names in the text form, in the same order.
  static constexpr std::array<std::string_view, 11> names{
      "q", "k", "v", "g", "lse", "delta", "score", "slope", "dq", "dk", "dv"};
};

/// The order of each row. Axes: batch_rank parallel ones, then element (of the row) and place.
/// `key` ends with the element's key in `key_type` and sees batch and element axes; `epilogue` sees
/// batch and place axes and stores accumulator 0, the i64 number of the element that comes to this
/// place when the row is stably sorted. NaN is the largest, -0 equals +0; `descending` turns the
/// order around, equal elements still by their numbers. There are no more places than elements.
struct SortBlock {
  std::vector<Axis> axes;
  int batch_rank = 0;
  Body key, epilogue;
  DType key_type = DType::f32;
  bool descending = false;

  bool operator==(const SortBlock&) const = default;
  std::array<Body*, 2> bodies() { return {&key, &epilogue}; }
  std::array<const Body*, 2> bodies() const { return {&key, &epilogue}; }
};

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
