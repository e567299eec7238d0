// runtime/places.h: where a call's values lie that have no place of their own in the plan.
#pragma once

#include <vector>

#include "runtime/executable.h"
#include "schedule/memory.h"

namespace hologram::runtime {

// Where values lie that are for one call alone.
struct Executable::Passing {
  std::vector<size_t> entries;
  schedule::Fitted places;  // by entry of `entries`
};

// Where intermediates lie while parameters that are overwritten lend their memory.
struct Executable::Lent {
  std::vector<std::byte*> addresses;  // by lender
  std::vector<std::byte*> begins;     // by region
  schedule::Placement where;
};

}  // namespace hologram::runtime
