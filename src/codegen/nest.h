// codegen/nest.h: counted loops and conditions around scopes.
#pragma once

#include <functional>

#include "codegen/body.h"

namespace hologram::codegen {

/// Emits `for (i = begin; i < end; i += step)` at the end of `outer`; `fill` writes the body into
/// the scope it is given. `nonempty`: begin < end is known.
void emit_loop(Scope& outer, Value* begin, Value* end, Value* step, bool nonempty,
               const std::function<void(Scope&, Value*)>& fill);

/// The same with values carried from round to round: `fill` gets them and returns the next ones.
/// Returns those of the last round, or `initial` if there was none.
std::vector<Value*> emit_loop(
    Scope& outer, Value* begin, Value* end, Value* step, bool nonempty, std::vector<Value*> initial,
    const std::function<std::vector<Value*>(Scope&, Value*, std::vector<Value*>)>& fill);

/// Emits `if (condition) fill` at the end of `outer`; nothing at all when the condition is the
/// constant false, and no branch when it is the constant true.
void emit_if(Scope& outer, Value* condition, const std::function<void(Scope&)>& fill);

}  // namespace hologram::codegen
