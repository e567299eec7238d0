// tests/math/run_body.h: a body evaluated, one instruction after the other.
#pragma once

#include <vector>

#include "atlas/math.h"
#include "ir/scalar.h"

namespace hologram::atlas::math {

/// The bits of each instruction's value; load(buffer) gives those of a load.
template <class Load>
std::vector<uint64_t> values_of(const Body& body, const Load& load) {
  std::vector<uint64_t> values(body.instrs.size());
  for (size_t id = 0; id < values.size(); ++id) {
    const Instr& i = body.instrs[id];
    if (i.code == Code::load) values[id] = load(i.buffer);
    if (i.code == Code::constant) values[id] = i.bits;
    if (i.code == Code::lookup) values[id] = i.table[values[i.args[0]] % i.table.size()];
    if (i.code != Code::arithmetic) continue;
    std::vector<uint64_t> args;
    for (ValueId a : i.args)
      if (a != no_value) args.push_back(values[a]);
    const bool cast = ir::info(i.op).kind == ir::OpKind::cast;
    values[id] = ir::eval_scalar(i.op, cast ? i.from : i.type, args, result_type(i));
  }
  return values;
}

}  // namespace hologram::atlas::math
