// schedule/windows/channels.h: what loops over the channels of grouped convolutions share.
#pragma once

#include "schedule/lower/context.h"

namespace hologram::schedule {

/// A channel as coordinates of its own, its group and its column in that: within bounds, so that
/// indices made of them simplify.
struct GroupColumn {
  Expr group, column;
};
GroupColumn group_and_column(const Expr& channel, const Expr& groups, const Expr& columns);

/// The weights of a depthwise or grouped convolution in a slot of their own, the taps outermost and
/// the channels densest.
int lay_taps(const Context& cx, ir::Value weights, std::vector<Lowered>& out);

}  // namespace hologram::schedule
