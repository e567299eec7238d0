// schedule/overlap.h: the order of steps around host calls that go on while others run.
#pragma once

#include <vector>

namespace hologram::schedule {

/// When a host call should run. Calls that start something keep their order.
enum class Timing { any, early, late };

/// `order`, in which everything comes after what it needs, changed so that early steps and what
/// they need come first and late ones when nothing else is left to run. `needs` and `timing` by
/// step.
std::vector<int> overlapped(const std::vector<int>& order, std::vector<std::vector<int>> needs,
                            const std::vector<Timing>& timing);

}  // namespace hologram::schedule
