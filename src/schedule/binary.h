// schedule/binary.h: plans as bytes, for runtimes that do not plan.
#pragma once

#include "base/bytes.h"
#include "schedule/plan.h"

namespace hologram::schedule {

/// Writes what running takes: steps, slots, cache entries and outputs, and how many programs there
/// are with their fingerprints; not the programs. Of host calls their numbers and slots.
void encode(ByteWriter& out, const Plan& plan);
/// Reads it; `programs` stays empty. Throws Error(corrupt) for anything that names what is not
/// there.
Plan decode_plan(ByteReader& in);
/// An expression of symbols below `symbols` alone. Throws Error(corrupt).
Expr decode_expr(ByteReader& in, int symbols);

}  // namespace hologram::schedule
