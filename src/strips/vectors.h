// strips/vectors.h: loops over vectors, compiled with the library for an instruction set.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "ir/op.h"

namespace hologram::strips {

/// out[l] of a[l], b[l], c[l] for l < n. Truth values are bytes 0 or 1. `out` may be an operand.
using VectorFn = void (*)(void* out, const void* a, const void* b, const void* c, int64_t n);

/// So many rows of a product are computed at once, at most.
inline constexpr int product_rows = 12;

/// A tile of a float32 product: `rows` (at most product_rows) of the left operand, of which element
/// (m, k) is at left[m * row + k * column], by `panels` panels of `width` columns, the next one
/// `panel` elements on. Chains of multiply-adds from 0 for each block of `product_block` values of
/// k, the blocks added in ascending order; to out[m * out_row + column].
struct Tile {
  const float* left;
  int64_t row, column;
  const float* right;
  int64_t panel, panels;
  int64_t depth, block;
  float* out;
  int64_t out_row;
  int rows;
};

struct Vectors {
  /// The loop of an element-wise operation, by the type of its operands (of the results of a
  /// select) and, of a conversion, of its result; null where there is none.
  VectorFn (*find)(ir::Op op, DType type, DType to);
  /// a[0] * b[l] + c[l]; null.
  VectorFn (*find_scaling)(DType type);
  /// a[c[l]], an element of 4 or 8 bytes of the table `a` of a power of two minus one in *b; null.
  VectorFn (*find_lookup)(int bytes);
  void (*product)(const Tile& tile);
  /// B^T d B of n channels (atlas::ProductBlock): pixel p has them at pixels + p * n, matrix i gets
  /// them at out + i * pitch.
  void (*winograd_in)(const float* pixels, float* out, int64_t pitch, int64_t n);
  /// A^T s A of n columns: matrix i has them at sums + i * pitch, pixel p gets them at out + p * n.
  void (*winograd_out)(const float* sums, int64_t pitch, float* out, int64_t n);
  int width;  ///< of the panels that `product` reads
};

/// Null where the library has none for this processor's architecture. Which the processor runs,
/// the caller knows.
const Vectors* avx2_vectors();
const Vectors* avx512_vectors();

}  // namespace hologram::strips
