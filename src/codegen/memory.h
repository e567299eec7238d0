// codegen/memory.h: loads and stores of bodies.
#pragma once

#include <optional>

#include "codegen/index.h"

namespace hologram::codegen {

/// buffer[expr] as seen by the lanes of `scope`; `guard` may be empty.
LaneValue emit_load(Scope& scope, const atlas::Instr& i, LaneValue guard,
                    const std::vector<LaneValue>& values);
void emit_store(Scope& scope, const atlas::Instr& i, LaneValue value, LaneValue guard,
                const std::vector<LaneValue>& values);

/// Address of lane 0 if the lanes of `scope` touch consecutive elements of the buffer.
std::optional<Value*> vector_address(Scope& scope, int buffer, const Expr& index);

/// Register and memory forms of b8 (all other types are the same).
Value* from_memory(Function& k, DType type, Value* x);
Value* to_memory(Function& k, DType type, Value* x);

}  // namespace hologram::codegen
