// schedule/windows/channels.cpp: what loops over the channels of grouped convolutions share.
#include "schedule/windows/channels.h"

namespace hologram::schedule {

using ir::Value;

int id_of(Counter which) { return first_counter_id + static_cast<int>(which); }

Expr counter(Counter which, const Expr& extent) { return Expr::axis(id_of(which), extent); }

Expr of_channel(const Expr& e, const Expr& columns, const Expr& channel) {
  auto outer = e.linear_in_axis(id_of(Counter::group));
  auto inner = outer ? outer->second.linear_in_axis(id_of(Counter::column)) : std::nullopt;
  if (inner && outer->first == inner->first * columns)
    return inner->second + inner->first * channel;
  return e.substitute([&](const Atom& a) -> std::optional<Expr> {
    if (a.kind != Atom::Kind::axis) return std::nullopt;
    if (a.id == id_of(Counter::group)) return floor_div(channel, columns);
    if (a.id == id_of(Counter::column)) return mod(channel, columns);
    return std::nullopt;
  });
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
