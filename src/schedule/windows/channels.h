// schedule/windows/channels.h: what loops over the channels of grouped convolutions share.
#pragma once

#include "schedule/lower/context.h"

namespace hologram::schedule {

/// Counters that are known within bounds only while indices are simplified; they stand for
/// expressions of a loop's axes, by which of_channel replaces them.
enum class Counter : uint8_t {
  group,   ///< of a channel
  column,  ///< of a channel in its group
  tap,
};
/// In [0, extent).
Expr counter(Counter which, const Expr& extent);
int id_of(Counter which);

/// An index of group and column in terms of the channel, group * columns + column.
Expr of_channel(const Expr& e, const Expr& columns, const Expr& channel);

/// The weights of a depthwise or grouped convolution in a slot of their own, the taps outermost and
/// the channels densest.
int lay_taps(const Context& cx, ir::Value weights, std::vector<Lowered>& out);

}  // namespace hologram::schedule
