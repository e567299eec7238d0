// backend/cpu/products/strided_load.cpp: bodies that are one load.
#include "backend/cpu/products/plan.h"

namespace hologram::cpu {
namespace {

const atlas::Instr* only_load(const atlas::Body& body) {
  if (body.instrs.size() != 1) return nullptr;
  const atlas::Instr& i = body.instrs.front();
  return i.code == atlas::Code::load && i.args[0] == atlas::no_value ? &i : nullptr;
}

}  // namespace

std::optional<StridedLoad> strided_load(const atlas::Body& body, int x_axis, int y_axis) {
  const atlas::Instr* load = only_load(body);
  if (!load) return std::nullopt;
  auto x = load->expr.linear_in_axis(x_axis);
  if (!x) return std::nullopt;
  auto y = x->second.linear_in_axis(y_axis);
  if (!y || x->first.has_axes() || y->first.has_axes()) return std::nullopt;
  return StridedLoad{load->buffer, y->second, x->first, y->first};
}

std::optional<int64_t> first_stride(const atlas::Body& body, int axis) {
  for (const atlas::Instr& i : body.instrs) {
    if (i.code != atlas::Code::load || !i.expr.has_axis(axis)) continue;
    auto split = i.expr.linear_in_axis(axis);
    if (split && split->first.is_const()) return split->first.constant_value();
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace hologram::cpu
