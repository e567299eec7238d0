// schedule/lower/tail.h: what follows a product's rows, in its kernel.
#pragma once

#include <map>

#include "schedule/lower/context.h"

namespace hologram::schedule {

/// Slots for what the product's epilogue makes for its tail alone; none without a tail.
std::map<ir::Value, int> slots_for_tail(const Context& cx);

/// Adds the tail to the product in `k`, whose epilogue stores `kept` into those slots.
void lower_tail(const Context& cx, ProgramBuilder& k, const std::map<ir::Value, int>& kept);

}  // namespace hologram::schedule
