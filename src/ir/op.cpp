// ir/op.cpp: properties of operations.
#include "ir/op.h"

#include <array>

namespace hologram::ir {
namespace {

constexpr std::array<OpInfo, num_ops> table = {{
#define HOLOGRAM_OP(name, kind, arity, attributes, flags, doc) \
  {#name, OpKind::kind, arity, attributes, static_cast<uint8_t>(flags), doc},
#include "ir/ops.def"
#undef HOLOGRAM_OP
}};

}  // namespace

const OpInfo& info(Op op) { return table[static_cast<size_t>(op)]; }

std::optional<Op> op_from_name(std::string_view name) {
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i].name == name) return static_cast<Op>(i);
  return std::nullopt;
}

}  // namespace hologram::ir
