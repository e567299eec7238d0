// schedule/lower/weights.h: right operands of products, laid out for them.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "schedule/lower/context.h"

namespace hologram::schedule {

/// A kernel that fills a slot of its own.
struct Packed {
  Lowered kernel;
  int slot;
};

/// Whether v lies in memory, and its neighbours along `axis` side by side.
bool lies_along(const Context& cx, ir::Value v, int axis);

/// Panels of `width` columns, `group` values of k side by side (atlas::ProductBlock::packed_rhs).
Packed pack_panels(const Context& cx, ir::Value rhs, const Shape& batch, int width, int group);
/// The same of bytes in groups of four, written as words: for operands that are new in each call.
Packed pack_words(const Context& cx, ir::Value rhs, const Shape& batch, int width);
/// Panels of a product with terms (atlas::ProductBlock::terms).
Packed pack_terms(const Context& cx, ir::Value rhs, const Shape& batch, int width, int terms);
/// Planes of bfloat16 numbers, along k in rows of a multiple of eight: the nearest one to a number,
/// to what is left of it, and to what is then left. Their sum is the number, but for bits below
/// 2^-133.
Packed pack_planes(const Context& cx, ir::Value rhs);
/// The number at (k, n), read back from the planes in `slot`: the sum of its terms, the highest one
/// last and negated twice, which nothing else is, as no graph has such an expression (ir/fold.cpp).
atlas::Val unpack_planes(Emitter& e, int slot, const Expr& k, const Expr& n);
/// Panels of G w G^T (atlas::ProductBlock::winograd), of which unpack_winograd can read the weight.
Packed pack_winograd(const Context& cx, ir::Value rhs, int width);
/// The element of the packed weight at `at` (k, n), read back from the panels in `slot`: within
/// 2^-21 of the sum of its filter's |taps|, 0 for 0, never of the other sign, and itself where one
/// of the nine is not finite or larger than 2^126.
atlas::Val unpack_winograd(Emitter& e, int slot, const Index& at, const Expr& channels, int width);

/// Weights that also lie in blocks of columns.
class Blocks {
 public:
  explicit Blocks(int64_t columns) : columns_(columns) {}
  /// `words`: four elements that follow each other along its last other axis lie together.
  void add(ir::Value v, int slot, size_t axis, bool words) { of_[v] = {slot, axis, words}; }
  /// Where element `index` of v lies so: Emitter::elsewhere.
  std::optional<std::pair<int, Index>> find(ir::Value v, const Index& index) const;

 private:
  struct Copy {
    int slot;
    size_t axis;  ///< that the columns run along
    bool words;
  };
  int64_t columns_;  ///< of a block
  std::map<ir::Value, Copy> of_;
};

/// Where the product is to read the weights that its right operand is computed from (quantised
/// ones, their scales) instead of panels of the result, as they take at most half of the memory:
/// those that are copied so that they run along columns, for `product`, whose bodies are not
/// written yet. Their kernels go to `out`.
std::optional<Blocks> keep_narrow(const Context& cx, ir::Value rhs, bool few_rows,
                                  const atlas::ProductBlock& product, std::vector<Lowered>& out);

/// The body without the roundings to 16 bits of sums, differences, products and bytes that become
/// float32 again.
atlas::Body unrounded(const atlas::Body& body);

}  // namespace hologram::schedule
