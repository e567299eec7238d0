// backend/cpu/loops/ranges.h: bodies under assumptions about where their points lie. No LLVM in
// here.
//
// What a concatenation, a padding or a triangle reads depends on comparisons of coordinates. Over a
// range of points in which such a comparison has one outcome the body needs neither side's mask.
#pragma once

#include <deque>
#include <optional>

#include "atlas/program.h"

namespace hologram::cpu {

/// A comparison of coordinates: true where slope * (lane axis) + rest >= 0.
struct Comparison {
  atlas::ValueId id;
  int64_t slope;
  Expr rest;  ///< symbols and other axes
};

/// The first comparison of a body whose outcome splits the lane axis into two ranges, or is the
/// same for all lanes (slope 0).
std::optional<Comparison> first_comparison(const atlas::Body& body, int lane_axis);

/// Equalities of coordinates on long lines of points as two comparisons, each of which cuts them.
void order_equalities(atlas::Program& program);

/// Whether comparisons of coordinates cut lines along the axis into ranges.
bool has_borders(const atlas::Body& body, int axis);

/// Where along the lane axis the outcome of a comparison (of slope other than 0) changes: the first
/// place of the upper range.
Expr first_beyond(const Comparison& c);

/// What the body is at one place of an axis.
atlas::Body at_place(const atlas::Body& body, int axis, int64_t place);
/// Whether each place of a short axis is a copy from elsewhere, as where many tensors are stacked
/// along a last axis: then a load and a store for each take less time than masks of vectors.
bool copies_points(const atlas::Body& body, int axis, const Expr& extent);

/// What is not negative where a comparison along `lane_axis` has this outcome, and only there.
Expr known_of(const Comparison& c, int lane_axis, const Expr& extent, bool truth);
/// What is left of the body where this is known not to be negative.
atlas::Body assume(const atlas::Body& body, const Expr& known);

/// What is left of a body over a range of points: a leaf, or two parts by the outcome of `split`.
struct Range {
  atlas::Body body;
  Expr from, to;  ///< of the lane axis, at the most
  double share;   ///< of all points, about
  std::optional<Comparison> split;
  const Range *holds = nullptr, *fails = nullptr;

  bool is_short(int lanes) const;
  /// Its points, where they are known.
  std::optional<int64_t> length() const;
};
/// Takes a body apart where comparisons of coordinates change, most points first, until its copies
/// are many or long; what a leaf leaves undecided is a mask. The first range is all of it.
std::deque<Range> ranges_of(const atlas::Body& body, const std::vector<atlas::Axis>& axes,
                            int lane_axis, int lanes);

/// What checks of indices along an axis leave of a body: of each check the values it is made of, it
/// last, and the body where all hold.
struct Checks {
  std::vector<atlas::Body> inside;
  atlas::Body within;
};
/// The checks of a body that clamps indices, read in order along the axis, and stores nothing for
/// those that are out of range; nullopt for any other.
std::optional<Checks> checks_of(const atlas::Program& program, const atlas::Body& body, int axis);

/// What is left of the body where value `id` (b8) is known; it raises the same errors.
atlas::Body assume(const atlas::Body& body, atlas::ValueId id, bool truth);

}  // namespace hologram::cpu
