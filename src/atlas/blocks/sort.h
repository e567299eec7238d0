// atlas/blocks/sort.h: the order of rows.
#pragma once

#include <limits>

#include "atlas/blocks/form.h"

namespace hologram::atlas {

/// The order of each row. Axes: batch_rank parallel ones, then element (of the row) and place.
/// `key` ends with the element's key in `key_type` and sees batch and element axes; `epilogue` sees
/// batch and place axes and stores accumulator 0, the i64 number of the element that comes to this
/// place when the row is stably sorted. NaN is the largest, -0 equals +0; `descending` turns the
/// order around, equal elements still by their numbers. Places are counted from `first` on, and
/// there are no more of them than elements from there.
struct SortBlock {
  std::vector<Axis> axes;
  int batch_rank = 0;
  Body key, epilogue;
  DType key_type = DType::f32;
  bool descending = false;
  int first = 0;

  bool operator==(const SortBlock&) const = default;
};

template <>
struct Form<SortBlock> {
  using B = SortBlock;
  static constexpr std::string_view name = "sort";
  static int own_axes(const B&) { return 2; }  // element, place

  static constexpr Field<B> fields[] = {
      {.word = "batch", .member = &B::batch_rank, .limit = limits::axes, .leads = true},
      {.word = "key", .member = &B::key_type},
      {.word = "descending", .member = &B::descending},
      {.word = "first",
       .member = &B::first,
       .limit = std::numeric_limits<int>::max(),
       .optional = true,
       .added = 1},
  };

  static BodyRole key(const B& b) { return {.axes = {0}, .value = b.key_type}; }
  static BodyRole epilogue(const B&) { return {.axes = {1}, .accumulators = {DType::i64}}; }
  static constexpr BodyField<B> bodies[] = {
      {.name = "key", .body = &B::key, .role = key},
      {.name = "epilogue", .body = &B::epilogue, .role = epilogue},
  };
};

void verify_block(const SortBlock& b, Verifier& v);

}  // namespace hologram::atlas
