// backend/cuda/attention/groups.h: tiles, matrices and shared memory of attention by warpgroups.
#pragma once

#include <array>
#include <optional>

#include "backend/cuda/async.h"
#include "backend/cuda/attention/plan.h"
#include "backend/cuda/products/planes.h"
#include "backend/cuda/sums.h"

namespace hologram::cuda {

/// What is copied into shared memory.
enum AttentionKind { queries_kind, keys_kind, values_kind };
inline constexpr std::array attention_kinds{queries_kind, keys_kind, values_kind};

/// A CTA's shared memory: queries, slots of keys, slots of values, sums on their way, barriers.
struct GroupsShape {
  static constexpr int group = 128, slots = 2, slice = 64;

  struct Part {
    int boxes;    ///< side by side along the neighbours
    int numbers;  ///< neighbours of a box
    int bytes;    ///< of a box, with all terms
    int size() const { return boxes * bytes; }
  };

  int groups, rows, keys;
  std::array<Part, 3> parts;  ///< by kind
  int columns;                ///< of sums
  int lanes;                  ///< neighbours of a lane in the epilogue

  int threads() const { return group * (groups + 1); }
  SumSlices slices() const { return {columns, columns % slice ? slice / 2 : slice, lanes}; }
  int keys_at() const { return parts[queries_kind].size(); }
  int values_at() const { return keys_at() + slots * parts[keys_kind].size(); }
  int sums_at() const { return values_at() + slots * parts[values_kind].size(); }
  int barriers_at() const { return sums_at() + 4 * groups * slices().bytes(); }
  int shared_bytes() const { return barriers_at() + 8 * 2 * (2 * slots + 1); }
};

struct GroupsPlan {
  AttentionPlan plan;
  GroupsShape shape;
  std::array<MappedFactor, 3> matrices;  ///< by kind
  std::vector<PlaneSource> planes = {};  ///< of keys and of values, where they are split into terms
};

/// Nothing where queries are few, heads are deep, or an operand is no matrix that tensor maps
/// describe.
std::optional<GroupsPlan> groups_plan(const atlas::Program& program);

}  // namespace hologram::cuda
