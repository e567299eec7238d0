// schedule/cluster/index.h: index arithmetic through movement operations.
#pragma once

#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"

namespace hologram::schedule {

using Index = std::vector<Expr>;
/// Axes by id, and what stands for them.
using AxisMap = std::map<int, Expr>;

/// The index with every axis of the map replaced.
Index substitute(const Index& index, const AxisMap& map);

/// Coordinates in a tensor of shape `from` of the element that stands at `index` of its reshape to
/// `to`.
Index through_reshape(const Shape& from, const Shape& to, const Index& index);

/// through_reshape of many indices: what a group of coordinates becomes is found once. The shapes
/// outlive it.
class Reshaping {
 public:
  Reshaping(const Shape& from, const Shape& to);
  Index operator()(const Index& index);

 private:
  struct Hash {
    size_t operator()(const Index& index) const {
      size_t h = 0;
      for (const Expr& e : index) h = h * 31 + e.hash();
      return h;
    }
  };
  struct Group {
    size_t to_begin, to_end, from_begin, from_end;
    std::unordered_map<Index, Index, Hash> known;
  };

  const Shape &from_, &to_;
  std::vector<Group> groups_;
};

/// Coordinates of operand `input` that an element-wise or movement node reads for its element
/// `index` (concat: relative to that part; pad: may lie outside). Not for take and heavier
/// operations.
Index input_index(ir::Value node, size_t input, const Index& index);

/// Coordinates of the two factors of term k of a product's element at `index`.
std::pair<Index, Index> factors_of(ir::Value dot, const Index& index, int64_t k);

/// Where along `axis` part `input` of a concat begins.
Expr concat_start(ir::Value node, size_t input);

/// Element offset of `index` under `strides`.
Expr offset_of(const Index& index, const Shape& strides);

/// A number, or an axis by itself, or nothing.
const Atom* single_axis(const Expr& e);

/// Solves coordinates[i] = value[i], coordinates being mixed-radix sums of distinct axes (each axis
/// once, the radices its lower neighbours' extents), for the axes: pairs (axis id, expression).
/// nullopt where the form does not hold.
std::optional<std::vector<std::pair<int, Expr>>> invert(const Index& coordinates,
                                                        const Index& values, const Shape& shape);

}  // namespace hologram::schedule
