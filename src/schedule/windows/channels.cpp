// schedule/windows/channels.cpp: what loops over the channels of grouped convolutions share.
#include "schedule/windows/channels.h"

namespace hologram::schedule {

using ir::Value;

GroupColumn group_and_column(const Expr& channel, const Expr& groups, const Expr& columns) {
  if (columns.is(1)) return {channel, Expr(0)};
  return {Expr::bounded(floor_div(channel, columns), groups),
          Expr::bounded(mod(channel, columns), columns)};
}

int lay_taps(const Context& cx, Value weights, std::vector<Lowered>& out) {
  const Expr& columns = weights->shape.back();
  Shape taps{weights->shape[weights->shape.size() - 2]};
  taps.insert(taps.end(), weights->shape.begin(), weights->shape.end() - 2);
  taps.back() *= columns;
  return cx.lay_out(
      weights, taps,
      [&](const Index& at) {
        Index from(at.begin() + 1, at.end());
        Expr channel = from.back();
        from.back() = floor_div(channel, columns);
        from.insert(from.end(), {at[0], mod(channel, columns)});
        return from;
      },
      out);
}

}  // namespace hologram::schedule
