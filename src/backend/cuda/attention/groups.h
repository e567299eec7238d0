// backend/cuda/attention/groups.h: tiles, matrices and shared memory of attention by warpgroups.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "backend/cuda/async.h"
#include "backend/cuda/attention/plan.h"
#include "backend/cuda/mapped.h"
#include "backend/cuda/sums.h"

namespace hologram::cuda {

/// A CTA's shared memory: queries, slots of keys, slots of values, sums on their way, barriers.
struct GroupsShape {
  static constexpr int group = 128, slots = 2, box = Async::row_bytes / 2, slice = 64;

  int groups, rows, keys;
  int depth_boxes, value_boxes;  ///< of 64 numbers
  int columns;                   ///< of sums
  int lanes;                     ///< neighbours of a lane in the epilogue

  int threads() const { return group * (groups + 1); }
  SumSlices slices() const { return {columns, columns % slice ? slice / 2 : slice, lanes}; }
  int query_box() const { return rows * Async::row_bytes; }
  int key_box() const { return keys * Async::row_bytes; }
  int query_bytes() const { return depth_boxes * query_box(); }
  int key_bytes() const { return depth_boxes * key_box(); }
  int value_bytes() const { return value_boxes * key_box(); }
  int keys_at() const { return query_bytes(); }
  int values_at() const { return keys_at() + slots * key_bytes(); }
  int sums_at() const { return values_at() + slots * value_bytes(); }
  int barriers_at() const { return sums_at() + 4 * groups * slices().bytes(); }
  int shared_bytes() const { return barriers_at() + 8 * 2 * (2 * slots + 1); }
};

struct GroupsPlan {
  AttentionPlan plan;
  GroupsShape shape;
  std::array<MappedFactor, 3> matrices;  ///< queries, keys, values
};

/// Nothing where queries are few, heads are deep, or an operand is no matrix that tensor maps
/// describe.
std::optional<GroupsPlan> groups_plan(const atlas::Program& program);

}  // namespace hologram::cuda
