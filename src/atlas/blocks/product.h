// atlas/blocks/product.h: products of matrices.
#pragma once

#include "atlas/blocks/loop.h"

namespace hologram::atlas {

/// C[b, m, n] = epilogue(sum over k of lhs(b, m, k) * rhs(b, k, n)). Axes: batch_rank parallel
/// ones, then m, n (parallel) and k (row). The operand bodies end with the operand's value (types
/// `operand_type` and `rhs_type()`) and see the batch axes and m, k (n, k); the epilogue sees batch
/// axes, m and n, reads the sum as accumulator 0 in `acc_type` and stores. reproducible: one FMA
/// chain from +0 per k-block of 384; the first block's sum, to which the others are added in
/// ascending order (0 when K is 0). Otherwise, with precision above 0, multiply-adds of float32 may
/// round the product too where no instruction fuses them; subnormal bfloat16 operands, and products
/// and sums of bfloat16 operands below 2^-126, may count as 0, and factors and terms of rhs that
/// are the same for a group of k may be applied to the group's sums; and sums of 16-bit operands,
/// and of products of bfloat16 terms of f32 operands, may be those of a GPU's tensor cores, within
/// the bounds that docs/numerics.md states for the precision.
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
                        ///< width) * group + group - 1 - k % group, zero-padded. Groups of four
                        ///< bytes may be words of a u32 buffer, the last one of k lowest
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
  /// packed_rhs holds G w G^T rounded once from float64, in panels of 16 matrices C x width:
  /// element (i, j, c, n) at (((n / width) * 16 + 4i + j) * C + c) * width + n % width. A tile's
  /// 4 x 4 pixels become B^T d B, rows first; products sum over c as above; A^T s A, rows first,
  /// are the tile's four sums, each but (a + b) + c or (b - c) - d of the ones before. A sum that
  /// is not finite is replaced by the one that lhs and rhs give without Winograd; rhs may read the
  /// panels, of which (1, 1) is NaN where the rest is no such transform, so that no sum is finite.
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
};

template <>
struct Form<ProductBlock> {
  using B = ProductBlock;
  static constexpr std::string_view name = "product";
  static int own_axes(const B& b) { return b.winograd ? 7 : b.parts > 1 ? 4 : 3; }

  static constexpr Field<B> fields[] = {
      {.word = "batch", .member = &B::batch_rank, .limit = limits::axes, .leads = true},
      {.word = "operand", .member = &B::operand_type},
      {.word = "mixed", .member = &B::mixed, .added = 2},
      {.word = "acc", .member = &B::acc_type},
      {.word = "precision", .member = &B::precision, .limit = 2},
      {.word = "reproducible", .member = &B::reproducible},
      {.word = "winograd", .member = &B::winograd, .added = 1},
      {.word = "parts",
       .member = &B::parts,
       .limit = limits::product_parts,
       .optional = true,
       .added = 4},
      {.word = "terms", .member = &B::terms, .limit = 3, .optional = true, .added = 3},
      {.word = "packed", .member = &B::packed_rhs, .letter = 'b', .optional = true, .joined = 2},
      {.word = "width", .member = &B::panel_width, .limit = limits::panel_width},
      {.word = "group", .member = &B::panel_group, .limit = 4},
  };

  static BodyRole lhs(const B& b) { return {.axes = {0, 2}, .value = b.operand_type}; }
  // What the terms of a f32 cannot hold, or winograd gives no finite sum for, is read again.
  static BodyRole rhs(const B& b) {
    bool again = b.winograd || (b.terms > 0 && b.operand_type == DType::f32);
    return {.axes = {2, 1}, .value = b.rhs_type(), .unread = b.packed_rhs >= 0 && !again};
  }
  static BodyRole image(const B& b) { return {.axes = {3, 4, 5, 6}, .value = b.operand_type}; }
  static BodyRole epilogue(const B& b) {
    return {.axes = {0, b.parts > 1 ? 3 : 1},
            .accumulators = std::vector(static_cast<size_t>(b.parts), b.acc_type)};
  }
  static constexpr BodyField<B> bodies[] = {
      {.name = "lhs", .body = &B::lhs, .role = lhs},
      {.name = "rhs", .body = &B::rhs, .role = rhs},
      {.name = "image", .body = &B::image, .role = image, .when = &B::winograd, .added = 1},
      {.name = "epilogue", .body = &B::epilogue, .role = epilogue},
  };
};

void verify_block(const ProductBlock& b, Verifier& v);
/// The tail, which has stages; behind the product's bodies.
void verify_tail(const ProductBlock& b, Verifier& v);

}  // namespace hologram::atlas
