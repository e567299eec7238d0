// ir/op.cpp: properties of operations.
#include "ir/op.h"

#include <array>

namespace hologram::ir {
namespace {

constexpr std::array<OpInfo, num_ops> table = {{
#define HOLOGRAM_OP(name, kind, arity, attributes, flags, doc) \
  {#name, OpKind::kind, arity, attributes, static_cast<uint8_t>(flags), doc},
#define HOLOGRAM_FUNCTION(name, kind, arity, flags, width, ulp32, ulp64, doc) \
  {#name, OpKind::kind, arity, "", static_cast<uint8_t>(flags), doc, ulp32, ulp64},
#include "ir/ops.def"
}};

}  // namespace

const OpInfo& info(Op op) { return table[static_cast<size_t>(op)]; }

std::optional<Op> op_from_name(std::string_view name) {
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i].name == name) return static_cast<Op>(i);
  return std::nullopt;
}

}  // namespace hologram::ir
